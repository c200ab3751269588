//! Looks at the numbers every few seconds and tells. Every node shares what it counted; one of them, whoever holds the
//! lock, looks at all of it. What was told is in the database, written once it arrived: a notice that did not is tried
//! again at the next look, and whoever takes over goes on where the other stopped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use metrics_exporter_prometheus::PrometheusHandle;
use oncebox::clock::Clock;
use oncebox::event::{EventKey, KeyMaker};
use oncebox::ingest::SenderClock;
use oncebox::shutdown::Shutdown;
use oncebox::store::{NodeLock, Store, StoreError, Told, Waiting};
use tokio::sync::watch;

use super::counts::{Counts, History, Shared};
use super::notice::Letter;
use super::receiver::Receiver;
use super::{Notice, Phase, Readings, decide};
use crate::clock_skew;

/// The name of the lock; a node's own name holds a slash, so that no node is called so.
const LOCK: &str = "alerts";
/// A process that said nothing for longer has no say about clocks.
const FRESH: i64 = 120_000;
/// What the database may take for one look.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the numbers are read from.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The database.
    pub(crate) store: Store,
    /// The time.
    pub(crate) clock: Clock,
    /// What this process counted.
    pub(crate) metrics: PrometheusHandle,
    /// What the senders' clocks say.
    pub(crate) senders: SenderClock,
    /// What this node is called.
    pub(crate) node: String,
}

/// The running alerts of one node.
#[derive(Debug)]
pub(crate) struct Alerts(watch::Sender<Arc<[Receiver]>>);

impl Alerts {
    /// Starts them; they end with the request to stop.
    pub(crate) fn start(parts: Parts, receivers: Vec<Receiver>, stopping: Shutdown) -> Self {
        let (changes, changed) = watch::channel(receivers.into());
        let key = KeyMaker::default().make(parts.clock.now());
        let watch = Watch { parts, key, lock: None, history: History::default(), is_failing: false };
        tokio::spawn(watch.run(changed, stopping));
        Self(changes)
    }

    /// Takes a changed config.
    pub(crate) fn change(&self, receivers: Vec<Receiver>) {
        self.0.send_replace(receivers.into());
    }
}

struct Watch {
    parts: Parts,
    /// Which process this is.
    key: EventKey,
    lock: Option<NodeLock>,
    history: History,
    is_failing: bool,
}

impl Watch {
    async fn run(mut self, mut changes: watch::Receiver<Arc<[Receiver]>>, stopping: Shutdown) {
        loop {
            let receivers = changes.borrow_and_update().clone();
            let pause = async {
                match receivers.iter().map(|receiver| receiver.config.every).min() {
                    Some(every) => tokio::time::sleep(every).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stopping.wait() => return,
                changed = changes.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                () = pause => {}
            }
            tokio::select! {
                () = stopping.wait() => return,
                () = self.look(&receivers) => {}
            }
        }
    }

    async fn look(&mut self, receivers: &[Receiver]) {
        let read = tokio::time::timeout(PATIENCE, self.read(receivers)).await;
        let problem = match read {
            Ok(Ok(Some((readings, told)))) => {
                self.tell(receivers, &readings, &told).await;
                None
            }
            // Another node looks.
            Ok(Ok(None)) => None,
            Ok(Err(error)) => Some(error.chain()),
            Err(_) => Some("it did not answer in time".to_owned()),
        };
        if let Some(problem) = problem.as_ref().filter(|_| !self.is_failing) {
            tracing::warn!("alerts wait for the database: {problem}");
        }
        self.is_failing = problem.is_some();
    }

    /// Shares what this process counted and, on the one node that looks, reads everything.
    async fn read(&mut self, receivers: &[Receiver]) -> Result<Option<(Readings, Vec<Told>)>, StoreError> {
        let Parts { store, clock, .. } = &self.parts;
        let now = clock.now();
        store.report_counts(self.key, &self.own().await, now).await?;
        if !self.lock.as_ref().is_some_and(NodeLock::is_held) {
            self.lock = store.lock_node(LOCK).await?;
            self.history = History::default();
        }
        if self.lock.is_none() {
            return Ok(None);
        }
        let mut readings = {
            // Since when something waits is asked of an index, however much it is; what is stopped is counted.
            let deliveries = store.depths_up_to(1, usize::MAX).await?;
            readings_of(&deliveries, &store.message_depths_up_to(1, usize::MAX).await?, now)
        };
        let mut counts = BTreeMap::new();
        for report in store.node_counts(now).await? {
            // Of another version of ours, perhaps.
            let Ok(shared) = serde_json::from_str::<Shared>(&report.counts) else { continue };
            counts.insert(report.node, shared.counts);
            if report.age_ms <= FRESH {
                readings.clock = farthest(readings.clock, shared.clock);
            }
        }
        let longest = receivers.iter().map(|receiver| receiver.config.limits.window).max().unwrap_or_default();
        self.history.add(clock.passed(), counts, longest);
        Ok(Some((readings, store.alerts().await?)))
    }

    /// What this process has to say, as JSON.
    async fn own(&self) -> String {
        let Parts { store, clock, metrics, senders, .. } = &self.parts;
        let database = clock_skew::against_database(store, clock).await.ok();
        let database = database.map(|skew| ("database".to_owned(), skew));
        let senders = senders.skew(clock).map(|skew| ("senders".to_owned(), skew.median));
        let counts = Counts::of_metrics(&metrics.render());
        serde_json::to_string(&Shared { counts, clock: farthest(database, senders) }).unwrap_or_default()
    }

    async fn tell(&self, receivers: &[Receiver], readings: &Readings, told: &[Told]) {
        let now = self.parts.clock.now();
        let mut telling = Vec::new();
        for receiver in receivers {
            let config = &receiver.config;
            let own: Vec<Told> = told.iter().filter(|told| told.receiver == config.name).cloned().collect();
            let readings = Readings { lately: self.history.within(config.limits.window), ..readings.clone() };
            let notices = decide(&config.limits, config.repeat, &readings, &own, now);
            telling.extend(notices.into_iter().map(|notice| self.tell_one(receiver, notice, now)));
        }
        let wanted = |told: &&Told| {
            let receiver = receivers.iter().find(|receiver| receiver.config.name == told.receiver);
            receiver.is_some_and(|one| one.config.limits.on.iter().any(|on| on.as_str() == told.condition))
        };
        for gone in told.iter().filter(|told| !wanted(told)) {
            self.note(self.parts.store.alert_over(&gone.receiver, &gone.condition).await);
        }
        join_all(telling).await;
    }

    async fn tell_one(&self, receiver: &Receiver, notice: Notice, now: i64) {
        let (name, condition) = (&receiver.config.name, notice.condition.as_str());
        let letter = Letter { alert: name, node: &self.parts.node, at: now };
        if let Err(error) = receiver.tell(letter.body(receiver.config.kind, &notice)).await {
            tracing::warn!(alert = name, condition, "nobody could be told, it is tried again: {error}");
            return;
        }
        let written = match notice.phase {
            Phase::Over => self.parts.store.alert_over(name, condition).await,
            Phase::Began | Phase::Lasts => {
                let (receiver, condition) = (name.clone(), condition.to_owned());
                self.parts.store.alert_told(&Told { receiver, condition, since: notice.since, told_at: now }).await
            }
        };
        tracing::info!(alert = name, condition, phase = ?notice.phase, "told: {}", notice.text);
        self.note(written);
    }

    /// What could not be written is told once more than it should be, which is the safe side.
    fn note(&self, written: Result<(), StoreError>) {
        if let Err(error) = written {
            tracing::warn!("what was told could not be written down: {}", error.chain());
        }
    }
}

fn readings_of(deliveries: &[Waiting], outbox: &[Waiting], now: i64) -> Readings {
    let stopped = |depths: &[Waiting], state: &str| -> Vec<(String, i64)> {
        let found = depths.iter().filter(|depth| depth.state == state && depth.count > 0);
        found.map(|depth| (depth.name.clone(), depth.count)).collect()
    };
    let ready = deliveries.iter().filter(|depth| depth.state == "ready");
    let ages = ready.filter_map(|depth| {
        let age = u64::try_from(now.saturating_sub(depth.oldest_due_at?)).ok()?;
        Some((depth.name.clone(), Duration::from_millis(age)))
    });
    Readings {
        dead: [stopped(deliveries, "dead"), stopped(outbox, "dead")].concat(),
        held: stopped(deliveries, "held"),
        oldest: ages.max_by_key(|(_, age)| *age),
        ..Readings::default()
    }
}

fn farthest(one: Option<(String, i64)>, other: Option<(String, i64)>) -> Option<(String, i64)> {
    [one, other].into_iter().flatten().max_by_key(|(_, millis)| millis.unsigned_abs())
}
