//! Arrivals after the first, counted in memory until they are written.

use std::collections::HashMap;

use crate::clock::UnixMillis;
use crate::event::EventKey;
use crate::limits::{ARRIVALS_KEYS_MAX, ARRIVALS_RECENT_MAX};
use crate::store::{ArrivalCount, Store};

/// Counts that wait to be written.
#[derive(Debug, Default)]
pub(super) struct Arrivals(HashMap<EventKey, ArrivalCount>);

impl Arrivals {
    /// Counts one.
    pub(super) fn count(&mut self, key: EventKey, at: UnixMillis, remote: &str) {
        if self.0.len() >= ARRIVALS_KEYS_MAX && !self.0.contains_key(&key) {
            tracing::warn!(%key, "an arrival goes uncounted: too many wait to be written");
            return;
        }
        let one = self.0.entry(key).or_insert(ArrivalCount { key, count: 0, last_at: at, recent: Vec::new() });
        one.count += 1;
        one.last_at = one.last_at.max(at);
        one.recent.insert(0, (at, remote.to_owned()));
        one.recent.truncate(ARRIVALS_RECENT_MAX);
    }

    /// Writes what waits. What cannot be written waits on.
    pub(super) async fn flush(&mut self, store: &Store) {
        if self.0.is_empty() {
            return;
        }
        let counts: Vec<ArrivalCount> = self.0.values().cloned().collect();
        match store.add_arrivals(&counts).await {
            Ok(()) => self.0.clear(),
            Err(error) => {
                tracing::warn!("{} arrival counts wait for the database: {}", counts.len(), error.chain());
            }
        }
    }
}
