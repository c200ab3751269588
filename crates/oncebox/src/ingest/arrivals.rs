//! Arrivals after the first, counted in memory until they are written.

use std::collections::HashMap;

use crate::clock::UnixMillis;
use crate::event::EventKey;
use crate::limits::{ARRIVALS_KEYS_MAX, ARRIVALS_RECENT_MAX};
use crate::store::ArrivalCount;

/// Counts that wait to be written.
#[derive(Debug, Default)]
pub(super) struct Arrivals(HashMap<EventKey, ArrivalCount>);

impl Arrivals {
    pub(super) fn count(&mut self, key: EventKey, at: UnixMillis, remote: &str) {
        if self.0.len() >= ARRIVALS_KEYS_MAX && !self.0.contains_key(&key) {
            tracing::warn!(%key, "an arrival is not counted: too many wait to be written");
            return;
        }
        let one = self.0.entry(key).or_insert(ArrivalCount { key, count: 0, last_at: at, recent: Vec::new() });
        one.count += 1;
        one.last_at = one.last_at.max(at);
        one.recent.insert(0, (at, remote.to_owned()));
        one.recent.truncate(ARRIVALS_RECENT_MAX);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self) -> Vec<ArrivalCount> {
        std::mem::take(&mut self.0).into_values().collect()
    }

    /// Takes back what could not be written.
    pub(super) fn put_back(&mut self, counts: Vec<ArrivalCount>) {
        for mut old in counts {
            if let Some(new) = self.0.get_mut(&old.key) {
                new.count += old.count;
                new.recent.append(&mut old.recent);
                new.recent.truncate(ARRIVALS_RECENT_MAX);
            } else if self.0.len() < ARRIVALS_KEYS_MAX {
                self.0.insert(old.key, old);
            }
        }
    }
}
