//! So many calls in each period, and no burst beyond one period's worth. Pure; the time is handed in.

use std::time::Duration;

/// A limit on calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many calls.
    pub count: u32,
    /// In which time.
    pub period: Duration,
}

/// Counts calls against a [`Rate`].
#[derive(Clone, Debug)]
pub struct RateLimit {
    every: Duration,
    /// How far ahead of the even pace a caller may be.
    ahead: Duration,
    /// When the next call would come at an even pace.
    next: Duration,
}

impl RateLimit {
    /// A limit of which nothing is used yet.
    pub fn new(rate: Rate) -> Self {
        let every = rate.period / rate.count.max(1);
        Self { every, ahead: rate.period.saturating_sub(every), next: Duration::ZERO }
    }

    /// A limit that spreads calls evenly: a target that comes back after a while is not met with a period's worth at once.
    pub fn even(rate: Rate) -> Self {
        Self { ahead: rate.period.min(Duration::from_secs(1)) / 20, ..Self::new(rate) }
    }

    /// How many calls may be made now, at most `most`.
    pub fn free(&self, now: Duration, most: usize) -> usize {
        let Some(room) = (now + self.ahead).checked_sub(self.next.max(now)) else { return 0 };
        let calls = room.as_nanos() / self.every.as_nanos().max(1) + 1;
        usize::try_from(calls).unwrap_or(usize::MAX).min(most)
    }

    /// Takes calls that are made now.
    pub fn take(&mut self, now: Duration, calls: usize) {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        self.next = self.next.max(now).saturating_add(self.every.saturating_mul(calls));
    }

    /// How long until at least one call may be made.
    pub fn wait(&self, now: Duration) -> Duration {
        self.next.saturating_sub(now + self.ahead)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_period_worth_at_once_and_then_evenly() {
        let mut limit = RateLimit::new(Rate { count: 10, period: Duration::from_secs(1) });
        let at = Duration::from_millis;
        assert_eq!(limit.free(at(0), 100), 10);
        limit.take(at(0), 10);
        assert_eq!((limit.free(at(0), 100), limit.wait(at(0))), (0, at(100)));
        assert_eq!(limit.free(at(100), 100), 1);
        assert_eq!(limit.free(at(550), 100), 5);
        limit.take(at(550), 5);
        assert_eq!(limit.free(at(599), 100), 0);
        assert_eq!(limit.free(at(10_000), 100), 10);
        assert_eq!(limit.free(at(10_000), 3), 3);
    }

    #[test]
    fn evenly_from_the_first_call() {
        let mut limit = RateLimit::even(Rate { count: 50, period: Duration::from_secs(1) });
        let (mut now, mut calls) = (Duration::from_secs(9), Vec::new());
        while now < Duration::from_secs(12) {
            let free = limit.free(now, 100);
            limit.take(now, free);
            calls.extend(std::iter::repeat_n(now, free));
            now += Duration::from_millis(1);
        }
        let busiest = calls
            .iter()
            .map(|first| calls.iter().filter(|at| (*first..*first + Duration::from_secs(1)).contains(*at)).count());
        assert_eq!((calls.len(), busiest.max()), (153, Some(53)));
    }

    proptest! {
        #[test]
        fn never_more_than_two_periods_worth_in_one(
            count in 1..1000_u32, asks in proptest::collection::vec((0..200_u64, 1..50_usize), 1..200),
        ) {
            let period = Duration::from_secs(1);
            let mut limit = RateLimit::new(Rate { count, period });
            let (mut now, mut taken) = (Duration::ZERO, Vec::new());
            for (later, most) in asks {
                now += Duration::from_millis(later);
                let free = limit.free(now, most);
                limit.take(now, free);
                taken.push((now, free));
                let recent = taken.iter().filter(|(at, _)| *at + period > now).map(|(_, calls)| calls).sum::<usize>();
                prop_assert!(recent <= 2 * count as usize, "{recent}");
            }
        }
    }
}
