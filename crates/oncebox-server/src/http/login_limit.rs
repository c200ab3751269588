//! How often a login may fail, by address: a token is guessed by many tries or not at all.
//!
//! Counted before the token is compared, so that tries at the same instant share one budget. The map is bounded: while
//! it is full of addresses that just failed, nobody new may try.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failures of one address within a window.
const FAILURES_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
const ADDRESSES_MAX: usize = 1024;

/// The failures of the last minute.
#[derive(Debug, Default)]
pub(crate) struct LoginLimit(Mutex<HashMap<IpAddr, Window>>);

#[derive(Clone, Copy, Debug)]
struct Window {
    ends: Instant,
    tries: u32,
}

/// Seconds until the address may try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooOften(pub(crate) u32);

impl LoginLimit {
    /// Counts one more try, or refuses it.
    pub(super) fn begin(&self, address: IpAddr, now: Instant) -> Result<(), TooOften> {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        windows.retain(|_, window| window.ends > now);
        let full = windows.len() >= ADDRESSES_MAX;
        let window = match windows.get_mut(&network(address)) {
            Some(window) => window,
            None if full => return Err(TooOften(seconds(WINDOW))),
            None => windows.entry(network(address)).or_insert(Window { ends: now + WINDOW, tries: 0 }),
        };
        if window.tries >= FAILURES_MAX {
            return Err(TooOften(seconds(window.ends.saturating_duration_since(now))));
        }
        window.tries += 1;
        Ok(())
    }

    /// A try that succeeded is no guess.
    pub(super) fn succeeded(&self, address: IpAddr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&network(address));
    }
}

/// Whoever has one IPv6 address has 2^64 of them.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 => v4,
    }
}

fn seconds(wait: Duration) -> u32 {
    u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn failures_are_counted_by_address_and_forgotten() {
        let (limit, now) = (LoginLimit::default(), Instant::now());
        let (guesser, other) = (address("2001:db8::1"), address("10.0.0.1"));
        for _ in 0..FAILURES_MAX {
            assert_eq!(limit.begin(guesser, now), Ok(()));
        }
        assert_eq!(limit.begin(guesser, now), Err(TooOften(61)));
        assert_eq!(limit.begin(address("2001:db8::ffff"), now), Err(TooOften(61)), "the same network");
        assert_eq!(limit.begin(other, now), Ok(()));
        assert_eq!(limit.begin(guesser, now + WINDOW), Ok(()), "a minute later");
    }

    #[test]
    fn a_success_clears_the_address() {
        let (limit, now) = (LoginLimit::default(), Instant::now());
        let person = address("10.0.0.1");
        for _ in 0..FAILURES_MAX * 3 {
            assert_eq!(limit.begin(person, now), Ok(()));
            limit.succeeded(person);
        }
    }

    #[test]
    fn addresses_are_bounded() {
        let (limit, now) = (LoginLimit::default(), Instant::now());
        for one in 0..ADDRESSES_MAX {
            let one = u32::try_from(one).expect("small");
            assert_eq!(limit.begin(IpAddr::from(one.to_be_bytes()), now), Ok(()));
        }
        assert!(limit.begin(address("10.0.0.1"), now).is_err());
        assert_eq!(limit.begin(address("10.0.0.1"), now + WINDOW), Ok(()));
    }
}
