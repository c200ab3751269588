//! How long things live, by source.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::UnixMillis;
use crate::event::Key;
use crate::store::WindowRecord;

/// The windows of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How long an identity is remembered, from its first arrival on.
    pub ledger: Duration,
    /// How long bytes and headers are kept, from the first arrival on.
    pub payload: Duration,
}

/// The windows of every source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    general: Window,
    sources: BTreeMap<String, Window>,
}

impl Windows {
    /// Takes the general windows and those of sources.
    pub fn new(general: Window, sources: impl IntoIterator<Item = (String, Window)>) -> Self {
        Self { general, sources: sources.into_iter().collect() }
    }

    /// Reads what the database knows; none where nobody ever said.
    pub fn from_records(records: &[WindowRecord]) -> Option<Self> {
        let window = |one: &WindowRecord| Window { ledger: duration(one.ledger_ms), payload: duration(one.payload_ms) };
        let general = window(records.iter().find(|one| one.source.is_empty())?);
        let sources = records.iter().filter(|one| !one.source.is_empty());
        Some(Self::new(general, sources.map(|one| (one.source.clone(), window(one)))))
    }

    /// What the database is to know.
    pub fn records(&self) -> Vec<WindowRecord> {
        let record = |source: &str, window: &Window| WindowRecord {
            source: source.to_owned(),
            ledger_ms: millis(window.ledger),
            payload_ms: millis(window.payload),
        };
        let sources = self.sources.iter().map(|(source, window)| record(source, window));
        std::iter::once(record("", &self.general)).chain(sources).collect()
    }

    /// The windows of a source; the general ones for a name that nobody knows.
    pub fn of(&self, source: &str) -> Window {
        self.sources.get(source).copied().unwrap_or(self.general)
    }

    /// The windows of whatever belongs to no source.
    pub fn general(&self) -> Window {
        self.general
    }

    /// The shortest time that one of the windows says: of payloads or identities, nothing younger is ever over.
    pub(super) fn shortest(&self, of: impl Fn(&Window) -> Duration) -> Duration {
        self.all().map(of).min().unwrap_or_default()
    }

    /// The longest time that one of the windows says: what is compared across sources lives as long.
    pub(super) fn longest(&self, of: impl Fn(&Window) -> Duration) -> Duration {
        self.all().map(of).max().unwrap_or_default()
    }

    fn all(&self) -> impl Iterator<Item = &Window> {
        std::iter::once(&self.general).chain(self.sources.values())
    }
}

/// The first key that is too young for a window to be over.
pub(super) fn end_of<K>(window: Duration, now: UnixMillis) -> Key<K> {
    Key::at(before(now, window))
}

pub(super) fn before(now: UnixMillis, window: Duration) -> UnixMillis {
    now.saturating_sub(millis(window))
}

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn duration(ms: i64) -> Duration {
    Duration::from_millis(ms.max(0).unsigned_abs())
}
