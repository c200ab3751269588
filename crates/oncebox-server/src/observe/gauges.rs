//! What is counted in the database when somebody looks at the metrics: the queues, the outbox, the ledger.
//!
//! Whatever is configured is shown from the start, and whatever was ever shown is shown as zero once it is gone, so that
//! an alert never compares with nothing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use metrics::gauge;
use oncebox::gateway::clock::{Clock, UnixMillis};
use oncebox::gateway::ingest::SenderClock;
use oncebox::gateway::relay::Spared;
use oncebox::gateway::store::{QueueCount, Store};

use crate::observe::clock_skew;
use crate::setup::Setup;

/// A database that does not answer within this leaves the gauges as they were.
const PATIENCE: Duration = Duration::from_secs(2);
const DELIVERY_STATES: [&str; 4] = ["ready", "claimed", "dead", "held"];
const OUTBOX_STATES: [&str; 3] = ["ready", "claimed", "dead"];
/// The destination of messages that wait for one to be configured.
const NOT_CONFIGURED: &str = "not configured";
/// What came since the last count is read, so that this may be under way for a twentieth of the time and no more.
const LEDGER_PAUSE: u32 = 19;

/// Names that were ever shown, and when the ledger may be counted again.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    handlers: Names,
    destinations: Names,
    sources: Arc<Names>,
    ledger_due: Arc<Mutex<Ledger>>,
    senders: SenderClock,
}

#[derive(Debug, Default)]
struct Names(Mutex<BTreeSet<String>>);

#[derive(Clone, Copy, Debug, Default)]
enum Ledger {
    #[default]
    Due,
    UnderWay,
    NotBefore(Instant),
}

impl Gauges {
    /// Holds our clock against these senders'.
    pub(crate) fn new(senders: SenderClock) -> Self {
        Self { senders, ..Self::default() }
    }

    pub(crate) async fn count(&self, store: &Store, clock: &Clock, setup: &Setup, spared: &Spared) {
        self.handlers.add(setup.routes.handlers());
        self.destinations.add(setup.destinations.iter().map(String::as_str));
        self.sources.add(setup.sources.keys().map(String::as_str));
        self.show_spared(spared);
        let queues = async {
            let (deliveries, outbox) = (store.queue_depths().await?, store.outbox_depths().await?);
            self.show_deliveries(&deliveries, clock.now());
            self.show_outbox(&outbox);
            Ok::<_, oncebox::gateway::store::StoreError>(())
        };
        let queues = tokio::time::timeout(PATIENCE, queues);
        let (queues, (), ()) = tokio::join!(queues, self.count_ledger(store), self.show_clock(store, clock));
        match queues {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("the queues could not be counted: {}", error.chain()),
            Err(_) => tracing::warn!("the queues could not be counted in time"),
        }
    }

    fn show_deliveries(&self, depths: &[QueueCount], now: UnixMillis) {
        for handler in self.handlers.add(depths.iter().map(|depth| depth.name.as_str())) {
            for state in DELIVERY_STATES {
                let count = depth_of(depths, &handler, state).map_or(0, |depth| depth.count);
                gauge!("oncebox_deliveries", "handler" => handler.clone(), "state" => state).set(count as f64);
            }
            let oldest = depth_of(depths, &handler, "ready").and_then(|depth| depth.oldest_due_at);
            let seconds = oldest.map_or(0.0, |due_at| (now - due_at).max(0) as f64 / 1000.0);
            gauge!("oncebox_oldest_ready_seconds", "handler" => handler).set(seconds);
        }
    }

    fn show_spared(&self, spared: &Spared) {
        let spared = spared.list();
        for name in self.destinations.add(std::iter::empty()) {
            let is_spared = spared.contains_key(name.as_str());
            gauge!("oncebox_destination_spared", "destination" => name).set(f64::from(u8::from(is_spared)));
        }
    }

    /// Applications write the names of destinations, so that only configured ones have a series of their own.
    fn show_outbox(&self, depths: &[QueueCount]) {
        let configured = self.destinations.add(std::iter::empty());
        let is_known = |depth: &&QueueCount| configured.contains(&depth.name);
        for state in OUTBOX_STATES {
            for name in &configured {
                let count = depth_of(depths, name, state).map_or(0, |depth| depth.count);
                gauge!("oncebox_outbox", "destination" => name.clone(), "state" => state).set(count as f64);
            }
            let others = depths.iter().filter(|depth| depth.state == state && !is_known(depth));
            let count: i64 = others.map(|depth| depth.count).sum();
            gauge!("oncebox_outbox", "destination" => NOT_CONFIGURED, "state" => state).set(count as f64);
        }
    }

    /// A database that does not answer leaves its part as it was; without signed times there is nothing to say.
    async fn show_clock(&self, store: &Store, clock: &Clock) {
        let show = |against: &'static str, millis: i64| {
            gauge!("oncebox_clock_skew_seconds", "against" => against).set(millis as f64 / 1000.0);
        };
        let skew = self.senders.skew(clock);
        show("senders_median", skew.map_or(0, |skew| skew.median));
        show("senders_farthest", skew.map_or(0, |skew| skew.farthest));
        if let Ok(Ok(skew)) = tokio::time::timeout(PATIENCE, clock_skew::against_database(store, clock)).await {
            show("database", skew);
        }
    }

    /// Counts on even when nobody waits any more: the next look shows it.
    async fn count_ledger(&self, store: &Store) {
        if !start(&self.ledger_due) {
            return;
        }
        let (store, names, ledger) = (store.clone(), self.sources.clone(), self.ledger_due.clone());
        let counting = tokio::spawn(async move {
            let started = Instant::now();
            match store.ledger_rows(usize::MAX).await {
                Ok(ledger) => show_ledger(&names, &ledger.by_source),
                Err(error) => tracing::warn!("the ledger could not be counted: {}", error.chain()),
            }
            let next = Instant::now() + started.elapsed().saturating_mul(LEDGER_PAUSE);
            *ledger.lock().unwrap_or_else(PoisonError::into_inner) = Ledger::NotBefore(next);
        });
        // A panic in there is reported by its own hook, and time that ran out by the gauge that stays.
        let _ = tokio::time::timeout(PATIENCE, counting).await;
    }
}

impl Names {
    /// Adds names and gives all of them.
    fn add<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<String> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(names.map(str::to_owned));
        known.iter().cloned().collect()
    }
}

fn show_ledger(names: &Names, rows: &[(String, i64)]) {
    for source in names.add(rows.iter().map(|(source, _)| source.as_str())) {
        let count = rows.iter().find(|(one, _)| *one == source).map_or(0, |(_, count)| *count);
        gauge!("oncebox_ledger_rows", "source" => source).set(count as f64);
    }
}

fn depth_of<'a>(depths: &'a [QueueCount], name: &str, state: &str) -> Option<&'a QueueCount> {
    depths.iter().find(|depth| depth.name == name && depth.state == state)
}

/// Claims the counting for the caller; false while it is under way or not due.
fn start(ledger: &Mutex<Ledger>) -> bool {
    let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
    let due = match *ledger {
        Ledger::Due => true,
        Ledger::UnderWay => false,
        Ledger::NotBefore(time) => Instant::now() >= time,
    };
    if due {
        *ledger = Ledger::UnderWay;
    }
    due
}
