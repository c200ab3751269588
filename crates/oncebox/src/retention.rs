//! Retention: what is over goes, never early, one node at a time.
//!
//! The loop looks at the clocks a few times a minute, counts identities now and then, and runs when the schedule
//! says so. A clock that jumped stops all deletes, on every node, until a person confirms the time. Nothing else in the
//! system waits for any of this: without it rows only stay.

#[cfg(feature = "postgres")]
mod days;
mod guard;
mod metric;
#[cfg(feature = "postgres")]
mod partitions;
mod pass;
mod plan;
mod schedule;
mod windows;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

pub use guard::Boot;
pub use pass::Progress;
pub use schedule::Schedule;
pub use windows::{Window, Windows};

use guard::{Doubt, Sample};
use pass::{Done, Pass};
use windows::millis;

use crate::clock::{Clock, UnixMillis};
use crate::lane::background::{Running, Signals};
use crate::shutdown::Shutdown;
use crate::store::{RetentionRecord, RunRecord, Store, StoreError};

/// How often the clocks are looked at.
const POLL_EVERY: Duration = Duration::from_secs(20);
/// How often that is written down: a node that has nothing to do leaves the database alone.
const NOTE_EVERY: Duration = Duration::from_secs(600);
/// Identities are counted this far behind, so that whoever is just writing is not missed.
const WRITERS_MS: i64 = 60_000;
/// How far a clock may be behind without anybody minding.
const BEHIND_MIN_MS: i64 = 1000;
/// How long a record that ran out is still believed, so that whoever it is about can write it anew.
const BEHIND_GRACE_MS: i64 = 60 * 60 * 1000;

/// What retention is made of.
#[derive(Clone)]
pub struct Parts {
    /// The database.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// Tells which start of the machine this is; the library does not look itself.
    pub boot: Arc<dyn Fn() -> Option<Boot> + Send + Sync>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("store", &self.store).finish_non_exhaustive()
    }
}

/// What is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long things live.
    pub windows: Windows,
    /// When it runs.
    pub schedule: Schedule,
}

/// Why a run did not happen.
#[derive(Debug, thiserror::Error)]
pub enum NotRun {
    /// The time cannot be believed.
    #[error("nothing is deleted: {0}")]
    Doubtful(String),
    /// Another node is at it.
    #[error("another node is running it")]
    Elsewhere,
    /// Nobody ever said how long things live.
    #[error("no server ever said how long things live; start one first")]
    NoWindows,
    /// The database failed; what was removed is removed, and the next run goes on.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The running loop of one node.
#[derive(Debug)]
pub struct Retention {
    handle: Handle,
    running: Running<Settings>,
}

/// Asks the loop of this process for a run. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    asks: mpsc::Sender<oneshot::Sender<Result<RunRecord, NotRun>>>,
    progress: Progress,
    settings: watch::Receiver<Settings>,
}

impl Handle {
    /// Runs now and waits for the end.
    pub async fn run(&self) -> Result<RunRecord, NotRun> {
        let (answer, wait) = oneshot::channel();
        let gone = |_| NotRun::Store(StoreError::Disconnected("the server is stopping".into()));
        self.asks.send(answer).await.map_err(|_send| gone(()))?;
        wait.await.unwrap_or_else(|_dropped| Err(gone(())))
    }

    /// What is configured now.
    pub fn settings(&self) -> Settings {
        self.settings.borrow().clone()
    }

    /// How far the run that is under way came.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }
}

impl Retention {
    /// Starts it. A database that is away is waited for.
    pub fn start(parts: Parts, settings: Settings) -> Self {
        metric::show(&settings.windows);
        let (asks, asked) = mpsc::channel(1);
        let progress = Progress::default();
        let keeper = Keeper::new(parts, progress.clone());
        let running = Running::start(JoinSet::new(), settings, |signals| keeper.run(signals, asked));
        let handle = Handle { asks, progress, settings: running.config() };
        Self { handle, running }
    }

    /// Takes a changed config.
    pub fn set(&self, settings: Settings) {
        self.running.set(settings);
    }

    /// Where a run can be asked for.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Stops after the slice that is under way.
    pub async fn stop(self) {
        self.running.stop(Duration::ZERO).await;
    }
}

/// Looks once and runs, with the windows that the database knows: for a command where no server runs.
pub async fn run_once(parts: Parts, progress: Progress) -> Result<RunRecord, NotRun> {
    let mut keeper = Keeper::new(parts, progress);
    keeper.check_clocks().await?;
    keeper.pass(&Shutdown::new(), true).await
}

/// Makes the partitions of the days to come, so that the first payloads find theirs.
pub async fn prepare(store: &Store, clock: &Clock, windows: &Windows) -> Result<(), StoreError> {
    store.register_windows(&windows.records()).await?;
    #[cfg(feature = "postgres")]
    if let Some(lock) = store.lock_retention().await? {
        let now = store.database_time(clock.now()).await?;
        let (stopping, progress) = (Shutdown::new(), Progress::default());
        let (lock, stopping, progress) = (&lock, &stopping, &progress);
        let pass = Pass { store, clock, windows, lock, stopping, progress, now, started_at: now };
        partitions::make_ahead(&pass).await?;
    }
    #[cfg(not(feature = "postgres"))]
    let _ = clock;
    Ok(())
}

struct Keeper {
    parts: Parts,
    progress: Progress,
    before: Option<Sample>,
    /// What the latest look made of the time: with everything against it taken off, or why it is not believed.
    time: Result<(UnixMillis, UnixMillis), String>,
    /// When it last wrote down that it looked.
    noted_at: Option<Duration>,
}

impl Keeper {
    fn new(parts: Parts, progress: Progress) -> Self {
        Self { parts, progress, before: None, time: Err("nobody looked yet".to_owned()), noted_at: None }
    }

    async fn run(
        mut self,
        Signals { config: mut settings, stopping, .. }: Signals<Settings>,
        mut asked: mpsc::Receiver<oneshot::Sender<Result<RunRecord, NotRun>>>,
    ) {
        let mut due_at = None;
        let mut registered = false;
        while !stopping.requested() {
            if settings.has_changed().unwrap_or(false) {
                registered = false;
            }
            let now_set = settings.borrow_and_update().clone();
            let outcome = async {
                if !registered {
                    self.parts.store.register_windows(&now_set.windows.records()).await?;
                    registered = true;
                }
                self.check_clocks().await?;
                let Ok((_, now)) = self.time else { return Ok(()) };
                let due = match due_at {
                    Some(due) => due,
                    None => self.first_due(&now_set, now).await?,
                };
                due_at = Some(due);
                if now >= due {
                    self.scheduled(&now_set, &stopping).await?;
                    due_at = Some(now_set.schedule.next(&now_set.windows, now));
                }
                Ok::<_, StoreError>(())
            };
            if let Err(error) = outcome.await {
                tracing::warn!("retention failed, retrying: {}", error.chain());
            }
            let pause = now_set.schedule.pause(&now_set.windows).unwrap_or(POLL_EVERY).min(POLL_EVERY);
            tokio::select! {
                () = stopping.wait() => {}
                () = tokio::time::sleep(pause) => {}
                Ok(()) = settings.changed() => settings.mark_changed(),
                Some(answer) = asked.recv() => {
                    let outcome = match self.check_clocks().await {
                        Ok(()) => self.pass(&stopping, true).await,
                        Err(error) => Err(error.into()),
                    };
                    // Whoever asked may have hung up.
                    let _ = answer.send(outcome);
                }
            }
        }
    }

    /// A run that was missed, because nobody was there at its hour, is made up for at the start.
    async fn first_due(&self, settings: &Settings, now: UnixMillis) -> Result<UnixMillis, StoreError> {
        if settings.schedule.pause(&settings.windows).is_some() {
            return Ok(now);
        }
        let last = self.parts.store.runs(1).await?.first().map_or(now, |run| run.started_at);
        Ok(settings.schedule.next(&settings.windows, last))
    }

    async fn scheduled(&mut self, settings: &Settings, stopping: &Shutdown) -> Result<(), StoreError> {
        let is_daily = settings.schedule.pause(&settings.windows).is_none();
        match self.pass(stopping, is_daily).await {
            Ok(run) if run.removed.total() > 0 => {
                let tables: Vec<String> = run.removed.iter().map(|(table, rows)| format!("{rows} {table}")).collect();
                tracing::info!("retention removed {}", tables.join(", "));
            }
            Err(NotRun::Store(error)) => return Err(error),
            Ok(_) | Err(_) => {}
        }
        Ok(())
    }

    /// Looks at the clocks, writes down what it saw, and counts identities.
    async fn check_clocks(&mut self) -> Result<(), StoreError> {
        let Parts { store, clock, boot } = &self.parts;
        store.pass("retention.look").await?;
        let wall = clock.now();
        let stored = store.retention(wall).await?;
        let database = stored.time;
        let now = Sample { wall, database, passed: clock.monotonic(), boot: boot() };
        let doubt = guard::judge(self.before.as_ref(), &stored, &now);
        let behind = behind(&stored, guard::behind(doubt.as_ref(), &now));
        self.before = Some(now.clone());
        if behind != stored.behind {
            self.parts.store.note_behind(behind).await?;
        }
        let (store, boot) = (&self.parts.store, now.boot.as_ref().map(|boot| (boot.id.clone(), millis(boot.uptime))));
        self.time = match (&doubt, &stored.stopped) {
            (_, Some((_, why))) => Err(why.clone()),
            (Some(Doubt::Apart { .. }), None) => Err(doubt.as_ref().map(Doubt::sentence).unwrap_or_default()),
            (Some(doubt), None) => {
                let why = doubt.sentence();
                tracing::error!("retention stops: {why}; look at the clock, then `oncebox retention confirm`");
                store.stop_retention(database, &why).await?;
                Err(why)
            }
            (None, None) => Ok((database - behind.0, database)),
        };
        let written = database - behind.0 - WRITERS_MS;
        while store.has_slice_to_count(written).await? && store.count_ledger(written).await? {}
        if self.noted_at.is_none_or(|at| now.passed.saturating_sub(at) >= NOTE_EVERY) {
            if self.time.is_ok() {
                store.note_look(database, boot.as_ref()).await?;
            }
            while store.count_ledger(written).await? {}
            store.note_ledger_rows(database).await?;
            self.noted_at = Some(now.passed);
        }
        Ok(())
    }

    /// Runs, if the time is believed and nobody else runs. A run that removed nothing is logged only on demand.
    async fn pass(&mut self, stopping: &Shutdown, logged: bool) -> Result<RunRecord, NotRun> {
        let (now, started_at) = self.time.clone().map_err(NotRun::Doubtful)?;
        let Parts { store, clock, .. } = &self.parts;
        let windows = Windows::from_records(&store.windows().await?).ok_or(NotRun::NoWindows)?;
        let Some(lock) = store.lock_retention().await? else { return Err(NotRun::Elsewhere) };
        let progress = &self.progress;
        let pass = Pass { store, clock, windows: &windows, lock: &lock, stopping, progress, now, started_at };
        let mut done = Done::default();
        let outcome = pass.run(&mut done).await;
        let finished_at = match &outcome {
            Ok(()) => Some(store.database_time(clock.now()).await?),
            Err(_) => None,
        };
        let run = pass.record(&done, finished_at);
        if logged || run.removed.total() > 0 {
            store.note_run(&run).await?;
        }
        outcome.map(|()| run).map_err(NotRun::Store)
    }
}

/// The most that any node's clock was behind, for as long as something that it named may live.
fn behind(stored: &RetentionRecord, found: i64) -> (i64, UnixMillis) {
    let ((by, at), now) = (stored.behind, stored.time);
    let over_for = now - at - stored.remembers_ms.unwrap_or(0);
    match found {
        found if found > BEHIND_MIN_MS && (found >= by || over_for > 0) => (found, now),
        // A node whose clock is still behind writes it anew at its next look, and nobody deletes in between.
        _ if over_for > BEHIND_GRACE_MS && by > 0 => (0, now),
        _ => stored.behind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;
    const REMEMBERS: i64 = 30 * DAY;

    /// What stands there after a look that found this, so long after a record of three days was written.
    fn check(after: i64, found: i64, expected: (i64, UnixMillis)) {
        let stored = RetentionRecord {
            seen_at: None,
            boot: None,
            stopped: None,
            behind: (3 * DAY, 0),
            time: after,
            remembers_ms: Some(REMEMBERS),
        };
        assert_eq!(behind(&stored, found), expected, "{after} {found}");
    }

    #[test]
    fn a_clock_that_stays_behind_is_never_forgotten_in_between() {
        check(DAY, 0, (3 * DAY, 0));
        // Renewed by whoever it is about, long before it runs out.
        check(DAY, 3 * DAY, (3 * DAY, DAY));
        check(DAY, 2 * DAY, (3 * DAY, 0));
        // It ran out: another node's look must not come first.
        check(REMEMBERS + 1, 0, (3 * DAY, 0));
        check(REMEMBERS + 1, 2 * DAY, (2 * DAY, REMEMBERS + 1));
        check(REMEMBERS + BEHIND_GRACE_MS + 1, 0, (0, REMEMBERS + BEHIND_GRACE_MS + 1));
    }
}
