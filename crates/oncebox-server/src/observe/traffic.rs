//! What came in during the last hour, by the minute, and which secrets matched: in memory, of this node alone.
//!
//! The metrics hold the same for whoever collects them; this is for the overview page of a house that does not.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use oncebox::gateway::clock::{Clock, UnixMillis};
use oncebox::gateway::ingest::Answer;
use oncebox::gateway::store::Inserted;
use serde::Serialize;

const MINUTES: i64 = 60;
const MINUTE_MS: i64 = 60_000;
/// Secrets whose use is remembered; more than any config names.
const SECRETS_MAX: usize = 10_000;
/// Upper bounds of the latencies that are told apart, in milliseconds; the last one is open.
const BOUNDS_MS: [f64; 13] = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 5000.0];

/// What became of arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = ResultsView)]
pub(crate) struct Results {
    /// New events.
    pub(crate) accepted: u64,
    /// Known ones.
    pub(crate) duplicate: u64,
    /// Known ids with another body.
    pub(crate) conflict: u64,
    /// Waiting for a person.
    pub(crate) held: u64,
    /// Not verified.
    pub(crate) rejected: u64,
    /// Answered 503.
    pub(crate) unavailable: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Minute {
    /// When it began.
    pub(crate) at: UnixMillis,
    pub(crate) results: Results,
    /// How long the answers took, in milliseconds: the median, 95 and 99 of 100; none without any.
    pub(crate) latency: Option<[f64; 3]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SecretUse {
    /// Requests it matched since this node started.
    pub(crate) matches: u64,
    /// The latest of them.
    pub(crate) last_at: UnixMillis,
}

/// The ring of minutes. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    kept: Arc<Mutex<Kept>>,
    clock: Clock,
    /// When this node began to count.
    pub(crate) since: UnixMillis,
}

#[derive(Debug, Default)]
struct Kept {
    minutes: VecDeque<Bucket>,
    secrets: BTreeMap<(String, usize), SecretUse>,
}

#[derive(Debug, Default)]
struct Bucket {
    number: i64,
    by_source: BTreeMap<String, Results>,
    latencies: [u64; BOUNDS_MS.len() + 1],
}

impl Traffic {
    pub(crate) fn new(clock: Clock) -> Self {
        let since = clock.now();
        Self { kept: Arc::default(), clock, since }
    }

    pub(crate) fn answered(&self, source: &str, answer: &Answer, took: Duration) {
        let now = self.clock.now();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Answer::Stored(receipt) = answer
            && receipt.secret > 0
        {
            kept.used(source, receipt.secret, now);
        }
        let bucket = kept.bucket(now);
        bucket.latencies[place(took)] += 1;
        let results = bucket.of(source);
        match answer {
            Answer::Stored(receipt) => receipt.outcomes.iter().for_each(|outcome| results.stored(*outcome)),
            Answer::Rejected(_) => results.rejected += 1,
            Answer::Unavailable(_) => results.unavailable += 1,
            Answer::Handshake(_) | Answer::Secret(_) => {}
        }
    }

    /// Counts a request that was refused before anybody looked at it.
    pub(crate) fn turned_away(&self, source: &str) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bucket(self.clock.now()).of(source).unavailable += 1;
    }

    /// The last hour, oldest minute first, quiet minutes too.
    pub(crate) fn minutes(&self) -> Vec<Minute> {
        let last = self.clock.now().div_euclid(MINUTE_MS);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let minute = |number: i64| {
            let bucket = kept.minutes.iter().find(|bucket| bucket.number == number);
            Minute {
                at: number * MINUTE_MS,
                results: bucket.map(|bucket| sum(bucket.by_source.values())).unwrap_or_default(),
                latency: bucket.and_then(|bucket| quantiles(&bucket.latencies)),
            }
        };
        (last - MINUTES + 1..=last).map(minute).collect()
    }

    pub(crate) fn last_hour(&self, source: &str) -> Results {
        let first = self.clock.now().div_euclid(MINUTE_MS) - MINUTES + 1;
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = kept.minutes.iter().filter(|bucket| bucket.number >= first);
        sum(recent.filter_map(|bucket| bucket.by_source.get(source)))
    }

    /// How a source's secret of this position, from 1, is used; none where it never matched.
    pub(crate) fn secret(&self, source: &str, position: usize) -> Option<SecretUse> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.secrets.get(&(source.to_owned(), position)).copied()
    }
}

impl Kept {
    fn bucket(&mut self, now: UnixMillis) -> &mut Bucket {
        let number = now.div_euclid(MINUTE_MS);
        // A clock that was set back goes on in the newest minute.
        if self.minutes.back().is_none_or(|last| last.number < number) {
            self.minutes.push_back(Bucket { number, ..Bucket::default() });
        }
        while self.minutes.len() > usize::try_from(MINUTES).unwrap_or(1) {
            self.minutes.pop_front();
        }
        self.minutes.back_mut().expect("one was just put there")
    }

    fn used(&mut self, source: &str, position: usize, now: UnixMillis) {
        let key = (source.to_owned(), position);
        if self.secrets.len() >= SECRETS_MAX && !self.secrets.contains_key(&key) {
            return;
        }
        let usage = self.secrets.entry(key).or_insert(SecretUse { matches: 0, last_at: now });
        usage.matches += 1;
        usage.last_at = now;
    }
}

impl Bucket {
    fn of(&mut self, source: &str) -> &mut Results {
        if !self.by_source.contains_key(source) {
            self.by_source.insert(source.to_owned(), Results::default());
        }
        self.by_source.get_mut(source).expect("one was just put there")
    }
}

impl Results {
    fn stored(&mut self, outcome: Inserted) {
        match outcome {
            Inserted::Accepted(_) | Inserted::Repeated(_) => self.accepted += 1,
            Inserted::Duplicate(_) => self.duplicate += 1,
            Inserted::Conflict(_) | Inserted::ConflictAgain(_) => self.conflict += 1,
            Inserted::Held(_) => self.held += 1,
        }
    }
}

fn sum<'a>(all: impl Iterator<Item = &'a Results>) -> Results {
    all.fold(Results::default(), |a, b| Results {
        accepted: a.accepted + b.accepted,
        duplicate: a.duplicate + b.duplicate,
        conflict: a.conflict + b.conflict,
        held: a.held + b.held,
        rejected: a.rejected + b.rejected,
        unavailable: a.unavailable + b.unavailable,
    })
}

fn place(took: Duration) -> usize {
    let millis = took.as_secs_f64() * 1000.0;
    BOUNDS_MS.iter().position(|bound| millis <= *bound).unwrap_or(BOUNDS_MS.len())
}

/// Each as the upper bound of the bucket it falls into: never better than it was.
fn quantiles(counts: &[u64]) -> Option<[f64; 3]> {
    let total: u64 = counts.iter().sum();
    let at = |share: u64| {
        let rank = (total * share).div_ceil(100).max(1);
        let mut seen = 0;
        let place = counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        let last = BOUNDS_MS[BOUNDS_MS.len() - 1];
        place.and_then(|place| BOUNDS_MS.get(place)).copied().unwrap_or(last)
    };
    (total > 0).then(|| [at(50), at(95), at(99)])
}

#[cfg(test)]
mod tests {
    use oncebox::gateway::event::KeyMaker;
    use oncebox::gateway::ingest::{Receipt, Unavailable};

    use super::*;

    fn stored(secret: usize) -> Answer {
        let key = KeyMaker::default().make(1);
        let outcomes = vec![Inserted::Accepted(key), Inserted::Duplicate(key)];
        Answer::Stored(Receipt { outcomes, batch: true, reply: None, secret })
    }

    #[test]
    fn an_hour_is_kept_by_the_minute() {
        let clock = Clock::manual(600 * MINUTE_MS);
        let traffic = Traffic::new(clock.clone());
        traffic.answered("a", &stored(2), Duration::from_millis(3));
        traffic.answered("b", &Answer::Unavailable(Unavailable::Unknown), Duration::from_secs(9));
        traffic.turned_away("b");
        let minutes = traffic.minutes();
        assert_eq!((minutes.len(), minutes[0].at), (60, 541 * MINUTE_MS));
        let expected = Results { accepted: 1, duplicate: 1, unavailable: 2, ..Results::default() };
        assert_eq!((minutes[59].results, minutes[59].latency), (expected, Some([4.0, 5000.0, 5000.0])));
        assert_eq!((minutes[58].results, minutes[58].latency), (Results::default(), None));
        assert_eq!(traffic.last_hour("b").unavailable, 2);
        assert_eq!(traffic.secret("a", 2), Some(SecretUse { matches: 1, last_at: 600 * MINUTE_MS }));
        assert_eq!(traffic.secret("a", 1), None);
        clock.set(661 * MINUTE_MS);
        assert_eq!(traffic.last_hour("b"), Results::default());
        assert!(traffic.minutes().iter().all(|minute| minute.results == Results::default()));
    }

    #[test]
    fn no_more_minutes_than_an_hour() {
        let clock = Clock::manual(0);
        let traffic = Traffic::new(clock.clone());
        for minute in 0..200 {
            clock.set(minute * MINUTE_MS);
            traffic.turned_away("a");
        }
        assert_eq!(traffic.kept.lock().expect("not poisoned").minutes.len(), 60);
        assert_eq!(traffic.last_hour("a").unavailable, 60);
    }
}
