//! What request bodies may take while they are held: bytes, and places for those that come slowly.
//!
//! Nobody who sends a body has proved anything yet, so nobody may have all of it. What a body has beyond its first few
//! kilobytes comes from three quarters of the budget, of which one source and one address get two thirds: large bodies
//! never keep small ones out, nor one sender the others. A body that has the place to itself may be as large as it is.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The beginning of a body up to here counts as small, where the budget is large enough.
const SMALL_MAX: usize = 64 * 1024;
/// In a narrow budget a body's small part is this fraction of it.
const SMALL_FRACTION: usize = 64;

/// The budget of a listener. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: Limits,
    used: Mutex<Used>,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    bytes: usize,
    small: usize,
    slow: usize,
}

#[derive(Debug, Default)]
struct Used {
    bytes: usize,
    large: usize,
    slow: usize,
    sources: HashMap<Arc<str>, usize>,
    peers: HashMap<IpAddr, OfPeer>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OfPeer {
    small: usize,
    large: usize,
    slow: usize,
}

/// What one body has taken; given back on drop.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Budget,
    source: Arc<str>,
    peer: IpAddr,
    small: usize,
    large: usize,
    slow: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spent;

impl Budget {
    /// So many bytes, and so many bodies that may come slowly.
    pub(crate) fn new(bytes: usize, slow: usize) -> Self {
        let limits = Limits { bytes, small: SMALL_MAX.min(bytes / SMALL_FRACTION), slow };
        Self(Arc::new(Inner { limits, used: Mutex::default() }))
    }

    /// An empty share for a body that is sent to a source from an address.
    pub(crate) fn share(&self, source: &str, remote: IpAddr) -> Share {
        Share { budget: self.clone(), source: source.into(), peer: network_of(remote), small: 0, large: 0, slow: false }
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Says at once when there is no room for so many bytes. None are set aside: a length is quickly claimed by somebody
    /// who never sends a byte.
    pub(crate) fn expect(&self, bytes: usize) -> Result<(), Spent> {
        let (small, large) = self.parts(bytes);
        if self.fits(&self.budget.used(), small, large) { Ok(()) } else { Err(Spent) }
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), Spent> {
        let (small, large) = self.parts(bytes);
        let budget = self.budget.clone();
        let mut used = budget.used();
        if !self.fits(&used, small, large) {
            return Err(Spent);
        }
        used.bytes += bytes;
        used.large += large;
        let peer = used.peers.entry(self.peer).or_default();
        (peer.small, peer.large) = (peer.small + small, peer.large + large);
        if large > 0 {
            *used.sources.entry(self.source.clone()).or_default() += large;
        }
        (self.small, self.large) = (self.small + small, self.large + large);
        Ok(())
    }

    /// Takes one of the places of slow bodies, once: an address may have half of them.
    pub(crate) fn slow_down(&mut self) -> Result<(), Spent> {
        if self.slow {
            return Ok(());
        }
        let budget = self.budget.clone();
        let (mut used, limit) = (budget.used(), budget.0.limits.slow);
        let of_peer = used.peers.get(&self.peer).map_or(0, |peer| peer.slow);
        if used.slow >= limit || of_peer >= limit.div_ceil(2) {
            return Err(Spent);
        }
        used.slow += 1;
        used.peers.entry(self.peer).or_default().slow += 1;
        self.slow = true;
        Ok(())
    }

    fn parts(&self, bytes: usize) -> (usize, usize) {
        let small = bytes.min(self.budget.0.limits.small.saturating_sub(self.small));
        (small, bytes - small)
    }

    /// Whether so many more bytes fit beside what others have.
    fn fits(&self, used: &Used, small: usize, large: usize) -> bool {
        let total = self.budget.0.limits.bytes;
        let peer = used.peers.get(&self.peer).copied().unwrap_or_default();
        let of_source = used.sources.get(&self.source).copied().unwrap_or_default();
        // Beside nobody, or within the limit.
        let within = |taken: usize, own: usize, more: usize, limit: usize| taken == own || taken + more <= limit;
        let large_fits = within(used.large, self.large, large, total / 4 * 3)
            && within(of_source, self.large, large, total / 2)
            && within(peer.large, self.large, large, total / 2);
        let small_fits = within(peer.small, self.small, small, total / 2);
        used.bytes + small + large <= total && (small == 0 || small_fits) && (large == 0 || large_fits)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut used = self.budget.used();
        used.bytes -= self.small + self.large;
        used.large -= self.large;
        used.slow -= usize::from(self.slow);
        if let Some(of_source) = used.sources.get_mut(&self.source) {
            *of_source -= self.large;
            if *of_source == 0 {
                used.sources.remove(&self.source);
            }
        }
        if let Some(peer) = used.peers.get_mut(&self.peer) {
            peer.small -= self.small;
            peer.large -= self.large;
            peer.slow -= usize::from(self.slow);
            if *peer == OfPeer::default() {
                used.peers.remove(&self.peer);
            }
        }
    }
}

/// Whose share it is: an address of IPv4, or the network of one of IPv6, of which a single house has very many.
fn network_of(remote: IpAddr) -> IpAddr {
    match remote.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn peer(number: u8) -> IpAddr {
        IpAddr::from([203, 0, 113, number])
    }

    /// As many bodies of this size as fit, from one address each if `apart`.
    fn fill(budget: &Budget, source: &str, bytes: usize, apart: bool) -> Vec<Share> {
        let shares = (0..200).map(|number| {
            let mut share = budget.share(source, peer(if apart { number } else { 0 }));
            share.take(bytes).map(|()| share)
        });
        shares.map_while(Result::ok).collect()
    }

    #[test]
    fn large_bodies_to_one_source_leave_room_for_the_others() {
        let budget = Budget::new(256 * MIB, 10);
        let held = fill(&budget, "github", 25 * MIB, true);
        assert_eq!(held.len(), 5, "half of the budget");
        assert_eq!(budget.share("github", peer(201)).expect(25 * MIB), Err(Spent));
        for bytes in [1000, MIB, 25 * MIB] {
            assert_eq!(budget.share("stripe", peer(201)).expect(bytes), Ok(()), "{bytes}");
        }
        let more = fill(&budget, "stripe", MIB, true);
        assert!(more.len() > 60, "{}", more.len());
        // Now three quarters are gone, and what is small still fits, to either of them.
        for source in ["github", "stripe"] {
            assert_eq!(budget.share(source, peer(201)).expect(SMALL_MAX), Ok(()));
            assert_eq!(budget.share(source, peer(201)).expect(2 * MIB), Err(Spent));
        }
        drop((held, more));
        let used = budget.used();
        assert_eq!((used.bytes, used.large), (0, 0));
        assert!(used.peers.is_empty() && used.sources.is_empty());
    }

    #[test]
    fn one_address_leaves_room_for_the_others() {
        let budget = Budget::new(16 * MIB, 10);
        let held = fill(&budget, "a", SMALL_MAX, false);
        assert_eq!(held.len(), 128, "half of the budget");
        assert_eq!(budget.share("b", peer(0)).expect(1), Err(Spent));
        assert_eq!(budget.share("a", peer(1)).expect(SMALL_MAX), Ok(()));
    }

    #[test]
    fn a_body_that_is_alone_may_be_as_large_as_the_budget() {
        let budget = Budget::new(MIB, 10);
        let mut alone = budget.share("a", peer(0));
        for _ in 0..16 {
            assert_eq!(alone.take(SMALL_MAX), Ok(()));
        }
        assert_eq!(alone.take(1), Err(Spent));
        drop(alone);
        assert_eq!(budget.share("a", peer(0)).expect(MIB), Ok(()));
    }

    #[test]
    fn slow_bodies_have_places_of_their_own() {
        let budget = Budget::new(MIB, 10);
        let slow = |number: u8| {
            let mut share = budget.share("a", peer(number));
            share.slow_down().map(|()| share)
        };
        let mut held: Vec<Share> = (0..10).map_while(|_| slow(0).ok()).collect();
        assert_eq!(held.len(), 5, "half of them");
        assert_eq!(held[0].slow_down(), Ok(()), "it has its place");
        held.extend((1..10).map_while(|number| slow(number).ok()));
        assert_eq!(held.len(), 10);
        assert!(slow(99).is_err());
        held.pop();
        assert!(slow(99).is_ok());
    }

    #[test]
    fn a_house_has_one_share() {
        let network = |text: &str| network_of(text.parse().expect("an address")).to_string();
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(network("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(network("192.0.2.7"), "192.0.2.7");
    }
}
