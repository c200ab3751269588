//! Seeded chance, and how large a test is: the ordinary run is small, the environment asks for more.

use std::time::SystemTime;

/// xorshift64: small, seeded, and good enough to pick moments.
pub(crate) struct Random(u64);

impl Random {
    /// By the clock, or by `ONCEBOX_TEST_SEED`; says which.
    pub(crate) fn seeded() -> Self {
        let clock = SystemTime::UNIX_EPOCH.elapsed().map_or(1, |time| time.subsec_nanos());
        let seed = number("ONCEBOX_TEST_SEED").map_or_else(|| u64::from(clock), |seed| seed as u64) | 1;
        println!("SEED={seed}");
        Self(seed)
    }

    /// By a number of the caller's.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Any number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below the limit.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A place in something of this length.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length.max(1) as u64)).expect("an index fits")
    }

    /// Puts things into any order.
    pub(crate) fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            things.swap(last, self.index(last + 1));
        }
    }
}

/// A number that the environment sets.
pub(crate) fn number(variable: &str) -> Option<usize> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number")))
}
