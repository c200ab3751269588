//! Writes down how attempts ended, many in one commit: those that end during a commit share the next one, and nobody but the
//! next message of an order key waits for a mark, so that a small batch waits a moment for company.
//!
//! What cannot be written is tried again for as long as the lease is likely ours. After that somebody sends the message
//! again, under the same key.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::attempt::{End, Ended};
use super::metric::{self, Outcome};
use crate::clock::Clock;
use crate::delivery::Next;
use crate::event::EventKey;
use crate::limits::MARKS_MAX;
use crate::store::{ClaimedMessage, Commit, Fenced, MessageFence, Sent, SentMarks, Store, StoreError};
use crate::wake::Wake;

/// How often a write is tried before it is left to the end of the lease.
const TRIES_MAX: u32 = 20;
/// How long a small batch waits: a flush costs as much for one mark as for hundreds.
const GATHER: Duration = Duration::from_millis(5);
const PAUSE: Duration = Duration::from_millis(250);

/// What writing down needs.
#[derive(Debug)]
pub(super) struct Completer {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) wake: Wake,
}

/// Whether an end was written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closed {
    Recorded,
    LeaseLost,
    /// The database did not take it.
    Unwritten,
}

enum Tried {
    Committed(Vec<Closed>),
    LeaseLost(Vec<EventKey>),
}

impl Completer {
    /// Writes until nobody can hand anything in any more.
    pub(super) async fn run(self, mut ended: mpsc::Receiver<Ended>) {
        let mut batch = Vec::with_capacity(MARKS_MAX);
        while ended.recv_many(&mut batch, MARKS_MAX).await > 0 {
            if batch.len() < MARKS_MAX / 2 && !batch.iter().any(|one: &Ended| one.is_followed) {
                tokio::time::sleep(GATHER).await;
                while batch.len() < MARKS_MAX
                    && let Ok(one) = ended.try_recv()
                {
                    batch.push(one);
                }
            }
            let batch = std::mem::take(&mut batch);
            let outcomes = self.close(&batch).await;
            self.report(&batch, &outcomes);
        }
    }

    async fn close(&self, batch: &[Ended]) -> Vec<Closed> {
        let mut lost = HashSet::new();
        for nth in 1..=TRIES_MAX {
            match self.try_close(batch, &lost).await {
                Ok(Tried::Committed(outcomes)) => return outcomes,
                Ok(Tried::LeaseLost(ids)) => lost.extend(ids),
                Err(error) => {
                    tracing::warn!("{} ended calls wait for the database (try {nth}): {}", batch.len(), error.chain());
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        vec![Closed::Unwritten; batch.len()]
    }

    async fn try_close(&self, batch: &[Ended], lost: &HashSet<EventKey>) -> Result<Tried, StoreError> {
        let now = self.clock.now();
        let sent: Vec<Sent> = batch.iter().filter_map(|one| mark_of(one, lost)).cloned().collect();
        let mut tx = self.store.begin().await?;
        if !sent.is_empty()
            && let SentMarks::LeaseLost(ids) = tx.sent(&sent, now).await?
        {
            return Ok(Tried::LeaseLost(ids));
        }
        let mut outcomes = vec![Closed::Recorded; batch.len()];
        let mut order: Vec<usize> = (0..batch.len()).collect();
        order.sort_by_key(|index| batch[*index].message.fence.id);
        for index in order {
            if let End::Failed(failure) = &batch[index].end
                && tx.fail_message(failure, now).await? == Fenced::LeaseLost
            {
                outcomes[index] = Closed::LeaseLost;
            }
        }
        match tx.commit().await {
            Commit::Committed => {}
            Commit::Failed(error) | Commit::Unknown(error) => return Err(error),
        }
        self.store.pass("outbox.marked").await?;
        for (one, outcome) in batch.iter().zip(&mut outcomes).filter(|(one, _)| lost.contains(&one.message.fence.id)) {
            // An earlier try whose result was unknown may have come through after all.
            let was_sent = self.store.was_sent(one.message.fence).await?;
            *outcome = if was_sent { Closed::Recorded } else { Closed::LeaseLost };
        }
        Ok(Tried::Committed(outcomes))
    }

    fn report(&self, batch: &[Ended], outcomes: &[Closed]) {
        let mut followed: Vec<Arc<str>> = Vec::new();
        for (one, outcome) in batch.iter().zip(outcomes) {
            match outcome {
                Closed::Recorded => recorded(&one.message, &one.end),
                Closed::LeaseLost => metric::lost(&one.message),
                Closed::Unwritten => metric::unwritten(&one.message),
            }
            if one.is_followed && *outcome == Closed::Recorded {
                followed.push(one.message.destination.as_str().into());
            }
        }
        // The next of their keys may go.
        self.wake.destinations(&followed);
    }
}

fn mark_of<'a>(one: &'a Ended, lost: &HashSet<EventKey>) -> Option<&'a Sent> {
    match &one.end {
        End::Sent(sent) if !lost.contains(&sent.fence.id) => Some(sent),
        _ => None,
    }
}

fn recorded(message: &ClaimedMessage, end: &End) {
    match end {
        End::Sent(_) => metric::ended(message, Outcome::Sent, ""),
        End::Failed(failure) => {
            let dead = !matches!(failure.next, Next::Retry { .. });
            metric::ended(message, if dead { Outcome::Dead } else { Outcome::Failed }, &failure.error);
        }
        End::NotMade | End::Unknown => {}
    }
}

/// Puts claims back in line without using an attempt; where that fails, the end of the lease does it.
pub(super) async fn give_back(store: Store, clock: Clock, fences: Vec<MessageFence>, pause: Duration) {
    if fences.is_empty() {
        return;
    }
    if let Err(error) = store.give_back_messages(&fences, pause, clock.now()).await {
        tracing::warn!("{} messages end with their lease: {}", fences.len(), error.chain());
    }
}
