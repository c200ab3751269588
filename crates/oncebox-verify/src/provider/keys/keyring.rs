//! The keys that a source fetched, with their age: what may be used, what must be asked for again, and how often.
//!
//! Nothing here reaches out. Judging looks into the ring; the vendor client puts into it what it fetched. Bounds
//! keep strangers from turning forged key names into a storm of fetches: a set is asked for again at most once a
//! minute, and addresses that never worked are counted against a budget of their own, each at most once in a few
//! seconds. So nothing that strangers do keeps an address that worked before, or one of the operator's, from being
//! asked again. A certificate that cannot be fetched again stays good for some days, as long as its own dates say so.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::UnixMillis;
use crate::provider::keys::public_key::{Keys, PublicKey};
use crate::verdict::{KeyWanted, NamedBy};

/// Addresses kept per source: a vendor has one per region and key change.
const ADDRESSES_MAX: usize = 16;
/// How long a set is not asked for again because of an unknown key name.
const AGAIN_AFTER: UnixMillis = 60_000;
/// Fetches that a source may start within [`AGAIN_AFTER`], for addresses that requests name and that never worked: few for
/// a vendor, and so many that a stranger has to send more than ten each second, without a pause, to keep a new address of
/// the vendor's from its turn for long.
const STRANGERS_MAX: usize = 600;
/// The same for the operator's own address, and for each that worked before.
const FETCHES_MAX: usize = 6;
/// How long an address that did not work is left alone.
const FAILED_FOR: UnixMillis = 5_000;
/// Addresses that did not work of which we know.
const FAILED_MAX: usize = 64;
/// How long a certificate that cannot be fetched again stays in use.
const GRACE: UnixMillis = 7 * 24 * 3_600_000;
/// A request that was judged before a fetch ended asks for the same fetch at most so much later.
const JUST_NOW: UnixMillis = 1_000;
const LIFE_MIN: UnixMillis = 3_600_000;
const LIFE_USUAL: UnixMillis = 6 * 3_600_000;
const LIFE_MAX: UnixMillis = 24 * 3_600_000;

#[derive(Debug, Default)]
pub(crate) struct Keyring(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    slots: BTreeMap<String, Slot>,
    /// Fetches of addresses that never worked.
    strangers: Started,
    /// Fetches of the operator's address before it worked.
    operators: Started,
    /// Strangers' addresses that did not work, and when.
    failed: BTreeMap<String, UnixMillis>,
}

#[derive(Clone, Debug, Default)]
struct Started(VecDeque<UnixMillis>);

impl Started {
    /// True when there is room for one more, which is then counted.
    fn one_more(&mut self, most: usize, now: UnixMillis) -> bool {
        while self.0.front().is_some_and(|at| now.saturating_sub(*at) >= AGAIN_AFTER) {
            self.0.pop_front();
        }
        let may = self.0.len() < most;
        if may {
            self.0.push_back(now);
        }
        may
    }
}

#[derive(Clone, Debug)]
struct Slot {
    wanted: KeyWanted,
    keys: Arc<[PublicKey]>,
    fetched_at: UnixMillis,
    refresh_at: UnixMillis,
    expires_at: UnixMillis,
    used_at: UnixMillis,
    started: Started,
}

impl Slot {
    /// Good until it expires; a certificate somewhat longer, if it says so itself.
    fn is_good(&self, now: UnixMillis) -> bool {
        let is_certificate = |key: &PublicKey| key.has_dates() && key.is_valid_at(now);
        let has_grace = || now < self.expires_at.saturating_add(GRACE) && self.keys.iter().all(is_certificate);
        now < self.expires_at || has_grace()
    }
}

impl Keyring {
    /// The keys of an address, if they are still good, and whether a name that is not among them justifies another fetch.
    pub(crate) fn look(&self, url: &str, now: UnixMillis) -> Option<(Arc<[PublicKey]>, bool)> {
        let mut ring = self.lock();
        let slot = ring.slots.get_mut(url).filter(|slot| slot.is_good(now))?;
        slot.used_at = now;
        Some((slot.keys.clone(), now.saturating_sub(slot.fetched_at) >= AGAIN_AFTER))
    }

    /// True when an address was fetched so lately that whoever missed its keys found out before.
    pub(crate) fn is_just_fetched(&self, url: &str, now: UnixMillis) -> bool {
        self.lock().slots.get(url).is_some_and(|slot| now.saturating_sub(slot.fetched_at) < JUST_NOW)
    }

    /// True when a fetch may start now; it is counted.
    pub(crate) fn may_start(&self, wanted: &KeyWanted, now: UnixMillis) -> bool {
        let mut ring = self.lock();
        if let Some(slot) = ring.slots.get_mut(&wanted.url) {
            return slot.started.one_more(FETCHES_MAX, now);
        }
        if wanted.named_by == NamedBy::Operator {
            return ring.operators.one_more(FETCHES_MAX, now);
        }
        ring.failed.retain(|_, at| now.saturating_sub(*at) < FAILED_FOR);
        !ring.failed.contains_key(&wanted.url) && ring.strangers.one_more(STRANGERS_MAX, now)
    }

    /// Remembers for a while that an address did not work.
    pub(crate) fn failed(&self, wanted: &KeyWanted, now: UnixMillis) {
        let mut ring = self.lock();
        if ring.failed.len() < FAILED_MAX {
            ring.failed.insert(wanted.url.clone(), now);
        }
    }

    /// Keeps what an address answered; false when there is no key in it.
    pub(crate) fn put(&self, wanted: &KeyWanted, text: &[u8], max_age: Option<Duration>, now: UnixMillis) -> bool {
        let parsed = if wanted.proof.is_some() { Keys::of_certificate(text) } else { Keys::parse(text) };
        let Some(keys) = parsed else { return false };
        let told = max_age.and_then(|age| UnixMillis::try_from(age.as_millis()).ok());
        let life = told.unwrap_or(LIFE_USUAL).clamp(LIFE_MIN, LIFE_MAX);
        let slot = Slot {
            wanted: wanted.clone(),
            keys: keys.public.into(),
            fetched_at: now,
            refresh_at: now.saturating_add(life / 5 * 4),
            expires_at: now.saturating_add(life),
            used_at: now,
            started: Started::default(),
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
        let other = other.lock();
        let mut ring = self.lock();
        ring.slots.extend(other.slots.clone());
        (ring.strangers, ring.operators) = (other.strangers.clone(), other.operators.clone());
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
    use crate::verdict::Proof;

    const NOW: UnixMillis = 1_731_700_000_000;
    const HOUR: UnixMillis = 3_600_000;

    fn wanted(url: &str) -> KeyWanted {
        KeyWanted { url: url.to_owned(), named_by: NamedBy::Operator, proof: None }
    }

    /// An address that a request named.
    fn named(url: &str) -> KeyWanted {
        KeyWanted { named_by: NamedBy::Request, proof: Some(Proof::Below("amazonaws.com")), ..wanted(url) }
    }

    fn is_here(ring: &Keyring, url: &str, now: UnixMillis) -> bool {
        ring.look(url, now).is_some()
    }

    #[test]
    fn keys_age() {
        let key = vendor::rsa_jwk("k").to_string();
        for (max_age, hours) in [(None, 6), (Some(1), 1), (Some(7200), 2), (Some(10_000_000), 24)] {
            let ring = Keyring::default();
            assert!(ring.put(&wanted("u"), key.as_bytes(), max_age.map(Duration::from_secs), NOW));
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
        while old.may_start(&named("junk"), NOW) {}
        new.inherit(&old);
        assert!(is_here(&new, "u", NOW) && is_here(&old, "u", NOW));
        assert!(!new.may_start(&named("junk"), NOW) && new.may_start(&named("junk"), NOW + AGAIN_AFTER));
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
        let may = |now| ring.look("u", now).is_some_and(|(_, may_ask_again)| may_ask_again);
        assert!(!may(NOW + AGAIN_AFTER - 1));
        assert!(may(NOW + AGAIN_AFTER));
        let started = (0..1000).filter(|n| ring.may_start(&named(&format!("junk-{n}")), NOW)).count();
        assert_eq!(started, STRANGERS_MAX);
        assert!(ring.may_start(&named("junk"), NOW + AGAIN_AFTER));
    }

    #[test]
    fn strangers_cannot_use_up_what_is_for_addresses_that_work() {
        let ring = Keyring::default();
        assert!(ring.put(&named("good"), vendor::SNS_CERTIFICATE.as_bytes(), None, NOW));
        for n in 0..1000 {
            ring.may_start(&named(&format!("junk-{n}")), NOW);
        }
        assert!(!ring.may_start(&named("new"), NOW), "the strangers' budget is used up");
        let started = (0..100).filter(|_| ring.may_start(&named("good"), NOW)).count();
        assert_eq!(started, FETCHES_MAX, "an address that worked has its own");
        let started = (0..100).filter(|_| ring.may_start(&wanted("operator's"), NOW)).count();
        assert_eq!(started, FETCHES_MAX, "and so has the operator's");
    }

    #[test]
    fn an_address_that_did_not_work_is_left_alone_for_a_moment() {
        let ring = Keyring::default();
        assert!(ring.may_start(&named("u"), NOW));
        ring.failed(&named("u"), NOW);
        assert!(!ring.may_start(&named("u"), NOW + FAILED_FOR - 1) && ring.may_start(&named("v"), NOW));
        assert!(ring.may_start(&named("u"), NOW + FAILED_FOR));
        for n in 0..1000 {
            ring.failed(&named(&n.to_string()), NOW);
        }
        assert!(ring.lock().failed.len() <= FAILED_MAX);
    }

    #[test]
    fn a_certificate_outlives_a_vendor_out_of_reach() {
        let ring = Keyring::default();
        assert!(ring.put(&named("u"), vendor::SNS_CERTIFICATE.as_bytes(), None, NOW));
        assert!(is_here(&ring, "u", NOW + 6 * HOUR + GRACE - 1), "its own dates are good until 2120");
        assert!(!is_here(&ring, "u", NOW + 6 * HOUR + GRACE));
        assert_eq!(ring.due(NOW + 7 * HOUR).len(), 1, "and it is asked for again");
        assert!(ring.put(&named("u"), vendor::EXPIRED_CERTIFICATE.as_bytes(), None, NOW));
        assert!(!is_here(&ring, "u", NOW + 6 * HOUR), "its own dates are over");
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
