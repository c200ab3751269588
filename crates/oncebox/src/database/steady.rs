//! Steady time: what leases and due times stand on. It goes on evenly whatever the wall clock does.
//!
//! It is the database's clock (on SQLite ours) and an offset that stands in the database, so that every node, every SQL
//! function and every later process tells the same. Whoever runs a node compares it with its own monotonic clock again
//! and again. A difference that came at once is a jump of the wall clock, and the offset is changed by as much. Until
//! then the statements of this process go by the time that it expects.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::clock::{Clock, UnixMillis};
use crate::database::{Dialect, Row, StoreError, Value};
use crate::event::NodeKey;

/// A difference beyond this is a jump; below it clocks drift, and it is followed.
const JUMP_MS: i64 = 1000;
/// How far apart two processes may tell the time.
const APART_MS: i64 = 2000;
/// What nobody compared for so long is not expected any more: clocks of two machines drift apart.
const EXPECTED_FOR: Duration = Duration::from_secs(60);

/// The steady time as this process tells it; none until it is kept. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steady(Arc<OnceLock<Kept>>);

#[derive(Debug)]
struct Kept {
    clock: Clock,
    /// Whether the clock is also the one that the database goes by.
    own: bool,
    hand: Mutex<Hand>,
}

/// Where the steady time stood when it was last compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hand {
    at: Duration,
    steady: UnixMillis,
    offset: i64,
    settled: i64,
}

/// What the database says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// Whether the wall clock that it goes by is that of our own process, as on SQLite.
    pub(crate) own: bool,
    /// What that clock says.
    pub(crate) wall: UnixMillis,
    /// What is added to it.
    pub(crate) offset: i64,
    /// The latest steady time that anybody wrote down.
    pub(crate) seen: UnixMillis,
    /// How many jumps were settled.
    pub(crate) settled: i64,
}

/// A jump that is to be settled, unless somebody did, or it was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Jump {
    /// How far the wall clock jumped.
    pub(crate) by: i64,
    /// How many were settled before it.
    pub(crate) settled: i64,
    /// The steady time that we expect, where another process may know better: one that was there before, and for which
    /// more time passed than for us, shows that we were paused. None where that would explain nothing.
    pub(crate) expected: Option<UnixMillis>,
}

/// When the database was asked, by our monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked(Duration);

/// Where the offset is kept.
pub(crate) trait Times {
    /// Reads what stands there. `wall` is the time where the database has no clock of its own.
    fn told(&self, wall: UnixMillis) -> impl Future<Output = Result<Told, StoreError>> + Send;
    /// Changes the offset, and says whether it did.
    fn settle(&self, jump: Jump, node: Option<NodeKey>) -> impl Future<Output = Result<bool, StoreError>> + Send;
}

impl Jump {
    /// What the statement that settles it binds: how far, how many before, who we are, and by when another process must
    /// have begun and what it must have seen to know better.
    pub(crate) fn values(&self, node: Option<NodeKey>) -> Vec<Value> {
        let node = node.unwrap_or(NodeKey::MIN);
        let (began, seen) = self.expected.map_or((0, i64::MAX), |expected| (expected, expected + APART_MS));
        vec![self.by.into(), self.settled.into(), node.into(), began.into(), seen.into()]
    }
}

impl Told {
    /// Columns: wall, offset, seen, settled.
    pub(crate) fn read(rows: &[Row], dialect: Dialect) -> Result<Self, StoreError> {
        let row = rows.first().ok_or(StoreError::Corrupt { what: "steady clock" })?;
        let own = dialect == Dialect::Sqlite;
        Ok(Self { own, wall: row.int(0)?, offset: row.int(1)?, seen: row.int(2)?, settled: row.int(3)? })
    }

    fn steady(&self) -> UnixMillis {
        self.wall.saturating_add(self.offset)
    }

    fn hand(&self, clock: &Clock) -> Hand {
        Hand { at: clock.monotonic(), steady: self.steady(), offset: self.offset, settled: self.settled }
    }
}

impl Steady {
    /// The time now, as it is expected to be; none where nobody keeps it.
    pub(crate) fn now(&self) -> Option<UnixMillis> {
        let kept = self.0.get()?;
        let (hand, now) = (kept.hand(), kept.clock.monotonic());
        let is_fresh = kept.own || now.saturating_sub(hand.at) < EXPECTED_FOR;
        is_fresh.then(|| hand.at(now))
    }

    /// A steady time as people read it.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn wall_of(&self, steady: UnixMillis) -> UnixMillis {
        self.0.get().map_or(steady, |kept| steady.saturating_sub(kept.hand().offset))
    }

    /// When something is due that came at this time of the wall clock: never in the future.
    #[cfg(feature = "sqlite")]
    pub(crate) fn due(&self, came: UnixMillis) -> UnixMillis {
        let Some(kept) = self.0.get() else { return came };
        let hand = kept.hand();
        came.saturating_add(hand.offset).min(hand.at(kept.clock.monotonic()))
    }

    /// Begins to keep the time, once. A wall clock that went back while nobody ran does not bring the time back.
    pub(crate) async fn begin(&self, times: &impl Times, clock: &Clock) -> Result<(), StoreError> {
        if self.0.get().is_some() {
            return Ok(());
        }
        let mut told = times.told(clock.now()).await?;
        // What tells how much time passed must be as real as the clock that it is compared with.
        let clock = if told.own { clock.clone() } else { Clock::system() };
        let back = told.steady().saturating_sub(told.seen);
        if told.seen > 0 && back < -JUMP_MS {
            let jump = Jump { by: back, settled: told.settled, expected: None };
            if times.settle(jump, None).await? {
                tracing::warn!(
                    "the clock was set back by {} s while no process ran; leases and retries are unaffected",
                    -back / 1000
                );
            }
            told = times.told(clock.now()).await?;
        }
        let hand = Mutex::new(told.hand(&clock));
        // Whoever came first keeps it.
        let _ = self.0.set(Kept { clock, own: told.own, hand });
        Ok(())
    }

    /// Compares the database's time with our own, and settles a jump.
    pub(crate) async fn compare(&self, times: &impl Times, node: Option<NodeKey>) -> Result<(), StoreError> {
        let Some(kept) = self.0.get() else { return Ok(()) };
        let asked = self.asked();
        let told = times.told(kept.clock.now()).await?;
        self.compare_with(times, node, asked, told).await
    }

    /// Our own time, before the database is asked for its.
    pub(crate) fn asked(&self) -> Option<Asked> {
        self.0.get().map(|kept| Asked(kept.clock.monotonic()))
    }

    /// The same with what the database said.
    pub(crate) async fn compare_with(
        &self,
        times: &impl Times,
        node: Option<NodeKey>,
        asked: Option<Asked>,
        told: Told,
    ) -> Result<(), StoreError> {
        let (Some(kept), Some(Asked(before))) = (self.0.get(), asked) else { return Ok(()) };
        let (hand, after) = (kept.hand(), kept.clock.monotonic());
        let jump = match judge(&hand, before, after, &told) {
            Judged::Told(hand) => {
                kept.set(hand);
                return Ok(());
            }
            Judged::Jumped(jump) => jump,
        };
        if times.settle(jump, node).await? {
            kept.set(Hand { offset: told.offset.saturating_sub(jump.by), settled: told.settled + 1, ..hand });
            let seconds = jump.by.saturating_add(500).div_euclid(1000);
            tracing::warn!("the clock jumped by {seconds} s; leases and retries go on as before");
            return Ok(());
        }
        // Somebody settled it before us, or it was we who stood still.
        let told = times.told(kept.clock.now()).await?;
        kept.set(told.hand(&kept.clock));
        Ok(())
    }
}

impl Kept {
    fn hand(&self) -> Hand {
        *self.hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, hand: Hand) {
        *self.hand.lock().unwrap_or_else(PoisonError::into_inner) = hand;
    }
}

impl Hand {
    fn at(&self, now: Duration) -> UnixMillis {
        let passed = now.saturating_sub(self.at).as_millis();
        self.steady.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX))
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Judged {
    /// It is as expected, or drifted, or somebody settled a jump: this is the time now.
    Told(Hand),
    /// It is not.
    Jumped(Jump),
}

/// What an answer means that was asked for before one moment of our monotonic clock and had come by another.
fn judge(hand: &Hand, before: Duration, after: Duration, told: &Told) -> Judged {
    let (earliest, latest) = (hand.at(before), hand.at(after));
    let off = if told.steady() < earliest {
        told.steady().saturating_sub(earliest)
    } else {
        told.steady().saturating_sub(latest).max(0)
    };
    if off.abs() > JUMP_MS && told.settled == hand.settled {
        // Only time that passed without us looks like a clock that went forward.
        let expected = (off > 0).then_some(latest);
        return Judged::Jumped(Jump { by: off, settled: told.settled, expected });
    }
    // As long as the answer fits what we expect, it says nothing that we do not know better.
    let steady = latest.saturating_add(off);
    Judged::Told(Hand { at: after, steady, offset: told.offset, settled: told.settled })
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_731_700_000_000;

    fn hand() -> Hand {
        Hand { at: Duration::from_secs(100), steady: START, offset: -5000, settled: 3 }
    }

    /// What is judged of a steady time that many milliseconds after the last comparison, asked for after one second and
    /// answered after `answered_ms`.
    fn judged(answered_ms: u64, steady_ms: i64, settled: i64) -> Judged {
        let told = Told { own: false, wall: START + steady_ms + 5000, offset: -5000, seen: START, settled };
        judge(&hand(), Duration::from_secs(101), Duration::from_millis(100_000 + answered_ms), &told)
    }

    fn check(answered_ms: u64, steady_ms: i64, expected: Result<i64, i64>) {
        match (judged(answered_ms, steady_ms, 3), expected) {
            (Judged::Told(hand), Ok(steady)) => assert_eq!(hand.steady - START, steady, "{answered_ms} {steady_ms}"),
            (Judged::Jumped(jump), Err(by)) => assert_eq!(jump.by, by, "{answered_ms} {steady_ms}"),
            (judged, _) => panic!("{answered_ms} {steady_ms}: {judged:?}"),
        }
    }

    #[test]
    fn drift_is_followed_and_a_jump_is_not() {
        check(1010, 1005, Ok(1010));
        check(1010, 1500, Ok(1500));
        check(1010, 700, Ok(710));
        check(1010, 1010 + 86_400_000, Err(86_400_000));
        check(1010, 1000 - 86_400_000, Err(-86_400_000));
        // An answer that took its time is no jump, whenever the database looked at its clock.
        check(9000, 1005, Ok(9000));
        check(9000, 8990, Ok(9000));
        check(9000, 10_500, Err(1500));
    }

    #[test]
    fn only_a_clock_that_went_forward_may_be_a_pause_of_our_own() {
        let expected = |judged| match judged {
            Judged::Jumped(jump) => jump.expected,
            Judged::Told(_) => panic!("no jump"),
        };
        assert_eq!(expected(judged(1010, 61_010, 3)), Some(START + 1010));
        assert_eq!(expected(judged(1010, -61_010, 3)), None);
    }

    #[test]
    fn what_another_process_settled_is_taken_over() {
        let told = Told { own: false, wall: START + 86_400_000, offset: -86_399_000, seen: START, settled: 4 };
        let after = Duration::from_millis(101_010);
        let Judged::Told(now) = judge(&hand(), Duration::from_secs(101), after, &told) else { panic!("settled twice") };
        assert_eq!(now, Hand { at: after, steady: START + 1010, offset: -86_399_000, settled: 4 });
    }
}
