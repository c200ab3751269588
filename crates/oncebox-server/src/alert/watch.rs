//! Looks at the numbers every few seconds and tells. Every node shares what it counted; one of them, whoever holds the
//! lock, looks at all of it. What was told is in the database, written once it arrived: a notice that did not is tried
//! again at the next look, and whoever takes over goes on where the other stopped.
//!
//! While the database does not answer there is neither lock nor memory of what was told, and that is when somebody must
//! know: each node then tells by itself that it is away, as often as it would otherwise, and writes it down afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use metrics_exporter_prometheus::PrometheusHandle;
use oncebox::Clock;
use oncebox::gateway::event::{KeyMaker, NodeKey};
use oncebox::gateway::ingest::SenderClock;
use oncebox::gateway::shutdown::Shutdown;
use oncebox::gateway::store::{NodeLock, Store, StoreError, Told, Waiting};
use tokio::sync::watch;

use super::counts::{Counts, History, Shared};
use super::notice::NoticeBody;
use super::receiver::Receiver;
use super::{Notice, Phase, Readings, decide};
use crate::config::alert::{Condition, Limits};
use crate::observe::clock_skew;

/// The name of the lock; a node's own name holds a slash, so that no node is called so.
const LOCK: &str = "alerts";
/// A process that said nothing for longer has no say about clocks.
const FRESH: i64 = 120_000;
/// What the database may take for one look.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    /// What this process counted.
    pub(crate) metrics: PrometheusHandle,
    /// What the senders' clocks say.
    pub(crate) senders: SenderClock,
    pub(crate) node: String,
}

#[derive(Debug)]
pub(crate) struct Alerts(watch::Sender<Arc<[Receiver]>>);

impl Alerts {
    /// Starts them; they end with the request to stop.
    pub(crate) fn start(parts: Parts, receivers: Vec<Receiver>, stopping: Shutdown) -> Self {
        let (changes, changed) = watch::channel(receivers.into());
        let key = KeyMaker::default().make(parts.clock.now());
        let (history, own) = (History::default(), History::default());
        let watch = Watch { parts, key, lock: None, history, own, away_since: None, told_alone: Vec::new() };
        tokio::spawn(watch.run(changed, stopping));
        Self(changes)
    }

    pub(crate) fn change(&self, receivers: Vec<Receiver>) {
        self.0.send_replace(receivers.into());
    }
}

struct Watch {
    parts: Parts,
    key: NodeKey,
    lock: Option<NodeLock>,
    /// What all processes counted, on the node that looks.
    history: History,
    /// What this process counted, for when nothing else can be read.
    own: History,
    /// When the database began not to answer.
    away_since: Option<Duration>,
    /// What this node told by itself and could not write down yet.
    told_alone: Vec<Told>,
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
                () = self.poll(&receivers) => {}
            }
        }
    }

    async fn poll(&mut self, receivers: &[Receiver]) {
        let counts = Counts::of_metrics(&self.parts.metrics.render());
        self.own.add(self.parts.clock.monotonic(), BTreeMap::from([(self.key, counts)]), longest(receivers));
        let read = tokio::time::timeout(PATIENCE, self.read(receivers)).await;
        let problem = match read {
            Ok(Ok(found)) => {
                self.away_since = None;
                // Without anything found another node looks.
                if let Some((readings, told)) = found {
                    self.tell(receivers, &readings, &told).await;
                }
                return;
            }
            Ok(Err(error)) => error.chain(),
            Err(_) => "it did not answer in time".to_owned(),
        };
        if self.away_since.is_none() {
            tracing::warn!("alerts could not be checked, retrying: {problem}");
        }
        self.tell_alone(receivers).await;
    }

    /// Tells that the database is away, with what this node knows by itself.
    async fn tell_alone(&mut self, receivers: &[Receiver]) {
        let (now, passed) = (self.parts.clock.now(), self.parts.clock.monotonic());
        let since = *self.away_since.get_or_insert(passed);
        let mut telling = Vec::new();
        for receiver in receivers {
            let config = &receiver.config;
            let on = config.limits.on.iter().copied().filter(|on| *on == Condition::Unavailable).collect();
            let limits = Limits { on, ..config.limits.clone() };
            let lately = self.own.within(limits.window);
            let readings = Readings { lately, away: Some(passed.saturating_sub(since)), ..Readings::default() };
            let told: Vec<Told> = self.told_alone.iter().filter(|told| told.receiver == config.name).cloned().collect();
            let notices = decide(&limits, config.repeat, &readings, &told, now);
            telling.extend(notices.into_iter().map(|notice| (receiver, notice)));
        }
        let told = telling.into_iter().map(async |(receiver, notice)| {
            self.call(receiver, &notice, now).await.then(|| told_of(receiver, &notice, now))
        });
        for told in join_all(told).await.into_iter().flatten() {
            self.told_alone.retain(|before| before.receiver != told.receiver);
            self.told_alone.push(told);
        }
    }

    /// Writes down what this node told by itself.
    async fn remember(&mut self) -> Result<(), StoreError> {
        while let Some(told) = self.told_alone.last() {
            self.parts.store.alert_told(told).await?;
            self.told_alone.pop();
        }
        Ok(())
    }

    /// Shares what this process counted and, on the one node that looks, reads everything.
    async fn read(&mut self, receivers: &[Receiver]) -> Result<Option<(Readings, Vec<Told>)>, StoreError> {
        let Parts { store, clock, .. } = &self.parts;
        let now = clock.now();
        store.report_counts(self.key, &self.shared().await, now).await?;
        self.remember().await?;
        let Parts { store, clock, .. } = &self.parts;
        if !self.lock.as_ref().is_some_and(NodeLock::is_held) {
            self.lock = store.lock_node(LOCK).await?;
            self.history.forget_if_old(clock.monotonic(), longest(receivers));
        }
        if self.lock.is_none() {
            return Ok(None);
        }
        let mut readings = {
            // Since when something waits is asked of an index, however much it is; what is stopped is counted.
            let deliveries = store.depths_up_to(1, usize::MAX).await?;
            readings_of(&deliveries, &store.message_depths_up_to(1, usize::MAX).await?, now)
        };
        let paused = store.handlers().await?.into_iter().filter(|handler| handler.paused);
        readings.paused = paused.map(|handler| (handler.facts.name, 1)).collect();
        readings.retention = store.retention(now).await?.stopped.map(|(_, why)| why);
        let mut counts = BTreeMap::new();
        for report in store.node_counts(now).await? {
            // Of another version of ours, perhaps.
            let Ok(shared) = serde_json::from_str::<Shared>(&report.counts) else { continue };
            counts.insert(report.node, shared.counts);
            if report.age_ms <= FRESH {
                readings.clock = farthest(readings.clock, shared.clock);
            }
        }
        self.history.add(clock.monotonic(), counts, longest(receivers));
        Ok(Some((readings, store.alerts().await?)))
    }

    /// What this process has to say, as JSON.
    async fn shared(&self) -> String {
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
            let window = config.limits.window;
            let (lately, is_whole) = (self.history.within(window), self.history.reaches(window));
            let readings = Readings { lately, is_whole, ..readings.clone() };
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
        if !self.call(receiver, &notice, now).await {
            return;
        }
        let written = match notice.phase {
            Phase::Over => self.parts.store.alert_over(&receiver.config.name, notice.condition.as_str()).await,
            Phase::Began | Phase::Lasts => self.parts.store.alert_told(&told_of(receiver, &notice, now)).await,
        };
        self.note(written);
    }

    /// Sends a notice; false where it did not arrive.
    async fn call(&self, receiver: &Receiver, notice: &Notice, now: i64) -> bool {
        let (config, condition) = (&receiver.config, notice.condition.as_str());
        let dashboard = config.dashboard.as_deref();
        let letter = NoticeBody { alert: &config.name, node: &self.parts.node, at: now, dashboard };
        if let Err(error) = receiver.tell(letter.body(config.kind, notice)).await {
            tracing::warn!(alert = config.name, condition, "the notice could not be sent; retrying: {error}");
            return false;
        }
        tracing::info!(alert = config.name, condition, phase = ?notice.phase, "notice sent: {}", notice.text);
        true
    }

    /// What could not be written is told once more than it should be, which is the safe side.
    fn note(&self, written: Result<(), StoreError>) {
        if let Err(error) = written {
            tracing::warn!("a sent notice could not be recorded: {}", error.chain());
        }
    }
}

fn told_of(receiver: &Receiver, notice: &Notice, now: i64) -> Told {
    let value = Some(notice.value as i64);
    let (receiver, condition) = (receiver.config.name.clone(), notice.condition.as_str().to_owned());
    Told { receiver, condition, since: notice.since, told_at: now, value }
}

fn longest(receivers: &[Receiver]) -> Duration {
    receivers.iter().map(|receiver| receiver.config.limits.window).max().unwrap_or_default()
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
