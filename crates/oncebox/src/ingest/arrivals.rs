//! Arrivals after the first, counted in memory and written twice a second, so that a storm of duplicates costs the
//! database one small write.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::UnixMillis;
use crate::event::EventKey;
use crate::limits::{ARRIVALS_EVERY, ARRIVALS_KEYS_MAX, ARRIVALS_RECENT_MAX};
use crate::shutdown::Shutdown;
use crate::store::{ArrivalCount, Store};

/// Counts that wait to be written. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Arrivals(Arc<Mutex<HashMap<EventKey, ArrivalCount>>>);

impl Arrivals {
    /// Counts one.
    pub(super) fn count(&self, key: EventKey, at: UnixMillis, remote: &str) {
        let mut waiting = self.waiting();
        if waiting.len() >= ARRIVALS_KEYS_MAX && !waiting.contains_key(&key) {
            tracing::warn!(%key, "an arrival goes uncounted: too many wait to be written");
            return;
        }
        let one = waiting.entry(key).or_insert(ArrivalCount { key, count: 0, last_at: at, recent: Vec::new() });
        one.count += 1;
        one.last_at = one.last_at.max(at);
        one.recent.insert(0, (at, remote.to_owned()));
        one.recent.truncate(ARRIVALS_RECENT_MAX);
    }

    pub(super) async fn run(self, store: Store, stop: Shutdown) {
        let mut ticks = tokio::time::interval(ARRIVALS_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.flush(&store).await,
                () = stop.wait() => return,
            }
        }
    }

    /// Writes what waits. What cannot be written waits on.
    pub(super) async fn flush(&self, store: &Store) {
        let counts: Vec<ArrivalCount> = std::mem::take(&mut *self.waiting()).into_values().collect();
        if counts.is_empty() {
            return;
        }
        if let Err(error) = store.add_arrivals(&counts).await {
            tracing::warn!("{} arrival counts wait for the database: {}", counts.len(), error.chain());
            self.put_back(counts);
        }
    }

    fn put_back(&self, counts: Vec<ArrivalCount>) {
        let mut waiting = self.waiting();
        for mut old in counts {
            if let Some(new) = waiting.get_mut(&old.key) {
                new.count += old.count;
                new.recent.append(&mut old.recent);
                new.recent.truncate(ARRIVALS_RECENT_MAX);
            } else if waiting.len() < ARRIVALS_KEYS_MAX {
                waiting.insert(old.key, old);
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<EventKey, ArrivalCount>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
