//! How often a wrong token may be shown, by address: a token is guessed by many tries or not at all.
//!
//! A login is counted before its token is compared, a bearer in one step with what came of it, so that tries at the same
//! instant share one budget. The map is bounded: where it is full, the address that tried least is forgotten, so that
//! neither many addresses nor made-up ones keep anybody out.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use oncebox_verify::Digest;

/// Wrong logins of one address within a window: a person mistypes a few times.
pub(crate) const LOGINS_MAX: u32 = 10;
/// Wrong bearers: an address may be shared by many machines with old configs, and a hundred guesses find nothing.
pub(crate) const BEARERS_MAX: u32 = 100;
const WINDOW: Duration = Duration::from_secs(60);
const ADDRESSES_MAX: usize = 1024;

/// The failures of the last minute.
#[derive(Debug)]
pub(crate) struct LoginLimit {
    failures_max: u32,
    windows: Mutex<HashMap<IpAddr, Window>>,
}

#[derive(Clone, Debug)]
struct Window {
    ends: Instant,
    tries: u32,
    /// Marks of the bearers that were wrong: at most as many as there are tries.
    wrong: Vec<Digest>,
}

/// Seconds until the address may try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooOften(pub(crate) u32);

impl LoginLimit {
    /// So many failures of one address within a minute.
    pub(crate) fn new(failures_max: u32) -> Self {
        Self { failures_max, windows: Mutex::default() }
    }

    pub(crate) fn begin(&self, address: IpAddr, now: Instant) -> Result<(), TooOften> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let window = window(&mut windows, address, now);
        window.check(self.failures_max, now)?;
        window.tries += 1;
        Ok(())
    }

    /// Judges a bearer: once the address has no tries left it is refused even where it is right, or the answer would tell
    /// which guess was. A wrong token that is shown again and again is a machine with an old config and no guess: it is
    /// counted once, so that it keeps nobody out who shares its address. True where it was counted now.
    pub(crate) fn judge(&self, address: IpAddr, wrong: Option<Digest>, now: Instant) -> Result<bool, TooOften> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(window) = windows.get(&network(address)).filter(|window| window.ends > now) {
            window.check(self.failures_max, now)?;
        }
        let Some(wrong) = wrong else { return Ok(false) };
        let window = window(&mut windows, address, now);
        if window.wrong.contains(&wrong) {
            return Ok(false);
        }
        window.wrong.push(wrong);
        window.tries += 1;
        Ok(true)
    }

    /// A try that succeeded is no guess.
    pub(crate) fn succeeded(&self, address: IpAddr) {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner).remove(&network(address));
    }
}

impl Window {
    fn check(&self, failures_max: u32, now: Instant) -> Result<(), TooOften> {
        if self.tries < failures_max {
            return Ok(());
        }
        Err(TooOften(seconds(self.ends.saturating_duration_since(now))))
    }
}

/// The window of an address; a new one takes the place of the one with the fewest tries, the oldest of them, where there is
/// no other.
fn window(windows: &mut HashMap<IpAddr, Window>, address: IpAddr, now: Instant) -> &mut Window {
    windows.retain(|_, window| window.ends > now);
    let address = network(address);
    if windows.len() >= ADDRESSES_MAX && !windows.contains_key(&address) {
        let least = windows.iter().min_by_key(|(_, window)| (window.tries, window.ends)).map(|(address, _)| *address);
        least.map(|least| windows.remove(&least));
    }
    windows.entry(address).or_insert(Window { ends: now + WINDOW, tries: 0, wrong: Vec::new() })
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
        let (limit, now) = (LoginLimit::new(LOGINS_MAX), Instant::now());
        let (guesser, other) = (address("2001:db8::1"), address("10.0.0.1"));
        for _ in 0..LOGINS_MAX {
            assert_eq!(limit.begin(guesser, now), Ok(()));
        }
        assert_eq!(limit.begin(guesser, now), Err(TooOften(61)));
        assert_eq!(limit.begin(address("2001:db8::ffff"), now), Err(TooOften(61)), "the same network");
        assert_eq!(limit.begin(other, now), Ok(()));
        assert_eq!(limit.begin(guesser, now + WINDOW), Ok(()), "a minute later");
    }

    #[test]
    fn a_success_clears_the_address() {
        let (limit, now) = (LoginLimit::new(LOGINS_MAX), Instant::now());
        let person = address("10.0.0.1");
        for _ in 0..LOGINS_MAX * 3 {
            assert_eq!(limit.begin(person, now), Ok(()));
            limit.succeeded(person);
        }
    }

    #[test]
    fn addresses_are_bounded() {
        let (limit, now) = (LoginLimit::new(LOGINS_MAX), Instant::now());
        for one in 0..ADDRESSES_MAX {
            let one = u32::try_from(one).expect("small");
            assert_eq!(limit.begin(IpAddr::from(one.to_be_bytes()), now), Ok(()));
        }
        let guesser = address("10.0.0.1");
        for _ in 0..LOGINS_MAX {
            assert_eq!(limit.begin(guesser, now), Ok(()), "nobody is kept out by others");
        }
        for one in 0..2 * ADDRESSES_MAX {
            let one = 0x0b00_0000 + u32::try_from(one).expect("small");
            assert_eq!(limit.begin(IpAddr::from(one.to_be_bytes()), now), Ok(()));
        }
        assert!(limit.begin(guesser, now).is_err(), "who tried most is remembered");
        assert_eq!(limit.windows.lock().expect("not poisoned").len(), ADDRESSES_MAX);
        assert_eq!(limit.begin(guesser, now + WINDOW), Ok(()));
    }

    #[test]
    fn bearers_are_counted_by_what_they_show() {
        let (limit, now) = (LoginLimit::new(LOGINS_MAX), Instant::now());
        let (machine, other) = (address("10.0.0.1"), address("10.0.0.2"));
        for n in 0..100 {
            assert_eq!(limit.judge(machine, Some([0; 32]), now), Ok(n == 0), "an old config");
            assert_eq!(limit.judge(machine, None, now), Ok(false), "its neighbour");
        }
        for n in 1..LOGINS_MAX {
            assert_eq!(limit.judge(machine, Some([u8::try_from(n).expect("small"); 32]), now), Ok(true));
        }
        for wrong in [Some([0; 32]), Some([99; 32]), None] {
            assert_eq!(limit.judge(machine, wrong, now), Err(TooOften(61)), "nor by luck");
        }
        assert_eq!(limit.judge(other, None, now), Ok(false));
        assert_eq!(limit.judge(machine, None, now + WINDOW), Ok(false), "a minute later");
        assert_eq!(limit.judge(machine, Some([99; 32]), now + WINDOW), Ok(true));
    }
}
