//! How far our clock is from those of the senders, by the times that they sign. One sender may be wrong; when the median
//! of many is off, it is us.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, UnixMillis};

const KEPT_MAX: usize = 64;
/// What is older says nothing about now.
const FRESH: Duration = Duration::from_secs(600);

/// The signed times of the latest accepted requests, held against ours. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct SenderClock(Arc<Mutex<VecDeque<(Duration, i64)>>>);

/// How far our clock is ahead of the senders', in milliseconds; negative where it is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skew {
    /// Half of them are below.
    pub median: i64,
    /// The one farthest from zero.
    pub farthest: i64,
}

impl SenderClock {
    /// Notes a time that was signed and accepted just now.
    pub(super) fn note(&self, signed_at: UnixMillis, clock: &Clock) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back((clock.monotonic(), clock.now().saturating_sub(signed_at)));
    }

    /// What the latest ones say; none where nothing was signed lately.
    pub fn skew(&self, clock: &Clock) -> Option<Skew> {
        let now = clock.monotonic();
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = kept.iter().filter(|(at, _)| now.saturating_sub(*at) <= FRESH);
        let mut offs: Vec<i64> = fresh.map(|(_, off)| *off).collect();
        drop(kept);
        offs.sort_unstable();
        let farthest = offs.iter().copied().max_by_key(|off| off.unsigned_abs())?;
        Some(Skew { median: offs[offs.len() / 2], farthest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(offs: &[i64], expected: Option<(i64, i64)>) {
        let clock = Clock::manual(1_731_700_000_000);
        let sender = SenderClock::default();
        offs.iter().for_each(|off| sender.note(clock.now() - off, &clock));
        let expected = expected.map(|(median, farthest)| Skew { median, farthest });
        assert_eq!(sender.skew(&clock), expected, "{offs:?}");
    }

    #[test]
    fn the_median_does_not_follow_one_wrong_sender() {
        check(&[], None);
        check(&[700], Some((700, 700)));
        check(&[100, 200, -250_000], Some((100, -250_000)));
        check(&[0, 0, 120_000, 121_000, 122_000], Some((120_000, 122_000)));
        // Only the latest count.
        check(&[[9; 64].as_slice(), &[1; 64]].concat(), Some((1, 1)));
    }

    #[test]
    fn what_is_old_says_nothing_about_now() {
        let clock = Clock::manual(1_731_700_000_000);
        let sender = SenderClock::default();
        sender.note(clock.now() - 5, &clock);
        clock.set(clock.now() + 601_000);
        assert_eq!(sender.skew(&clock), None);
    }
}
