//! One run: everything that is over goes, in slices of short transactions with a pause after each.
//!
//! Payloads go first, then events that have none any more, so that whoever wants to run an event again finds either its
//! payload or a plain refusal. Each slice is complete in itself: killed anywhere, the next run goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::windows::{Window, Windows, before, end_of};
use super::{metric, plan};
use crate::clock::{Clock, UnixMillis};
use crate::event::{DeliveryKey, EventKey};
use crate::shutdown::Shutdown;
use crate::store::{Aged, Removed, RetentionLock, RunRecord, Store, StoreError, Trail};

/// Rows looked at, and at most removed, in one short transaction.
pub(super) const SLICE: i64 = 1000;
/// The audit log is kept for a year, or as long as identities where that is longer.
const AUDIT: Duration = Duration::from_secs(365 * 86_400);
/// The shortest pause between two slices; the usual one is as long as the slice took, so that others have half the time.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// How far a run came, in thousandths. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// How much of the run is over, in thousandths.
    pub fn thousandths(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, thousandths: u64) {
        self.0.store(thousandths.min(1000), Ordering::Relaxed);
    }
}

pub(super) struct Pass<'a> {
    pub(super) store: &'a Store,
    pub(super) clock: &'a Clock,
    pub(super) windows: &'a Windows,
    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "held, and asked by partitions alone"))]
    pub(super) lock: &'a RetentionLock,
    pub(super) stopping: &'a Shutdown,
    pub(super) progress: &'a Progress,
    /// The time by which things age, believed and with everything against it already taken off.
    pub(super) now: UnixMillis,
    /// The database's time at the start, unchanged.
    pub(super) started_at: UnixMillis,
}

#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) removed: Removed,
    pub(super) kept: i64,
}

impl Pass<'_> {
    /// Runs to the end, or until it is asked to stop. What was done before an error is in `done` all the same.
    pub(super) async fn run(&self, done: &mut Done) -> Result<(), StoreError> {
        self.progress.set(0);
        #[cfg(feature = "postgres")]
        self.partitions(done).await?;
        self.payloads(done).await?;
        self.progress.set(500);
        self.trail(Trail::Attempts, done).await?;
        self.trail(Trail::Steps, done).await?;
        self.progress.set(600);
        self.events(done).await?;
        self.progress.set(900);
        for (aged, until) in by_their_own_time(self.windows, self.now) {
            self.aged(aged, until, done).await?;
        }
        while !self.stopping.requested() && self.politely(self.store.reclaim_space()).await? {}
        self.progress.set(1000);
        Ok(())
    }

    pub(super) fn record(&self, done: &Done, finished_at: Option<UnixMillis>) -> RunRecord {
        RunRecord { started_at: self.started_at, finished_at, removed: done.removed.clone(), kept: done.kept }
    }

    async fn payloads(&self, done: &mut Done) -> Result<(), StoreError> {
        let end = end_of(self.windows.shortest(|one| one.payload), self.now);
        let mut after = EventKey::at(0);
        while !self.stopping.requested() {
            let rows = self.store.aged_payloads(after, end, SLICE).await?;
            let (Some(first), Some(last)) = (rows.first(), rows.last()) else { break };
            let open = self.store.open_keys(first.key, last.key).await?;
            let found = plan::payloads(&rows, &open, self.windows, self.now);
            after = last.key;
            done.kept += i64::try_from(found.needed.len()).unwrap_or(i64::MAX);
            let removed = self.politely(self.store.remove_payloads(found.over)).await?;
            self.count(done, "payloads", removed);
        }
        Ok(())
    }

    async fn events(&self, done: &mut Done) -> Result<(), StoreError> {
        let end = end_of(self.windows.shortest(|one| one.ledger), self.now);
        let mut after = EventKey::at(0);
        while !self.stopping.requested() {
            let rows = self.store.aged_events(after, end, SLICE).await?;
            let (Some(first), Some(last)) = (rows.first().map(|row| row.key), rows.last().map(|row| row.key)) else {
                break;
            };
            let open = self.store.open_keys(first, last).await?;
            let over = plan::events(rows, &open, self.windows, self.now);
            after = last;
            let removed = self.politely(self.store.remove_events(&over)).await?;
            removed.iter().for_each(|(table, rows)| self.count(done, table, rows));
        }
        Ok(())
    }

    async fn trail(&self, trail: Trail, done: &mut Done) -> Result<(), StoreError> {
        let end = end_of(self.windows.shortest(|one| one.payload), self.now);
        let mut after = DeliveryKey::at(0);
        while !self.stopping.requested() {
            let rows = self.store.aged_trail(trail, after, end, SLICE).await?;
            let Some(last) = rows.last().map(|row| row.delivery) else { break };
            let over = plan::trail(&rows, self.windows, self.now);
            after = last;
            let removed = self.politely(self.store.remove_trail(trail, over)).await?;
            self.count(done, trail.table(), removed);
        }
        Ok(())
    }

    async fn aged(&self, aged: Aged, until: UnixMillis, done: &mut Done) -> Result<(), StoreError> {
        while !self.stopping.requested() {
            let removed = self.politely(self.store.remove_aged(aged, until, SLICE)).await?;
            self.count(done, aged.table(), removed);
            if removed == 0 {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn count(&self, done: &mut Done, table: &str, rows: u64) {
        metric::purged(table, rows);
        done.removed.add(table, rows);
    }

    /// Does a slice and then leaves the database to others for as long as it took.
    pub(super) async fn politely<T>(
        &self,
        slice: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let started = self.clock.monotonic();
        let outcome = slice.await;
        let took = self.clock.monotonic().saturating_sub(started);
        tokio::select! {
            () = tokio::time::sleep(took.clamp(PAUSE_MIN, PAUSE_MAX)) => {}
            () = self.stopping.wait() => {}
        }
        outcome
    }
}

/// What is removed by a time of its own. A message's key keeps a second one away, and a version an older one, so both live
/// as long as identities do.
pub(super) fn by_their_own_time(windows: &Windows, now: UnixMillis) -> [(Aged, UnixMillis); 10] {
    let Window { ledger, payload } = windows.general();
    let identities = windows.longest(|one| one.ledger);
    let (payload, longest, audit) = (before(now, payload), before(now, identities), before(now, identities.max(AUDIT)));
    [
        (Aged::Remembered, before(now, ledger)),
        (Aged::MessageAnswers, payload),
        (Aged::MessageAttempts, payload),
        (Aged::Messages, longest),
        (Aged::Versions, longest),
        (Aged::Changes, now),
        (Aged::Prerequisites, longest),
        (Aged::Nodes, longest),
        (Aged::Actions, audit),
        (Aged::Runs, audit),
    ]
}
