//! The keys that a source fetched, with their age: what may be used, what must be asked for again, and how often.
//!
//! Nothing here reaches out. Judging looks into the ring; whoever runs the errands puts into it what came back. Bounds
//! keep strangers from turning forged key names into a storm of fetches: a set is asked for again at most once a
//! minute, and new addresses and failures are counted against a budget.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::public_key::{Keys, PublicKey};
use crate::clock::UnixMillis;
use crate::verdict::KeyWanted;

/// Addresses kept per source: a vendor has one per region and key change.
const ADDRESSES_MAX: usize = 16;
/// How long a set is not asked for again because of an unknown key name.
const AGAIN_AFTER: UnixMillis = 60_000;
/// Fetches that a source may start within [`AGAIN_AFTER`].
const FETCHES_MAX: usize = 6;
const LIFE_MIN: UnixMillis = 3_600_000;
const LIFE_USUAL: UnixMillis = 6 * 3_600_000;
const LIFE_MAX: UnixMillis = 24 * 3_600_000;

/// A source's fetched keys.
#[derive(Debug, Default)]
pub(crate) struct Keyring(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    slots: BTreeMap<String, Slot>,
    started: VecDeque<UnixMillis>,
}

#[derive(Clone, Debug)]
struct Slot {
    wanted: KeyWanted,
    keys: Arc<[PublicKey]>,
    fetched_at: UnixMillis,
    refresh_at: UnixMillis,
    expires_at: UnixMillis,
    used_at: UnixMillis,
}

/// What the ring says about an address.
#[derive(Debug)]
pub(crate) enum Look {
    /// These keys; `may_ask_again` where a name that is not among them justifies another fetch.
    Here { keys: Arc<[PublicKey]>, may_ask_again: bool },
    /// Nothing, or nothing that is still good.
    Nothing,
}

impl Keyring {
    /// The keys of an address.
    pub(crate) fn look(&self, url: &str, now: UnixMillis) -> Look {
        let mut ring = self.lock();
        match ring.slots.get_mut(url) {
            Some(slot) if now < slot.expires_at => {
                slot.used_at = now;
                let may_ask_again = now.saturating_sub(slot.fetched_at) >= AGAIN_AFTER;
                Look::Here { keys: slot.keys.clone(), may_ask_again }
            }
            _ => Look::Nothing,
        }
    }

    /// True when a fetch may start now; it is counted against the source's budget.
    pub(crate) fn may_start(&self, now: UnixMillis) -> bool {
        let mut ring = self.lock();
        while ring.started.front().is_some_and(|at| now.saturating_sub(*at) >= AGAIN_AFTER) {
            ring.started.pop_front();
        }
        let may = ring.started.len() < FETCHES_MAX;
        if may {
            ring.started.push_back(now);
        }
        may
    }

    /// Keeps what an address answered; false when there is no key in it.
    pub(crate) fn put(&self, wanted: &KeyWanted, text: &[u8], max_age: Option<Duration>, now: UnixMillis) -> bool {
        let Some(keys) = Keys::parse(text) else { return false };
        let told = max_age.and_then(|age| UnixMillis::try_from(age.as_millis()).ok());
        let life = told.unwrap_or(LIFE_USUAL).clamp(LIFE_MIN, LIFE_MAX);
        let slot = Slot {
            wanted: wanted.clone(),
            keys: keys.public.into(),
            fetched_at: now,
            refresh_at: now.saturating_add(life / 5 * 4),
            expires_at: now.saturating_add(life),
            used_at: now,
        };
        let mut ring = self.lock();
        ring.slots.insert(wanted.url.clone(), slot);
        while ring.slots.len() > ADDRESSES_MAX {
            let oldest = ring.slots.iter().min_by_key(|(_, slot)| slot.used_at).map(|(url, _)| url.clone());
            oldest.and_then(|url| ring.slots.remove(&url));
        }
        true
    }

    /// Takes over what another ring has, and its budget: the vendor's keys do not change with the operator's config.
    pub(crate) fn inherit(&self, other: &Self) {
        let (slots, started) = {
            let other = other.lock();
            (other.slots.clone(), other.started.clone())
        };
        let mut ring = self.lock();
        ring.slots.extend(slots);
        ring.started = started;
    }

    /// What should be fetched again before it expires: only keys that were used since they came.
    pub(crate) fn due(&self, now: UnixMillis) -> Vec<KeyWanted> {
        let ring = self.lock();
        let is_due = |slot: &&Slot| now >= slot.refresh_at && slot.used_at > slot.fetched_at;
        ring.slots.values().filter(is_due).map(|slot| slot.wanted.clone()).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use testkit::vendor;

    use super::*;
    use crate::verdict::NamedBy;

    const NOW: UnixMillis = 1_731_700_000_000;
    const HOUR: UnixMillis = 3_600_000;

    fn wanted(url: &str) -> KeyWanted {
        KeyWanted { url: url.to_owned(), named_by: NamedBy::Operator, proof: None }
    }

    fn is_here(ring: &Keyring, url: &str, now: UnixMillis) -> bool {
        matches!(ring.look(url, now), Look::Here { .. })
    }

    #[test]
    fn keys_age() {
        for (max_age, hours) in [(None, 6), (Some(1), 1), (Some(7200), 2), (Some(10_000_000), 24)] {
            let ring = Keyring::default();
            assert!(ring.put(&wanted("u"), vendor::SNS_CERTIFICATE.as_bytes(), max_age.map(Duration::from_secs), NOW));
            assert!(is_here(&ring, "u", NOW + hours * HOUR - 1), "{max_age:?}");
            assert!(!is_here(&ring, "u", NOW + hours * HOUR), "{max_age:?}");
            assert_eq!(ring.due(NOW + hours * HOUR / 5 * 4 - 1).len(), 0, "{max_age:?}");
            assert_eq!(ring.due(NOW + hours * HOUR / 5 * 4).len(), 1, "{max_age:?}");
        }
    }

    #[test]
    fn a_ring_takes_over_keys_and_budget() {
        let (old, new) = (Keyring::default(), Keyring::default());
        old.put(&wanted("u"), vendor::SNS_CERTIFICATE.as_bytes(), None, NOW);
        while old.may_start(NOW) {}
        new.inherit(&old);
        assert!(is_here(&new, "u", NOW) && is_here(&old, "u", NOW));
        assert!(!new.may_start(NOW) && new.may_start(NOW + AGAIN_AFTER));
    }

    #[test]
    fn unused_keys_are_not_fetched_again() {
        let ring = Keyring::default();
        ring.put(&wanted("u"), vendor::SNS_CERTIFICATE.as_bytes(), None, NOW);
        assert!(ring.due(NOW + 6 * HOUR).is_empty());
    }

    #[test]
    fn forged_names_do_not_make_a_storm() {
        let ring = Keyring::default();
        ring.put(&wanted("u"), vendor::SNS_CERTIFICATE.as_bytes(), None, NOW);
        let may = |now| matches!(ring.look("u", now), Look::Here { may_ask_again: true, .. });
        assert!(!may(NOW + AGAIN_AFTER - 1));
        assert!(may(NOW + AGAIN_AFTER));
        let started = (0..100).filter(|_| ring.may_start(NOW)).count();
        assert_eq!(started, FETCHES_MAX);
        assert!(ring.may_start(NOW + AGAIN_AFTER));
    }

    #[test]
    fn the_ring_is_bounded_and_takes_keys_only() {
        let ring = Keyring::default();
        for n in 0..100 {
            assert!(ring.put(&wanted(&n.to_string()), vendor::SNS_CERTIFICATE.as_bytes(), None, NOW + n));
        }
        assert_eq!(ring.lock().slots.len(), ADDRESSES_MAX);
        assert!(is_here(&ring, "99", NOW + 100) && !is_here(&ring, "0", NOW + 100));
        assert!(!ring.put(&wanted("u"), b"<html>", None, NOW));
    }
}
