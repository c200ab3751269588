//! The last rejections, in memory: an unverified request leaves no trace in the store. No body, no signature, no secret.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use metrics::counter;
use oncebox::gateway::clock::{Clock, UnixMillis};
use oncebox::gateway::limits::REJECTIONS_MAX;
use oncebox_verify::Rejection;

/// Lines a second in the log; the metrics count the rest.
const LINES_PER_SECOND: u32 = 10;
/// How much of an unknown name is shown.
const NAME_SHOWN: usize = 64;

/// Why a request was refused before anybody knew whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    UnknownPath,
    /// No source has this name, or its URL has no token.
    UnknownSource,
    LongTarget,
    LargeHead,
    MalformedHead,
    Connections,
}

/// Each, in the order of the type, with its label in the metrics, and what is wrong and what to do if the sender is genuine.
pub(crate) const REFUSED: [(Refused, &str, &str); 6] = [
    (Refused::UnknownPath, "unknown_path", "webhooks come in under /in/{source} alone; check the URL at the sender"),
    (
        Refused::UnknownSource,
        "unknown_source",
        "no source of the config has this name and form of URL; correct the URL at the vendor, or add a [[source]]",
    ),
    (Refused::LongTarget, "long_target", "the URL is longer than 8 kB; shorten it at the sender"),
    (Refused::LargeHead, "large_head", "more than 100 headers or 64 kB of them; the sender or a proxy adds too many"),
    (
        Refused::MalformedHead,
        "malformed_head",
        "the head is no HTTP/1.1 that can be read in one way only; look at the sender or the proxy",
    ),
    (
        Refused::Connections,
        "connections",
        "as many connections as server.connections allows are open; raise it, or find who keeps them",
    ),
];

#[derive(Clone, Debug)]
pub(crate) struct Rejected {
    pub(crate) at: UnixMillis,
    pub(crate) source: String,
    pub(crate) rejection: Rejection,
    pub(crate) remote: String,
}

/// The bounded log. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Rejections {
    kept: Arc<Mutex<Kept>>,
    clock: Clock,
}

/// Rejections of one source at one step for one reason.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The latest of them.
    pub(crate) last: Rejected,
    /// How many there were since the start.
    pub(crate) count: u64,
}

#[derive(Debug)]
struct Kept {
    /// By source, step and reason: few, since sources are configured.
    groups: BTreeMap<(String, &'static str, &'static str), Log>,
    entries: usize,
    /// The number of the latest entry, from 1.
    number: u64,
    second: Instant,
    lines: u32,
}

#[derive(Debug, Default)]
struct Log {
    entries: VecDeque<(u64, Rejected)>,
    count: u64,
}

impl Rejections {
    pub(crate) fn new(clock: Clock) -> Self {
        let kept = Kept { groups: BTreeMap::new(), entries: 0, number: 0, second: Instant::now(), lines: 0 };
        Self { kept: Arc::new(Mutex::new(kept)), clock }
    }

    /// Keeps one. Where the log is full the oldest of the largest group goes: one noisy sender hides nobody else.
    pub(crate) fn record(&self, source: &str, rejection: &Rejection, remote: &str) {
        let (step, reason) = (rejection.step.as_str(), rejection.reason.as_str());
        let at = self.clock.now();
        let entry = Rejected { at, source: source.to_owned(), rejection: *rejection, remote: remote.to_owned() };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.add((source.to_owned(), step, reason), entry);
        if kept.may_log() {
            tracing::warn!(source, step, reason, remote, off_by_seconds = rejection.off_by_seconds, "rejected");
        }
    }

    /// Counts a request that is no source's. `name` is what stood in the place of a source's name, which a mistyped URL
    /// shows; nothing behind it, because that may be a token.
    pub(crate) fn refused(&self, reason: Refused, name: Option<&str>, remote: IpAddr) {
        let (_, reason, sentence) = REFUSED[reason as usize];
        counter!("oncebox_refused_total", "reason" => reason).increment(1);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.may_log() {
            let name: Option<String> = name.map(|name| name.chars().take(NAME_SHOWN).collect());
            tracing::warn!(reason, name, %remote, "refused: {sentence}");
        }
    }

    /// The latest first, with their numbers: of every source or of one, and only those before `before`.
    pub(crate) fn latest(&self, of: Option<&str>, before: Option<u64>, limit: usize) -> Vec<(u64, Rejected)> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_before = |number: u64| before.is_none_or(|before| number < before);
        let logs = kept.groups.iter().filter(|((source, ..), _)| of.is_none_or(|of| of == source));
        let entries = logs.flat_map(|(_, log)| &log.entries).filter(|(number, _)| is_before(*number));
        let mut found: Vec<_> = entries.collect();
        found.sort_unstable_by_key(|(number, _)| Reverse(*number));
        found.into_iter().take(limit).cloned().collect()
    }

    /// What was refused since the start, the most frequent first.
    pub(crate) fn groups(&self) -> Vec<Group> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let group = |log: &Log| Some(Group { last: log.entries.back()?.1.clone(), count: log.count });
        let mut groups: Vec<Group> = kept.groups.values().filter_map(group).collect();
        groups.sort_by_key(|group| Reverse(group.count));
        groups
    }
}

impl Kept {
    fn add(&mut self, group: (String, &'static str, &'static str), entry: Rejected) {
        if self.entries == REJECTIONS_MAX
            && let Some(largest) = self.groups.values_mut().max_by_key(|log| log.entries.len())
        {
            largest.entries.pop_front();
            self.entries -= 1;
        }
        self.number += 1;
        self.entries += 1;
        let log = self.groups.entry(group).or_default();
        log.count += 1;
        log.entries.push_back((self.number, entry));
    }

    fn may_log(&mut self) -> bool {
        if self.second.elapsed() >= Duration::from_secs(1) {
            if self.lines > LINES_PER_SECOND {
                tracing::warn!("{} more rejections in that second", self.lines - LINES_PER_SECOND);
            }
            (self.second, self.lines) = (Instant::now(), 0);
        }
        self.lines += 1;
        self.lines <= LINES_PER_SECOND
    }
}

#[cfg(test)]
mod tests {
    use oncebox_verify::{Reason, Step};

    use super::*;

    #[test]
    fn one_noisy_sender_hides_nobody() {
        let log = Rejections::new(Clock::system());
        let rejection = |reason| Rejection { step: Step::Signature, reason, off_by_seconds: None };
        log.record("quiet", &rejection(Reason::TooOld), "192.0.2.1");
        for _ in 0..REJECTIONS_MAX + 300 {
            log.record("noisy", &rejection(Reason::Mismatch), "192.0.2.2");
        }
        let groups: Vec<_> = log.groups().into_iter().map(|group| (group.last.source, group.count)).collect();
        assert_eq!(groups, [("noisy".to_owned(), 1300), ("quiet".to_owned(), 1)]);
        let all = log.latest(None, None, usize::MAX);
        assert_eq!((all.len(), all[0].0, all[REJECTIONS_MAX - 1].0), (REJECTIONS_MAX, 1301, 1));
        assert_eq!(log.latest(None, Some(all[0].0), 1)[0].0, 1300);
        assert!(log.latest(None, Some(1), 1).is_empty());
        assert_eq!(log.latest(Some("quiet"), None, 9).len(), 1);
    }
}
