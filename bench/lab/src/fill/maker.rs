//! Events from a seed.

use std::sync::Arc;

use bytes::Bytes;
use oncebox::gateway::clock::UnixMillis;
use oncebox::gateway::event::EventKey;
use oncebox_verify::sha256;

use super::Filling;
use super::slice::PastEvent;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// The days that the events are spread over: all within the ledger's usual memory.
const DAYS: i64 = 29;

/// Sources with their share in a hundred and their types.
const SENDERS: [(&str, u64, &[&str]); 3] = [
    (
        "stripe",
        60,
        &["invoice.paid", "invoice.finalized", "customer.updated", "charge.succeeded", "payment_intent.created"],
    ),
    ("github", 25, &["push", "pull_request.opened", "issues.closed", "workflow_run.completed"]),
    ("shopify", 15, &["orders/create", "orders/updated", "products/update"]),
];

/// Makes event number n.
#[derive(Debug)]
pub(super) struct Maker {
    filling: Filling,
    /// The day's first moment: the events end there, so that two runs of one day make the same.
    until: UnixMillis,
    senders: Vec<(Arc<str>, u64, Vec<Arc<str>>)>,
}

impl Maker {
    pub(super) fn new(filling: Filling, now: UnixMillis) -> Self {
        let senders = SENDERS.map(|(source, share, types)| {
            (Arc::from(source), share, types.iter().map(|name| Arc::from(*name)).collect())
        });
        Self { filling, until: now - now.rem_euclid(DAY_MS), senders: senders.into() }
    }

    pub(super) fn event(&self, number: u64) -> PastEvent {
        let mut chance = Chance::new(self.filling.seed, number);
        let (source, types) = self.sender(chance.next() % 100);
        let event_type = types[usize::try_from(chance.next() % 97).unwrap_or(0) % types.len()].clone();
        let (high, low) = (chance.next(), chance.next());
        let event_id = match &**source {
            "stripe" => format!("evt_{:012x}{:012x}", high >> 16, low >> 16),
            _ => uuid::Uuid::from_u64_pair(high, low).to_string(),
        };
        let received_at = self.time(number);
        let has_payload = number >= self.filling.events.saturating_sub(self.filling.payloads);
        let payload = has_payload.then(|| self.body(&event_id, &event_type, received_at));
        let digest = match &payload {
            Some(body) => sha256(body),
            None => sha256(event_id.as_bytes()),
        };
        let key = key(received_at, chance.next(), chance.next());
        PastEvent { key, source: source.clone(), event_id, event_type, body_sha256: digest, received_at, payload }
    }

    fn sender(&self, mut at: u64) -> (&Arc<str>, &[Arc<str>]) {
        for (source, share, types) in &self.senders {
            match at.checked_sub(*share) {
                None => return (source, types),
                Some(rest) => at = rest,
            }
        }
        let (source, _, types) = &self.senders[0];
        (source, types)
    }

    fn time(&self, number: u64) -> UnixMillis {
        let span = i128::from(DAYS * DAY_MS) * i128::from(number) / i128::from(self.filling.events.max(1));
        self.until - DAYS * DAY_MS + i64::try_from(span).unwrap_or(0)
    }

    fn body(&self, id: &str, event_type: &str, at: UnixMillis) -> Bytes {
        let mut body = format!(r#"{{"id":"{id}","type":"{event_type}","created":{},"filler":""#, at / 1000);
        let end = self.filling.body_size.saturating_sub(2).max(body.len());
        // Text that does not compress to nothing.
        let mut chance = Chance::new(self.filling.seed, at.unsigned_abs());
        while body.len() < end {
            body.push_str(&format!("{:016x}", chance.next()));
        }
        body.truncate(end);
        body.push_str("\"}");
        body.into()
    }
}

/// A UUIDv7 of this moment.
fn key(at: UnixMillis, high: u64, low: u64) -> EventKey {
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&at.to_be_bytes()[2..]);
    bytes[6..8].copy_from_slice(&high.to_be_bytes()[..2]);
    bytes[8..].copy_from_slice(&low.to_be_bytes());
    bytes[6] = (bytes[6] & 0x0f) | 0x70;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    EventKey::from_bytes(bytes)
}

/// SplitMix64: small, fast, and the same everywhere.
struct Chance(u64);

impl Chance {
    fn new(seed: u64, number: u64) -> Self {
        let mut first = Self(seed);
        let seed = first.next();
        Self(seed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use super::*;

    const NOW: UnixMillis = 1_731_700_000_123;

    fn maker(seed: u64) -> Maker {
        Maker::new(Filling { events: 5000, payloads: 100, seed, body_size: 300, slice: 1000, add: false }, NOW)
    }

    #[test]
    fn the_same_seed_makes_the_same_events() {
        let (one, same, other) = (maker(1), maker(1), maker(2));
        for number in [0, 1, 4999] {
            let event = one.event(number);
            assert_eq!(format!("{event:?}"), format!("{:?}", same.event(number)));
            assert_ne!(event.event_id, other.event(number).event_id);
        }
    }

    #[test]
    fn events_are_mixed_and_in_the_order_of_their_time() {
        let events: Vec<_> = (0..5000).map(|number| maker(7).event(number)).collect();
        assert!(events.is_sorted_by_key(|event| event.key));
        let ids: HashSet<_> = events.iter().map(PastEvent::identity).collect();
        assert_eq!(ids.len(), events.len());
        let mut sources = BTreeMap::new();
        events.iter().for_each(|event| *sources.entry(&*event.source).or_insert(0) += 1);
        assert!((2500..3500).contains(&sources["stripe"]) && (1000..1500).contains(&sources["github"]), "{sources:?}");
        let (first, last) = (&events[0], &events[4999]);
        assert!(last.received_at < NOW && last.received_at - first.received_at > 28 * DAY_MS);
        assert_eq!(events.iter().filter(|event| event.payload.is_some()).count(), 100);
    }

    #[test]
    fn bodies_are_json_of_the_size_asked_for() {
        let body = maker(1).event(4999).payload.expect("one of the newest");
        assert_eq!(body.len(), 300);
        serde_json::from_slice::<serde_json::Value>(&body).expect("JSON");
    }
}
