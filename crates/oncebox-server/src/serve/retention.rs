//! Retention in this server: its windows and schedule from the config, the machine's own witness of time.

use std::sync::Arc;
use std::time::Duration;

use oncebox::Clock;
use oncebox::gateway::fault::Faults;
use oncebox::gateway::retention::{self, Boot, Parts, Settings, Windows};
use oncebox::gateway::store::Store;

use crate::config::Config;

pub(crate) fn settings(config: &Config) -> Settings {
    let sources = config.sources.iter().map(|source| (source.spec().name.clone(), source.retention));
    let windows = Windows::new(config.retention.window, sources);
    Settings { windows, schedule: config.retention.schedule }
}

/// What retention is made of here. The passages of fault points are counted without it, unless it is meant.
pub(crate) fn parts(store: &Store, clock: &Clock) -> Parts {
    let is_meant = std::env::var("ONCEBOX_FAULTS").is_ok_and(|plan| plan.contains("retention"));
    let store = if is_meant { store.clone() } else { store.clone().with_faults(Faults::none()) };
    Parts { store, clock: clock.clone(), boot: Arc::new(boot) }
}

/// Makes the places of the payloads to come; without them they only lie elsewhere, so that nothing waits for it.
pub(crate) async fn prepare(store: &Store, clock: &Clock, config: &Config) {
    // Fault points are met by what is served, not by the start.
    let store = store.clone().with_faults(Faults::none());
    if let Err(error) = retention::prepare(&store, clock, &settings(config).windows).await {
        tracing::warn!("could not create payload partitions for the coming days: {}", error.chain());
    }
}

/// Which start of the machine this is; none where it does not say.
fn boot() -> Option<Boot> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let uptime = Duration::try_from_secs_f64(seconds).ok()?;
    Some(Boot { id: id.trim().to_owned(), uptime })
}
