//! Writes down how calls ended, many in one commit: those that end during a commit share the next one.
//!
//! What cannot be written is tried again for as long as the lease is likely ours. After that somebody else will make
//! the call again, under the same key.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::clock::Clock;
use crate::event::EventKey;
use crate::limits::ENDED_MAX;
use crate::store::{Claimed, Commit, Failure, Fence, Fenced, Finished, Store, StoreError};

/// How often a write is tried before it is left to the end of the lease.
const TRIES_MAX: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);

/// How a call ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) claim: Arc<Claimed>,
    /// What failed; none when it is done.
    pub(super) failure: Option<Failure>,
    pub(super) answer: oneshot::Sender<Closed>,
}

/// Whether that was written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    Recorded,
    LeaseLost,
    /// The database did not take it.
    Unwritten,
}

/// Hands calls that ended to the one who writes them down. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Completer(mpsc::Sender<Ended>);

impl Completer {
    /// The writer's end and the future that writes; it ends with the last [`Completer`].
    pub(super) fn new(store: Store, clock: Clock) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, receiver) = mpsc::channel(ENDED_MAX);
        (Self(sender), run(store, clock, receiver))
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

async fn run(store: Store, clock: Clock, mut ended: mpsc::Receiver<Ended>) {
    let mut batch = Vec::with_capacity(ENDED_MAX);
    while ended.recv_many(&mut batch, ENDED_MAX).await > 0 {
        let batch = std::mem::take(&mut batch);
        let outcomes = close(&store, &clock, &batch).await;
        for (one, outcome) in batch.into_iter().zip(outcomes) {
            // Nobody waits only when the worker was stopped.
            let _ = one.answer.send(outcome);
        }
    }
}

async fn close(store: &Store, clock: &Clock, batch: &[Ended]) -> Vec<Closed> {
    let mut lost = HashSet::new();
    for nth in 1..=TRIES_MAX {
        match try_close(store, clock, batch, &lost).await {
            Ok(Tried::Committed(outcomes)) => return outcomes,
            Ok(Tried::LeaseLost(deliveries)) => lost.extend(deliveries),
            Err(error) => {
                tracing::warn!("{} ended calls wait for the database (try {nth}): {}", batch.len(), error.chain());
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    vec![Closed::Unwritten; batch.len()]
}

enum Tried {
    Committed(Vec<Closed>),
    LeaseLost(Vec<EventKey>),
}

async fn try_close(
    store: &Store,
    clock: &Clock,
    batch: &[Ended],
    lost: &HashSet<EventKey>,
) -> Result<Tried, StoreError> {
    let now = clock.now();
    let is_lost = |one: &Ended| lost.contains(&one.claim.fence.delivery);
    let done = batch.iter().filter(|one| one.failure.is_none() && !is_lost(one)).map(|one| one.claim.fence);
    let done: Vec<Fence> = done.collect();
    let mut tx = store.begin().await?;
    if !done.is_empty()
        && let Finished::LeaseLost(deliveries) = tx.finish(&done, now).await?
    {
        tx.rollback().await;
        return Ok(Tried::LeaseLost(deliveries));
    }
    let mut outcomes = vec![Closed::Recorded; batch.len()];
    let mut failed: Vec<(usize, &Failure)> =
        batch.iter().enumerate().filter_map(|(index, one)| Some((index, one.failure.as_ref()?))).collect();
    failed.sort_by_key(|(_, failure)| failure.fence.delivery);
    for (index, failure) in failed {
        if tx.fail(failure, now).await? == Fenced::LeaseLost {
            outcomes[index] = Closed::LeaseLost;
        }
    }
    match tx.commit().await {
        Commit::Committed => {}
        Commit::Failed(error) | Commit::Unknown(error) => return Err(error),
    }
    for (one, outcome) in batch.iter().zip(&mut outcomes).filter(|(one, _)| is_lost(one)) {
        // An earlier try whose result was unknown may have come through after all.
        let finished = store.was_finished(one.claim.fence).await?;
        *outcome = if finished { Closed::Recorded } else { Closed::LeaseLost };
    }
    Ok(Tried::Committed(outcomes))
}
