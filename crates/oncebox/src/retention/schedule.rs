//! When retention runs: at a quiet hour, or more often where windows are short.

use std::time::Duration;

use super::windows::{Windows, millis};
use crate::clock::UnixMillis;

const DAY_MS: i64 = 86_400_000;
/// Windows at least this long are looked at once a day.
const DAILY_FROM: Duration = Duration::from_secs(2 * 86_400);
/// The shortest and the longest pause where windows are shorter.
const PAUSE_MIN: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// When to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The time of day, in UTC since midnight, at which it runs once.
    pub at: Duration,
    /// The pause between two runs, in place of that.
    pub every: Option<Duration>,
}

impl Default for Schedule {
    /// At three in the night.
    fn default() -> Self {
        Self { at: Duration::from_secs(3 * 3600), every: None }
    }
}

impl Schedule {
    /// The pause between two runs; none where it runs once a day.
    pub fn pause(&self, windows: &Windows) -> Option<Duration> {
        let shortest = windows.shortest(|one| one.ledger.min(one.payload));
        let short = (shortest < DAILY_FROM).then(|| (shortest / 24).clamp(PAUSE_MIN, PAUSE_MAX));
        self.every.or(short)
    }

    /// When the next run is due, given when the last one was.
    pub fn next(&self, windows: &Windows, last: UnixMillis) -> UnixMillis {
        match self.pause(windows) {
            Some(pause) => last.saturating_add(millis(pause)),
            None => {
                let today = last - last.rem_euclid(DAY_MS) + millis(self.at);
                if today > last { today } else { today + DAY_MS }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retention::windows::Window;

    fn check(shortest: &str, every: Option<u64>, last: i64, expected: i64) {
        let shortest: u64 = shortest.parse().expect("seconds");
        let window = Window { ledger: Duration::from_secs(90 * 86_400), payload: Duration::from_secs(shortest) };
        let schedule = Schedule { every: every.map(Duration::from_secs), ..Schedule::default() };
        assert_eq!(schedule.next(&Windows::new(window, []), last * 1000) / 1000, expected);
    }

    #[test]
    fn runs() {
        check("1209600", None, 0, 3 * 3600);
        check("1209600", None, 3 * 3600, 27 * 3600);
        check("1209600", None, 4 * 3600, 27 * 3600);
        check("1209600", Some(600), 4 * 3600, 4 * 3600 + 600);
        check("86400", None, 0, 3600);
        check("10", None, 7, 12);
        check("240", None, 0, 10);
    }
}
