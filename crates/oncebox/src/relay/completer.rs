//! What the completer writes down about messages. Nobody but the next message of an order key waits for a mark, so that a
//! small batch waits a moment for company.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::{End, Ended};
use super::metric;
use crate::clock::{Clock, UnixMillis};
use crate::event::MessageKey;
use crate::lane::completer::{self, Closed};
use crate::store::{Fenced, MessageFence, Sent, SentMarks, Store, StoreError, Tx};
use crate::wake::Wake;

impl completer::Ended for Ended {
    type Key = MessageKey;
    const COMMITTED: &'static str = "outbox.marked";

    fn key(&self) -> MessageKey {
        self.message.fence.id
    }

    fn succeeded(&self) -> bool {
        matches!(self.end, End::Sent(_))
    }

    fn is_awaited(&self) -> bool {
        self.is_followed
    }

    async fn mark(tx: &mut Tx, succeeded: &[&Self], now: UnixMillis) -> Result<Vec<MessageKey>, StoreError> {
        let sent = |one: &&Self| if let End::Sent(sent) = &one.end { Some(sent.clone()) } else { None };
        let sent: Vec<Sent> = succeeded.iter().filter_map(sent).collect();
        match tx.sent(&sent, now).await? {
            SentMarks::All => Ok(Vec::new()),
            SentMarks::LeaseLost(ids) => Ok(ids),
        }
    }

    async fn fail(&self, tx: &mut Tx, now: UnixMillis) -> Result<Fenced, StoreError> {
        match &self.end {
            End::Failed(failure) => tx.fail_message(failure, now).await,
            End::Sent(_) | End::NotMade | End::Unknown => Ok(Fenced::Recorded),
        }
    }

    async fn was_marked(&self, store: &Store) -> Result<bool, StoreError> {
        store.was_sent(self.message.fence).await
    }
}

/// Leaves the numbers and lines of a batch, and wakes those behind it.
pub(super) fn report(wake: &Wake, batch: &[Ended], outcomes: &[Closed]) {
    let mut followed: Vec<Arc<str>> = Vec::new();
    for (one, outcome) in batch.iter().zip(outcomes) {
        match outcome {
            Closed::Recorded => match &one.end {
                End::Sent(_) => metric::sent(&one.message),
                End::Failed(failure) => metric::failed(&one.message, failure.next, &failure.error),
                End::NotMade | End::Unknown => {}
            },
            Closed::LeaseLost => metric::lost(&one.message),
            Closed::Unwritten => metric::unwritten(&one.message),
        }
        if one.is_followed && *outcome == Closed::Recorded {
            followed.push(one.message.destination.as_str().into());
        }
    }
    // The next of their keys may go.
    wake.destinations(&followed);
}

/// Puts claims back in line without using an attempt; where that fails, the end of the lease does it.
pub(super) async fn give_back(store: Store, clock: Clock, fences: Vec<MessageFence>, pause: Duration) {
    if fences.is_empty() {
        return;
    }
    if let Err(error) = store.give_back_messages(&fences, pause, clock.now()).await {
        tracing::warn!(
            "{} messages could not be given back and expire with their lease: {}",
            fences.len(),
            error.chain()
        );
    }
}
