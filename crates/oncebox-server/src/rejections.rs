//! The last rejections, in memory: an unverified request leaves no trace in the store. No body, no signature, no secret.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use oncebox::clock::{Clock, UnixMillis};
use oncebox::limits::REJECTIONS_MAX;
use oncebox::verdict::Rejection;

/// Lines a second in the log; the metrics count the rest.
const LINES_PER_SECOND: u32 = 10;

/// One refused request.
#[derive(Clone, Debug)]
pub(crate) struct Rejected {
    /// When.
    pub(crate) at: UnixMillis,
    /// The source's name.
    pub(crate) source: String,
    /// Where and why.
    pub(crate) rejection: Rejection,
    /// From where.
    pub(crate) remote: String,
}

/// The bounded log. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Rejections {
    kept: Arc<Mutex<Kept>>,
    clock: Clock,
}

#[derive(Debug)]
struct Kept {
    last: VecDeque<Rejected>,
    second: Instant,
    lines: u32,
}

impl Rejections {
    /// An empty log.
    pub(crate) fn new(clock: Clock) -> Self {
        let kept = Kept { last: VecDeque::new(), second: Instant::now(), lines: 0 };
        Self { kept: Arc::new(Mutex::new(kept)), clock }
    }

    /// Keeps one, dropping the oldest where the log is full.
    pub(crate) fn record(&self, source: &str, rejection: &Rejection, remote: &str) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.last.len() == REJECTIONS_MAX {
            kept.last.pop_front();
        }
        kept.last.push_back(Rejected {
            at: self.clock.now(),
            source: source.to_owned(),
            rejection: *rejection,
            remote: remote.to_owned(),
        });
        if kept.may_log() {
            let (step, reason) = (rejection.step.as_str(), rejection.reason.as_str());
            tracing::warn!(source, step, reason, remote, off_by_seconds = rejection.off_by_seconds, "rejected");
        }
    }

    /// The latest first.
    pub(crate) fn latest(&self, limit: usize) -> Vec<Rejected> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.last.iter().rev().take(limit).cloned().collect()
    }
}

impl Kept {
    fn may_log(&mut self) -> bool {
        if self.second.elapsed() >= Duration::from_secs(1) {
            if self.lines > LINES_PER_SECOND {
                tracing::warn!("{} more rejections in that second", self.lines - LINES_PER_SECOND);
            }
            (self.second, self.lines) = (Instant::now(), 0);
        }
        self.lines += 1;
        self.lines <= LINES_PER_SECOND
    }
}
