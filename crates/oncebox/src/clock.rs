//! The one place where the library learns the time. The program hands in a [`Clock`]; tests hand in one that they move.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use oncebox_verify::UnixMillis;

/// Tells the wall-clock time, and how much time passed.
#[derive(Clone, Debug)]
pub struct Clock(Kind);

#[derive(Clone, Debug)]
enum Kind {
    System(Instant),
    Manual(Arc<ManualTime>),
}

/// A manual clock: the time that passed, and how far the wall clock was moved besides.
#[derive(Debug)]
struct ManualTime {
    passed: AtomicI64,
    moved: AtomicI64,
}

/// How long something may still take, by a clock that nobody sets.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
#[derive(Debug)]
pub(crate) struct Countdown {
    since: Instant,
    limit: Duration,
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl Countdown {
    /// Begins now.
    pub(crate) fn from(limit: Duration) -> Self {
        Self { since: Instant::now(), limit }
    }

    /// What is left of it.
    pub(crate) fn left(&self) -> Duration {
        self.limit.saturating_sub(self.since.elapsed())
    }
}

impl Clock {
    /// The machine's own clock.
    pub fn system() -> Self {
        Self(Kind::System(Instant::now()))
    }

    /// A clock that stands still until it is set.
    pub fn manual(start: UnixMillis) -> Self {
        Self(Kind::Manual(Arc::new(ManualTime { passed: AtomicI64::new(start), moved: AtomicI64::new(0) })))
    }

    /// Moves a manual clock; the system clock is not ours to move.
    pub fn set(&self, now: UnixMillis) {
        if let Kind::Manual(time) = &self.0 {
            time.passed.store(now - time.moved.load(Ordering::SeqCst), Ordering::SeqCst);
        }
    }

    /// Moves the wall clock of a manual clock by so many milliseconds while no time passes.
    pub fn jump(&self, by: UnixMillis) {
        if let Kind::Manual(time) = &self.0 {
            time.moved.fetch_add(by, Ordering::SeqCst);
        }
    }

    /// The time now.
    pub fn now(&self) -> UnixMillis {
        match &self.0 {
            Kind::System(_) => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)),
            Kind::Manual(time) => time.passed.load(Ordering::SeqCst) + time.moved.load(Ordering::SeqCst),
        }
    }

    /// The time since the clock was made, which no change of the wall clock moves.
    pub fn monotonic(&self) -> Duration {
        match &self.0 {
            Kind::System(start) => start.elapsed(),
            Kind::Manual(time) => Duration::from_millis(time.passed.load(Ordering::SeqCst).unsigned_abs()),
        }
    }
}
