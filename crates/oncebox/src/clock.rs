//! The one place where the library learns the time. The program hands in a [`Clock`]; tests hand in one they move.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub type UnixMillis = i64;

/// Tells the wall-clock time, and how much time passed.
#[derive(Clone, Debug)]
pub struct Clock(Kind);

#[derive(Clone, Debug)]
enum Kind {
    System(Instant),
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// The machine's own clock.
    pub fn system() -> Self {
        Self(Kind::System(Instant::now()))
    }

    /// A clock that stands still until it is set.
    pub fn manual(start: UnixMillis) -> Self {
        Self(Kind::Manual(Arc::new(AtomicI64::new(start))))
    }

    /// Moves a manual clock; the system clock is not ours to move.
    pub fn set(&self, now: UnixMillis) {
        if let Kind::Manual(value) = &self.0 {
            value.store(now, Ordering::SeqCst);
        }
    }

    /// The time now.
    pub fn now(&self) -> UnixMillis {
        match &self.0 {
            Kind::System(_) => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)),
            Kind::Manual(value) => value.load(Ordering::SeqCst),
        }
    }
    /// The time since the clock was made, which no change of the wall clock moves.
    pub fn passed(&self) -> Duration {
        match &self.0 {
            Kind::System(start) => start.elapsed(),
            Kind::Manual(value) => Duration::from_millis(value.load(Ordering::SeqCst).unsigned_abs()),
        }
    }
}
