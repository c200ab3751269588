//! Hands calls that ended to the one who writes them down, and waits until that is done.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::clock::{Clock, UnixMillis};
use crate::event::DeliveryKey;
use crate::lane::completer::{self, Closed};
use crate::limits::ENDED_MAX;
use crate::store::{Claimed, Failure, Fence, Fenced, Finished, Store, StoreError, Tx};

/// How a call ended.
#[derive(Debug)]
struct Ended {
    claim: Arc<Claimed>,
    /// What failed; none when it is done.
    failure: Option<Failure>,
    answer: oneshot::Sender<Closed>,
}

/// Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Completer(mpsc::Sender<Ended>);

impl Completer {
    /// The writer's end and the future that writes; it ends with the last [`Completer`].
    pub(super) fn new(store: Store, clock: Clock) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, ended) = mpsc::channel(ENDED_MAX);
        (Self(sender), completer::run(store, clock, ended, report))
    }

    /// Waits until the end of a call is written down.
    pub(super) async fn close(&self, claim: Arc<Claimed>, failure: Option<Failure>) -> Closed {
        let (answer, wait) = oneshot::channel();
        if self.0.send(Ended { claim, failure, answer }).await.is_err() {
            return Closed::Unwritten;
        }
        wait.await.unwrap_or(Closed::Unwritten)
    }
}

fn report(batch: Vec<Ended>, outcomes: Vec<Closed>) {
    for (one, outcome) in batch.into_iter().zip(outcomes) {
        // Nobody waits only when the worker was stopped.
        let _ = one.answer.send(outcome);
    }
}

impl completer::Ended for Ended {
    type Key = DeliveryKey;
    const COMMITTED: &'static str = "deliveries.marked";

    fn key(&self) -> DeliveryKey {
        self.claim.fence.delivery
    }

    fn succeeded(&self) -> bool {
        self.failure.is_none()
    }

    fn is_awaited(&self) -> bool {
        true
    }

    async fn mark(tx: &mut Tx, succeeded: &[&Self], now: UnixMillis) -> Result<Vec<DeliveryKey>, StoreError> {
        let fences: Vec<Fence> = succeeded.iter().map(|one| one.claim.fence).collect();
        match tx.finish(&fences, now).await? {
            Finished::All => Ok(Vec::new()),
            Finished::LeaseLost(deliveries) => Ok(deliveries),
        }
    }

    async fn fail(&self, tx: &mut Tx, now: UnixMillis) -> Result<Fenced, StoreError> {
        match &self.failure {
            Some(failure) => tx.fail(failure, now).await,
            None => Ok(Fenced::Recorded),
        }
    }

    async fn was_marked(&self, store: &Store) -> Result<bool, StoreError> {
        store.was_finished(self.claim.fence).await
    }
}
