//! The second referee: what came before under another identity, by unique keys.
//!
//! All keys of a batch are claimed by one statement, sorted. Only bytes that come again under another type, which few
//! senders' do, ask further: for one of the few places that such bytes have, place by place. Places are claimed after
//! everything else and in their order, so that two nodes never wait for each other in a circle.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::clock::UnixMillis;
use crate::event::EventKey;
use crate::store::insert::ledger::{NewEvent, Owner};
use crate::store::{StoreError, Tx, sql};
use oncebox_verify::{Fingerprint, Fingerprints, HeldReason, Topic};

/// Types that may share the same bytes, the first included.
const TOPICS_MAX: u8 = 4;
/// How long after the first type others may come with the same bytes: senders fire them together, and a retry of one
/// may be some minutes late.
const TOPICS_WITHIN: UnixMillis = 10 * 60_000;

/// What the second referee said about a batch.
#[derive(Debug, Default)]
pub(in crate::store) struct Repeats {
    /// The first event to bring each fingerprint, whether of this batch or before.
    firsts: HashMap<Fingerprint, EventKey>,
    /// Events that may share bytes with those of another type.
    admitted: HashSet<EventKey>,
    /// Types that were claimed by bytes that are not theirs.
    withdrawn: Vec<(Fingerprint, EventKey)>,
}

/// Something that came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Repeat {
    pub(in crate::store) first: EventKey,
    pub(in crate::store) reason: HeldReason,
}

impl Repeats {
    /// Claims what these events bring, each under its key; those that are new bring their own.
    pub(in crate::store) async fn claim(
        tx: &mut Tx,
        events: &[NewEvent],
        brought: &[(usize, EventKey)],
    ) -> Result<Self, StoreError> {
        let mut repeats = Self::default();
        if brought.is_empty() {
            return Ok(repeats);
        }
        let mut wanted = BTreeMap::new();
        for (index, key) in brought {
            for print in events[*index].event.fingerprint.iter().flat_map(all) {
                wanted.entry(print).or_insert(*key);
            }
        }
        repeats.firsts = first_to_bring(tx, wanted).await?;
        let is_new = |(index, key): &&(usize, EventKey)| events[*index].key == *key;
        let shared = brought.iter().filter(is_new).filter_map(|(index, key)| repeats.shared(&events[*index], *key));
        let shared: Vec<Shared> = shared.collect();
        repeats.admit(tx, shared).await?;
        Ok(repeats)
    }

    /// What came before of an event that is new.
    pub(in crate::store) fn of(&self, new: &NewEvent) -> Option<Repeat> {
        let seen = |print: Fingerprint, reason| self.other(print, new.key).map(|first| Repeat { first, reason });
        match new.event.fingerprint? {
            Fingerprints::Bytes(print) => seen(print, HeldReason::RepeatedBody),
            Fingerprints::Delivery(print) => seen(print, HeldReason::RepeatedDelivery),
            Fingerprints::Topic(topic) => seen(topic.pair, HeldReason::RepeatedBody)
                .or_else(|| seen(topic.body, HeldReason::RepeatedTopic).filter(|_| !self.admitted.contains(&new.key))),
        }
    }

    /// Takes back types that came only with the bytes of another.
    pub(in crate::store) async fn withdraw(&mut self, tx: &mut Tx) -> Result<(), StoreError> {
        for (print, key) in std::mem::take(&mut self.withdrawn) {
            let print = EventKey::from_bytes(*print.as_bytes());
            tx.execute(&sql::FORGET_FINGERPRINT, vec![print.into(), key.into()]).await?;
        }
        Ok(())
    }

    fn other(&self, print: Fingerprint, key: EventKey) -> Option<EventKey> {
        self.firsts.get(&print).copied().filter(|first| *first != key)
    }

    /// An event whose bytes came before under another type, but not under its own.
    fn shared(&self, new: &NewEvent, key: EventKey) -> Option<Shared> {
        let Some(Fingerprints::Topic(topic)) = new.event.fingerprint else { return None };
        let first = self.other(topic.body, key).filter(|_| self.other(topic.pair, key).is_none())?;
        Some(Shared { key, topic, is_soon: is_soon(first, new.received_at) })
    }

    /// Finds a place for each that may have one.
    async fn admit(&mut self, tx: &mut Tx, shared: Vec<Shared>) -> Result<(), StoreError> {
        // What a stranger calls a type becomes no type of the sender's, not even for others of this batch.
        let guests: HashSet<EventKey> = shared.iter().map(|one| one.key).collect();
        let mut waiting = Vec::new();
        for one in shared {
            let known_by = one.topic.topic.and_then(|topic| self.firsts.get(&topic)).copied();
            let is_known = one.topic.topic.is_none() || known_by.is_some_and(|first| !guests.contains(&first));
            if let Some(topic) = one.topic.topic.filter(|_| known_by == Some(one.key)) {
                self.withdrawn.push((topic, one.key));
            }
            if is_known && one.is_soon {
                waiting.push(one);
            }
        }
        for number in 1..TOPICS_MAX {
            let wanted: BTreeMap<_, _> =
                waiting.iter().rev().map(|one| (one.topic.body.place(number), one.key)).collect();
            let firsts = first_to_bring(tx, wanted).await?;
            let has_place = |one: &Shared| firsts.get(&one.topic.body.place(number)) == Some(&one.key);
            self.admitted.extend(waiting.iter().filter(|one| has_place(one)).map(|one| one.key));
            waiting.retain(|one| !has_place(one));
        }
        Ok(())
    }
}

/// An event whose bytes came before under another type.
#[derive(Debug)]
struct Shared {
    key: EventKey,
    topic: Topic,
    is_soon: bool,
}

fn is_soon(first: EventKey, now: UnixMillis) -> bool {
    now.saturating_sub(first.moment()).abs() <= TOPICS_WITHIN
}

fn all(prints: &Fingerprints) -> impl Iterator<Item = Fingerprint> {
    let (first, second, third) = match prints {
        Fingerprints::Bytes(print) | Fingerprints::Delivery(print) => (*print, None, None),
        Fingerprints::Topic(Topic { pair, body, topic }) => (*pair, Some(*body), *topic),
    };
    std::iter::once(first).chain(second).chain(third)
}

async fn first_to_bring(
    tx: &mut Tx,
    wanted: BTreeMap<Fingerprint, EventKey>,
) -> Result<HashMap<Fingerprint, EventKey>, StoreError> {
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    let owners = tx.claim_fingerprints(wanted.iter().map(|(print, key)| (*print, *key)).collect()).await?;
    let first = |(owner, (print, key)): (Owner, (Fingerprint, EventKey))| match owner {
        Owner::Fresh => (print, key),
        Owner::Known { key, .. } => (print, key),
    };
    Ok(owners.into_iter().zip(wanted).map(first).collect())
}
