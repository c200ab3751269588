//! Writes down how attempts ended, many in one commit: those that end during a commit share the next one.
//!
//! What cannot be written is tried again for as long as the lease is likely ours. After that somebody else makes the
//! attempt again, under the same key.

use std::collections::HashSet;
use std::hash::Hash;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::clock::{Clock, UnixMillis};
use crate::store::{Fenced, Store, StoreError, Tx};

/// How often a write is tried before it is left to the end of the lease.
pub(crate) const TRIES_MAX: u32 = 20;
pub(crate) const PAUSE: Duration = Duration::from_millis(250);
/// How long a small batch waits for company: a flush costs as much for one mark as for hundreds.
const GATHER: Duration = Duration::from_millis(5);

/// Whether an end was written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    Recorded,
    LeaseLost,
    /// The database did not take it.
    Unwritten,
}

/// An attempt that ended, as it is written down together with others.
pub(crate) trait Ended: Send + Sync + Sized + 'static {
    type Key: Copy + Eq + Hash + Ord + Send + Sync;

    /// The fault point behind a commit.
    const COMMITTED: &'static str;

    fn key(&self) -> Self::Key;

    fn succeeded(&self) -> bool;

    /// Whether somebody waits until it is written down.
    fn is_awaited(&self) -> bool;

    /// Marks those that succeeded, and says which of them somebody else has by now: then nothing may be committed.
    fn mark(
        tx: &mut Tx,
        succeeded: &[&Self],
        now: UnixMillis,
    ) -> impl Future<Output = Result<Vec<Self::Key>, StoreError>> + Send;

    /// Records one that failed.
    fn fail(&self, tx: &mut Tx, now: UnixMillis) -> impl Future<Output = Result<Fenced, StoreError>> + Send;

    /// Whether it was marked under its own token.
    fn was_marked(&self, store: &Store) -> impl Future<Output = Result<bool, StoreError>> + Send;
}

/// Writes until nobody can hand anything in any more; `report` is told how each batch went.
pub(crate) async fn run<E: Ended>(
    store: Store,
    clock: Clock,
    mut ended: mpsc::Receiver<E>,
    report: impl Fn(Vec<E>, Vec<Closed>),
) {
    let most = ended.max_capacity();
    let mut batch = Vec::with_capacity(most);
    while ended.recv_many(&mut batch, most).await > 0 {
        if batch.len() < most / 2 && !batch.iter().any(E::is_awaited) {
            tokio::time::sleep(GATHER).await;
            while batch.len() < most
                && let Ok(one) = ended.try_recv()
            {
                batch.push(one);
            }
        }
        let outcomes = close(&store, &clock, &batch).await;
        report(std::mem::take(&mut batch), outcomes);
    }
}

async fn close<E: Ended>(store: &Store, clock: &Clock, batch: &[E]) -> Vec<Closed> {
    let mut lost = HashSet::new();
    for nth in 1..=TRIES_MAX {
        match try_close(store, clock, batch, &lost).await {
            Ok(Tried::Committed(outcomes)) => return outcomes,
            Ok(Tried::LeaseLost(keys)) => lost.extend(keys),
            Err(error) => {
                tracing::warn!("{} results could not be written, retrying (try {nth}): {}", batch.len(), error.chain());
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    vec![Closed::Unwritten; batch.len()]
}

enum Tried<K> {
    Committed(Vec<Closed>),
    LeaseLost(Vec<K>),
}

async fn try_close<E: Ended>(
    store: &Store,
    clock: &Clock,
    batch: &[E],
    lost: &HashSet<E::Key>,
) -> Result<Tried<E::Key>, StoreError> {
    let now = clock.now();
    let is_lost = |one: &E| lost.contains(&one.key());
    let succeeded: Vec<&E> = batch.iter().filter(|one| one.succeeded() && !is_lost(one)).collect();
    let mut tx = store.begin().await?;
    if !succeeded.is_empty() {
        let lost = E::mark(&mut tx, &succeeded, now).await?;
        if !lost.is_empty() {
            tx.rollback().await;
            return Ok(Tried::LeaseLost(lost));
        }
    }
    let mut outcomes = vec![Closed::Recorded; batch.len()];
    let mut failed: Vec<(usize, &E)> = batch.iter().enumerate().filter(|(_, one)| !one.succeeded()).collect();
    failed.sort_by_key(|(_, one)| one.key());
    for (index, one) in failed {
        if one.fail(&mut tx, now).await? == Fenced::LeaseLost {
            outcomes[index] = Closed::LeaseLost;
        }
    }
    tx.commit_or_fail().await?;
    store.pass(E::COMMITTED).await?;
    for (one, outcome) in batch.iter().zip(&mut outcomes).filter(|(one, _)| is_lost(one)) {
        // An earlier try whose result was unknown may have come through after all.
        *outcome = if one.was_marked(store).await? { Closed::Recorded } else { Closed::LeaseLost };
    }
    Ok(Tried::Committed(outcomes))
}
