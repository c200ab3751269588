//! What a handler has in its hands: the event, the steps, the transaction.

use std::sync::Arc;

use super::Shared;
use super::steps::StepsDone;
use crate::database::verb::deliveries;
use crate::database::verb::deliveries::Finished;
use crate::database::verb::outbox;
use crate::database::{Claimed, Fence, Pool, StoreError, commit_or_fail, is_open};
use crate::delivery::handler_error::HandlerError;
use crate::embed::receive::Event;
use crate::event::EventKey;
use crate::message::Message;

/// One attempt of a delivery: the event, its steps, and the transaction that the effect is written in.
pub struct Context<P: Pool> {
    pub(super) shared: Shared<P>,
    pub(super) handler: Arc<str>,
    pub(super) fence: Fence,
    pub(super) key: EventKey,
    pub(super) steps: StepsDone,
    event: Event,
    attempt: u32,
    tx: Option<P::Tx>,
}

/// What became of the end of an attempt.
#[derive(Debug)]
pub(super) enum End {
    /// The effect and the mark are committed.
    Done,
    /// Somebody else has the delivery; everything was rolled back.
    LeaseLost,
    /// The handler ended the transaction that it was given; the delivery is not marked.
    Ended,
    /// Nothing is there, or nobody knows; then the lease settles it.
    Failed(HandlerError),
}

impl<P: Pool> Context<P> {
    pub(super) fn new(shared: Shared<P>, handler: Arc<str>, claimed: Claimed) -> Self {
        let (fence, key, attempt) = (claimed.fence, claimed.key, claimed.attempt);
        let event = Event::stored(claimed);
        Self { shared, handler, fence, key, steps: StepsDone::default(), event, attempt, tx: None }
    }

    /// The event.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Our own name for the event.
    pub fn key(&self) -> EventKey {
        self.key
    }

    /// This attempt, counted from 1 over the whole life of the delivery.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The transaction that commits together with the mark, opened when it is first asked for. Call nobody outside
    /// while it is open: that is what steps, before it, and the outbox, after it, are for.
    pub async fn tx(&mut self) -> Result<&mut P::Tx, HandlerError> {
        self.event_and_tx().await.map(|(_, tx)| tx)
    }

    /// The event and the transaction at once, for code that needs both.
    pub async fn event_and_tx(&mut self) -> Result<(&Event, &mut P::Tx), HandlerError> {
        let tx = match self.tx.take() {
            Some(tx) => tx,
            None => self.shared.pool.begin_marked().await?,
        };
        Ok((&self.event, self.tx.insert(tx)))
    }

    /// Writes an outbox message in the same transaction. Its key is made from the event, the handler, the destination and
    /// the step, so a retry or a replay never makes a second message.
    pub async fn send(&mut self, step: &str, message: Message) -> Result<(), HandlerError> {
        let message = message.step(self.fence.delivery, step);
        message.check().map_err(HandlerError::reject)?;
        let tx = self.tx().await?;
        outbox::send(tx, &message).await.map_err(Into::into)
    }

    pub(super) fn has_begun(&self) -> bool {
        self.tx.is_some()
    }

    /// Whether a handler that failed had ended its transaction before. One that its own SQL broke cannot be asked, and
    /// cannot have been ended.
    pub(super) async fn has_ended_tx(&mut self) -> bool {
        match &mut self.tx {
            Some(tx) => matches!(is_open(tx).await, Ok(false)),
            None => false,
        }
    }

    /// Marks the delivery done in the handler's own transaction and commits both.
    pub(super) async fn finish(mut self) -> Result<End, StoreError> {
        let now = self.shared.clock.now();
        let mut tx = match self.tx.take() {
            Some(tx) => tx,
            None => self.shared.pool.begin_marked().await?,
        };
        match deliveries::finish(&mut tx, self.fence, now).await? {
            Finished::Recorded => commit_or_fail::<P>(tx).await.map(|()| End::Done),
            Finished::LeaseLost => Ok(End::LeaseLost),
            Finished::Ended => Ok(End::Ended),
        }
    }
}

impl<P: Pool> std::fmt::Debug for Context<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Context");
        out.field("handler", &self.handler).field("key", &self.key).field("attempt", &self.attempt);
        out.finish_non_exhaustive()
    }
}
