//! When to try again: full jitter under a doubling bound, and a sender's or target's own wish within a cap. Pure; the
//! randomness is handed in, so that every delay can be tested.

use std::time::Duration;

/// The longest wish of a `Retry-After` that is honoured.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// How often and how patiently a delivery or a message is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in all before it is dead.
    pub attempts: u32,
    /// The bound of the first pause.
    pub base: Duration,
    /// The bound of every pause.
    pub cap: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { attempts: 12, base: Duration::from_secs(5), cap: Duration::from_secs(3600) }
    }
}

impl RetryPolicy {
    /// The pause after a failed attempt, counted from 1: anything in `[0, min(cap, base·2^(attempt - 1))]`, chosen by
    /// `random`, a number out of the whole range of `u64`.
    pub fn delay(&self, attempt: u32, random: u64) -> Duration {
        let bound = self.bound(attempt).as_millis();
        // At most 128 bits of milliseconds times 64 bits of chance would overflow; no bound of ours is that long.
        let bound = u64::try_from(bound).unwrap_or(u64::MAX);
        let part = (u128::from(bound) * u128::from(random)) >> 64;
        let rounded = part + u128::from(random == u64::MAX && bound > 0);
        Duration::from_millis(u64::try_from(rounded).unwrap_or(bound).min(bound))
    }

    /// The longest pause after a failed attempt, counted from 1.
    pub fn bound(&self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(1);
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.cap)
    }

    /// The pause that a target asked for, as far as we honour it, or our own where it did not ask.
    pub fn delay_or_wish(&self, attempt: u32, random: u64, retry_after: Option<Duration>) -> Duration {
        let own = self.delay(attempt, random);
        retry_after.map_or(own, |wish| wish.min(RETRY_AFTER_MAX).max(own))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bounds_double_up_to_the_cap() {
        let policy = RetryPolicy { attempts: 12, base: Duration::from_secs(5), cap: Duration::from_secs(60) };
        for (attempt, seconds) in
            [(0, 5), (1, 5), (2, 10), (3, 20), (4, 40), (5, 60), (32, 60), (33, 60), (u32::MAX, 60)]
        {
            assert_eq!(policy.bound(attempt), Duration::from_secs(seconds), "attempt {attempt}");
        }
        assert_eq!(policy.delay(3, 0), Duration::ZERO);
        assert_eq!(policy.delay(3, u64::MAX), Duration::from_secs(20));
    }

    #[test]
    fn a_wish_is_honoured_within_a_day() {
        let policy = RetryPolicy { attempts: 12, base: Duration::from_secs(5), cap: Duration::from_secs(60) };
        for (wish, expected) in [(0, 5), (30, 30), (86_400, 86_400), (u64::MAX, 86_400)] {
            let wish = Some(Duration::from_secs(wish));
            assert_eq!(policy.delay_or_wish(1, u64::MAX, wish), Duration::from_secs(expected));
        }
        assert_eq!(policy.delay_or_wish(1, 0, None), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn every_delay_is_within_its_bounds(
            attempt: u32, random: u64, base in 0..=u64::MAX, cap in 0..=u64::MAX, wish: Option<u64>,
        ) {
            let policy =
                RetryPolicy { attempts: 1, base: Duration::from_millis(base), cap: Duration::from_millis(cap) };
            let delay = policy.delay(attempt, random);
            prop_assert!(delay <= policy.cap);
            prop_assert!(delay <= policy.bound(attempt));
            prop_assert!(policy.bound(attempt) <= policy.cap);
            let asked = policy.delay_or_wish(attempt, random, wish.map(Duration::from_secs));
            prop_assert!(asked <= policy.cap.max(RETRY_AFTER_MAX));
        }
    }
}
