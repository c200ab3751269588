//! Whether the time can be believed. Deleting early cannot be undone, so that every doubt stops it.
//!
//! What passed by the wall clock is held against what passed by a clock that nobody sets. Across a restart the proof is
//! the machine's uptime, which the last look left in the database; after a restart of the machine there is none, and then
//! only a clock that went back, or a very long gap, gives the jump away.

use std::time::Duration;

use super::windows::millis;
use crate::clock::UnixMillis;
use crate::store::RetentionRecord;

/// A difference of clocks that is nobody's fault.
const SLACK_MS: i64 = 10 * 60 * 1000;
/// A gap without a witness that is still taken for a machine that was off.
const GAP_MS: i64 = 7 * 24 * 60 * 60 * 1000;

/// Which start of the machine this is, and how long ago that was, sleep included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// A name that is new with every start.
    pub id: String,
    /// The time since.
    pub uptime: Duration,
}

/// All clocks at one moment.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) wall: UnixMillis,
    /// The time by which things age: the database's where it has a clock.
    pub(super) database: UnixMillis,
    /// What passed by a clock that nobody sets.
    pub(super) passed: Duration,
    /// The machine's own witness.
    pub(super) boot: Option<Boot>,
}

/// Why the time cannot be believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// A clock jumped: nobody deletes until a person confirms.
    Jumped { whose: &'static str, by_ms: i64 },
    /// More time passed than anybody saw: the same.
    Gap { by_ms: i64 },
    /// This node's clock is not the database's: others may delete, this node does not.
    Apart { by_ms: i64 },
}

impl Doubt {
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Jumped { whose, by_ms } => {
                let way = if *by_ms < 0 { "back" } else { "forward" };
                format!("{whose} clock jumped {way} by {}", told(*by_ms))
            }
            Self::Gap { by_ms } => {
                format!("nobody looked for {}, and nothing proves that so much time passed", told(*by_ms))
            }
            Self::Apart { by_ms } => format!("this node's clock and the database's are {} apart", told(*by_ms)),
        }
    }
}

/// Holds this moment against the last one of this process, or against what an earlier process left.
pub(super) fn judge(before: Option<&Sample>, stored: &RetentionRecord, now: &Sample) -> Option<Doubt> {
    let jumped = match before {
        Some(before) => {
            let passed = passed(before, now);
            let own = now.wall - before.wall - passed;
            let databases = now.database - before.database - passed;
            beyond(own, "this node's").or_else(|| beyond(databases, "the database's"))
        }
        None => across_restart(stored, now),
    };
    let apart = now.wall - now.database;
    jumped.or_else(|| (apart.abs() > SLACK_MS).then_some(Doubt::Apart { by_ms: apart }))
}

/// How far this node's keys look older than they are.
pub(super) fn behind(doubt: Option<&Doubt>, now: &Sample) -> i64 {
    let jump = match doubt {
        // Whatever came before a jump forward carries the time before it.
        Some(Doubt::Jumped { by_ms, .. }) => *by_ms,
        _ => 0,
    };
    jump.max(now.database - now.wall).max(0)
}

fn across_restart(stored: &RetentionRecord, now: &Sample) -> Option<Doubt> {
    let gap = now.database - stored.seen_at?;
    if gap < -SLACK_MS {
        return Some(Doubt::Jumped { whose: "the", by_ms: gap });
    }
    match (&stored.boot, &now.boot) {
        (Some((id, uptime)), Some(boot)) if *id == boot.id => beyond(gap - (millis(boot.uptime) - uptime), "the"),
        _ => (gap > GAP_MS).then_some(Doubt::Gap { by_ms: gap }),
    }
}

/// A sleeping machine's monotonic clock stands still; its uptime does not.
fn passed(before: &Sample, now: &Sample) -> i64 {
    let up = match (&before.boot, &now.boot) {
        (Some(before), Some(now)) => now.uptime.saturating_sub(before.uptime),
        _ => Duration::ZERO,
    };
    millis(up.max(now.passed.saturating_sub(before.passed)))
}

fn beyond(by_ms: i64, whose: &'static str) -> Option<Doubt> {
    (by_ms.abs() > SLACK_MS).then_some(Doubt::Jumped { whose, by_ms })
}

/// Rounded: a look comes a moment after the jump, and a day less that moment is still a day.
fn told(ms: i64) -> String {
    const MINUTE: i64 = 60_000;
    let rounded = |unit: i64| (ms.abs() + unit / 2) / unit;
    match rounded(MINUTE) {
        minutes @ ..120 => format!("{minutes} minutes"),
        minutes if minutes < 48 * 60 => format!("{} hours", rounded(60 * MINUTE)),
        _ => format!("{} days", rounded(24 * 60 * MINUTE)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;
    const DAY: i64 = 1440 * MINUTE;
    const START: i64 = 1_800_000_000_000;

    fn sample(wall: i64, database: i64, passed: i64, boot: Option<(&str, i64)>) -> Sample {
        let duration = |ms: i64| Duration::from_millis(ms.unsigned_abs());
        let boot = boot.map(|(id, uptime)| Boot { id: id.to_owned(), uptime: duration(uptime) });
        Sample { wall: START + wall, database: START + database, passed: duration(passed), boot }
    }

    fn nothing() -> RetentionRecord {
        RetentionRecord { seen_at: None, boot: None, stopped: None, behind: (0, 0), time: 0, remembers_ms: None }
    }

    fn check(now: &Sample, expected: Option<&str>) {
        let found = judge(Some(&sample(0, 0, 0, Some(("a", 0)))), &nothing(), now);
        assert_eq!(found.map(|doubt| doubt.sentence()).as_deref(), expected, "{now:?}");
    }

    #[test]
    fn within_a_process() {
        check(&sample(10_000, 10_000, 10_000, None), None);
        check(&sample(9 * MINUTE, 9 * MINUTE, 0, None), None);
        check(&sample(DAY, DAY, 10_000, None), Some("this node's clock jumped forward by 24 hours"));
        check(&sample(-DAY, 10_000, 10_000, None), Some("this node's clock jumped back by 24 hours"));
        check(&sample(10_000, 3 * DAY, 10_000, None), Some("the database's clock jumped forward by 3 days"));
        // The machine slept.
        check(&sample(DAY, DAY, 10_000, Some(("a", DAY))), None);
    }

    #[test]
    fn apart_from_the_start() {
        let found = judge(None, &nothing(), &sample(-60 * MINUTE, 0, 0, None));
        assert_eq!(found, Some(Doubt::Apart { by_ms: -60 * MINUTE }));
        assert_eq!(behind(None, &sample(-60 * MINUTE, 0, 0, None)), 60 * MINUTE);
        assert_eq!(behind(None, &sample(60 * MINUTE, 0, 0, None)), 0);
        assert_eq!(behind(Some(&Doubt::Jumped { whose: "the", by_ms: DAY }), &sample(0, 0, 0, None)), DAY);
    }

    #[test]
    fn across_a_restart() {
        let check = |boot: Option<(&str, i64)>, passed: i64, now_boot: Option<(&str, i64)>, expected: Option<Doubt>| {
            let boot = boot.map(|(id, uptime)| (id.to_owned(), uptime));
            let stored = RetentionRecord { seen_at: Some(START), boot, ..nothing() };
            assert_eq!(judge(None, &stored, &sample(passed, passed, 0, now_boot)), expected, "{passed}");
        };
        check(Some(("a", 0)), DAY, Some(("a", DAY)), None);
        check(Some(("a", 0)), DAY, Some(("a", MINUTE)), Some(Doubt::Jumped { whose: "the", by_ms: DAY - MINUTE }));
        check(Some(("a", 0)), DAY, Some(("b", MINUTE)), None);
        check(Some(("a", 0)), 8 * DAY, Some(("b", MINUTE)), Some(Doubt::Gap { by_ms: 8 * DAY }));
        check(None, -DAY, None, Some(Doubt::Jumped { whose: "the", by_ms: -DAY }));
        check(None, DAY, None, None);
    }
}
