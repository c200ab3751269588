//! The depths of the queues, counted in the database when somebody looks at the metrics.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use metrics::gauge;
use oncebox::clock::{Clock, UnixMillis};
use oncebox::store::{QueueCount, Store, StoreError};

/// A database that does not answer within this leaves the gauges as they were.
const PATIENCE: Duration = Duration::from_secs(2);
const STATES: [&str; 4] = ["ready", "claimed", "dead", "held"];

/// Remembers which handlers and destinations were ever shown, so that an empty queue shows zero and not its last count.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    handlers: Mutex<BTreeSet<String>>,
    destinations: Mutex<BTreeSet<String>>,
}

impl Gauges {
    /// Counts now.
    pub(crate) async fn count(&self, store: &Store, clock: &Clock) {
        let counted = async { Ok::<_, StoreError>((store.queue_depths().await?, store.outbox_depths().await?)) };
        match tokio::time::timeout(PATIENCE, counted).await {
            Ok(Ok((deliveries, messages))) => {
                self.show(&deliveries, clock.now());
                self.show_outbox(&messages);
            }
            Ok(Err(error)) => tracing::warn!("the queues could not be counted: {}", error.chain()),
            Err(_) => tracing::warn!("the queues could not be counted in time"),
        }
    }

    fn show(&self, depths: &[QueueCount], now: UnixMillis) {
        let mut known = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(depths.iter().map(|depth| depth.name.clone()));
        for handler in known.iter() {
            for state in STATES {
                let depth = depths.iter().find(|depth| depth.name == *handler && depth.state == state);
                let count = depth.map_or(0, |depth| depth.count);
                gauge!("oncebox_deliveries", "handler" => handler.clone(), "state" => state).set(count as f64);
                if state == "ready" {
                    let oldest = depth.and_then(|depth| depth.oldest_due_at);
                    let seconds = oldest.map_or(0.0, |due_at| (now - due_at).max(0) as f64 / 1000.0);
                    gauge!("oncebox_oldest_ready_seconds", "handler" => handler.clone()).set(seconds);
                }
            }
        }
    }

    fn show_outbox(&self, depths: &[QueueCount]) {
        let mut known = self.destinations.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(depths.iter().map(|depth| depth.name.clone()));
        for destination in known.iter() {
            for state in ["ready", "claimed", "dead"] {
                let depth = depths.iter().find(|depth| depth.name == *destination && depth.state == state);
                let count = depth.map_or(0, |depth| depth.count);
                gauge!("oncebox_outbox", "destination" => destination.clone(), "state" => state).set(count as f64);
            }
        }
    }
}
