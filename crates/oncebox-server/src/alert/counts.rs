//! What processes counted since they began, and how much of it falls into a window.
//!
//! Each process takes its numbers from its own metrics page, whose names are fixed, and shares them through the
//! database; whoever looks at the conditions remembers earlier looks and takes the difference.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use oncebox::gateway::event::NodeKey;
use serde::{Deserialize, Serialize};

/// Counted by one process since it began, or by all of them within a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    /// Events that were verified.
    pub(crate) arrived: u64,
    /// Those of them that had come before.
    pub(crate) duplicates: u64,
    /// Those of them whose id had come before with another body.
    pub(crate) conflicts: u64,
    /// Requests that could not be verified.
    pub(crate) rejected: u64,
    /// Requests that were answered 503.
    pub(crate) unavailable: u64,
    /// First attempts that ended.
    pub(crate) tried: u64,
    /// Those of them that failed.
    pub(crate) failed: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Shared {
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// Whose clock its own is farthest from, and by how many milliseconds it is ahead.
    pub(crate) clock: Option<(String, i64)>,
}

/// Earlier looks, as far back as the longest window reaches.
#[derive(Clone, Debug, Default)]
pub(crate) struct History(VecDeque<(Duration, BTreeMap<NodeKey, Counts>)>);

impl Counts {
    pub(crate) fn of_metrics(page: &str) -> Self {
        let mut counts = Self::default();
        for line in page.lines() {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let Some((name, labels)) = series.split_once('{') else { continue };
            let Ok(value) = value.parse::<u64>() else { continue };
            match name {
                "oncebox_arrivals_total" => counts.add_arrivals(labels, value),
                "oncebox_attempts_total" if has(labels, "try", "first") => counts.add_attempts(labels, value),
                _ => {}
            }
        }
        counts
    }

    fn add_arrivals(&mut self, labels: &str, value: u64) {
        if has(labels, "result", "rejected") {
            self.rejected += value;
        } else if has(labels, "result", "unavailable") {
            self.unavailable += value;
        } else {
            self.arrived += value;
            self.duplicates += if has(labels, "result", "duplicate") { value } else { 0 };
            self.conflicts += if has(labels, "result", "conflict") { value } else { 0 };
        }
    }

    fn add_attempts(&mut self, labels: &str, value: u64) {
        self.tried += value;
        let failed = has(labels, "outcome", "failed") || has(labels, "outcome", "dead");
        self.failed += if failed { value } else { 0 };
    }

    fn zip(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            arrived: with(self.arrived, other.arrived),
            duplicates: with(self.duplicates, other.duplicates),
            conflicts: with(self.conflicts, other.conflicts),
            rejected: with(self.rejected, other.rejected),
            unavailable: with(self.unavailable, other.unavailable),
            tried: with(self.tried, other.tried),
            failed: with(self.failed, other.failed),
        }
    }
}

impl History {
    /// Remembers a look, and forgets those that no window reaches.
    pub(crate) fn add(&mut self, at: Duration, counts: BTreeMap<NodeKey, Counts>, longest: Duration) {
        self.0.push_back((at, counts));
        // The last one before the window is where it begins.
        while self.0.get(1).is_some_and(|(second, _)| at.saturating_sub(*second) >= longest) {
            self.0.pop_front();
        }
    }

    /// True where the looks go back as far as a window that ends with the latest.
    pub(crate) fn reaches(&self, window: Duration) -> bool {
        let (first, last) = (self.0.front().map(|(at, _)| *at), self.0.back().map(|(at, _)| *at));
        first.zip(last).is_some_and(|(first, last)| last.saturating_sub(first) >= window)
    }

    /// Forgets looks after which nobody looked for longer than a window: what was counted meanwhile is in none.
    pub(crate) fn forget_if_old(&mut self, now: Duration, longest: Duration) {
        if self.0.back().is_some_and(|(at, _)| now.saturating_sub(*at) > longest) {
            self.0.clear();
        }
    }

    /// What was counted within a window that ends with the latest look. A process that was not there before counts whole.
    pub(crate) fn within(&self, window: Duration) -> Counts {
        let Some((now, latest)) = self.0.back() else { return Counts::default() };
        let start = self.0.iter().rev().find(|(at, _)| now.saturating_sub(*at) >= window).or(self.0.front());
        let before = |node| start.and_then(|(_, counts)| counts.get(node)).copied().unwrap_or_default();
        let grown = latest.iter().map(|(node, counts)| counts.zip(before(node), u64::saturating_sub));
        grown.fold(Counts::default(), |sum, one| sum.zip(one, u64::saturating_add))
    }
}

fn has(labels: &str, name: &str, value: &str) -> bool {
    labels.contains(&format!("{name}=\"{value}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(count: u64) -> Counts {
        Counts { rejected: count, ..Counts::default() }
    }

    fn look(history: &mut History, at: u64, nodes: &[(u8, u64)]) {
        let counts = nodes.iter().map(|(node, count)| (NodeKey::from_bytes([*node; 16]), rejected(*count))).collect();
        history.add(Duration::from_secs(at), counts, Duration::from_secs(60));
    }

    #[test]
    fn a_metrics_page_is_summed_up() {
        let page = "# TYPE oncebox_arrivals_total counter\n\
            oncebox_arrivals_total{source=\"a\",result=\"accepted\"} 5\n\
            oncebox_arrivals_total{source=\"b\",result=\"duplicate\"} 3\n\
            oncebox_arrivals_total{source=\"b\",result=\"held\"} 1\n\
            oncebox_arrivals_total{source=\"b\",result=\"conflict\"} 2\n\
            oncebox_arrivals_total{source=\"b\",result=\"rejected\"} 7\n\
            oncebox_arrivals_total{source=\"b\",result=\"unavailable\"} 9\n\
            oncebox_attempts_total{handler=\"h\",try=\"first\",outcome=\"done\"} 10\n\
            oncebox_attempts_total{handler=\"h\",try=\"first\",outcome=\"failed\"} 2\n\
            oncebox_attempts_total{handler=\"h\",try=\"first\",outcome=\"dead\"} 1\n\
            oncebox_attempts_total{handler=\"h\",try=\"retry\",outcome=\"failed\"} 90\n\
            oncebox_ack_seconds_count 4\nnonsense\n";
        let expected =
            Counts { arrived: 11, duplicates: 3, conflicts: 2, rejected: 7, unavailable: 9, tried: 13, failed: 3 };
        assert_eq!(Counts::of_metrics(page), expected);
    }

    #[test]
    fn a_window_is_the_difference_of_two_looks() {
        let mut history = History::default();
        assert_eq!(history.within(Duration::from_secs(60)), Counts::default());
        look(&mut history, 0, &[(1, 1000)]);
        // What was counted before the first look is nobody's news.
        assert_eq!(history.within(Duration::from_secs(60)), rejected(0));
        look(&mut history, 30, &[(1, 1004)]);
        assert_eq!(history.within(Duration::from_secs(60)), rejected(4));
        // Another process, and one that went away and left its last word.
        look(&mut history, 70, &[(1, 1004), (2, 6)]);
        assert_eq!(history.within(Duration::from_secs(60)), rejected(10));
        look(&mut history, 100, &[(2, 8)]);
        assert_eq!(history.within(Duration::from_secs(60)), rejected(8));
        assert_eq!(history.within(Duration::from_secs(30)), rejected(2));
        assert_eq!(history.0.len(), 3, "what no window reaches is forgotten");
        assert!(history.reaches(Duration::from_secs(60)) && !history.reaches(Duration::from_secs(71)));
        // A short gap is none; after a long one everything begins anew.
        history.forget_if_old(Duration::from_secs(160), Duration::from_secs(60));
        assert_eq!(history.0.len(), 3);
        history.forget_if_old(Duration::from_secs(161), Duration::from_secs(60));
        assert!(history.0.is_empty() && !history.reaches(Duration::ZERO));
    }
}
