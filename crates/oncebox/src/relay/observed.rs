//! What people should know about destinations: which are spared because nobody is there, and which have messages although
//! nobody serves them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::UnixMillis;
use crate::store::Store;

/// Applications write the names of destinations, so that there may be any number of wrong ones.
const WARNED_MAX: usize = 100;

/// Destinations that are spared, as this process sees them. Cheap to clone; always the latest.
#[derive(Clone, Debug, Default)]
pub struct Spared(Arc<Mutex<BTreeMap<Arc<str>, UnixMillis>>>);

impl Spared {
    /// Each with the time of the next probe, which may be past while the probe is under way.
    pub fn list(&self) -> BTreeMap<Arc<str>, UnixMillis> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, spared: impl Iterator<Item = (Arc<str>, Duration)>, now: UnixMillis) {
        let until = |pause: Duration| now.saturating_add(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX));
        let spared = spared.map(|(name, pause)| (name, until(pause))).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = spared;
    }
}

/// Warns once for each destination that has messages and is not served.
#[derive(Clone, Debug, Default)]
pub(super) struct Unserved(Arc<Mutex<BTreeSet<String>>>);

impl Unserved {
    pub(super) async fn watch(self, store: Store, served: Vec<Arc<str>>) {
        // A database that is away shows in more important places.
        let Ok(depths) = store.outbox_depths().await else { return };
        let waiting = depths.into_iter().filter(|depth| depth.state == "ready");
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for depth in waiting.filter(|depth| !served.iter().any(|name| **name == *depth.name)) {
            if warned.len() < WARNED_MAX && warned.insert(depth.name.clone()) {
                tracing::warn!(
                    destination = depth.name,
                    "{} messages wait for a destination that is not configured: add it, or discard them",
                    depth.count
                );
            }
        }
        // One that is served again and then no more is worth another line.
        warned.retain(|name| !served.iter().any(|one| **one == **name));
    }
}
