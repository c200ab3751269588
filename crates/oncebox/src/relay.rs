//! The relay of one node: claims messages that wait in the outbox, sends them, marks them.
//!
//! The loop decides when, a lane how much and how fast, an attempt makes the call, the closer writes down how it went.
//! Every destination has a lane of its own, so a slow one delays nobody else. Whoever dies between a call and its mark
//! has the message sent again under the same key: at least once, and one key.

mod attempt;
mod closer;
mod destination;
mod lane;
mod metric;
mod request;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::MissedTickBehavior;

use attempt::{End, Ended};
use closer::{Closer, give_back};
pub use destination::DestinationSpec;
use lane::Lane;

use crate::circuit::Reached;
use crate::clock::Clock;
use crate::event::EventKey;
use crate::limits::{ENDED_MAX, POLL_EVERY};
use crate::running::Running;
use crate::shutdown::Shutdown;
use crate::store::{MessageFence, MessageWant, Store, StoreError};
use crate::wake::Wake;

/// How often the relay looks without being told to: the workers' look, which serves both, is the usual one.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How long giving claims back may take at the end.
const LAST_WRITE: Duration = Duration::from_secs(5);

/// What a relay is made of.
#[derive(Debug)]
pub struct Parts {
    /// The database.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// Who wakes it.
    pub wake: Wake,
    /// Which process this is, as its workers have it.
    pub node: EventKey,
}

/// The running relay of one node.
#[derive(Debug)]
pub struct Relay {
    destinations: watch::Sender<Arc<[Arc<DestinationSpec>]>>,
    running: Running,
}

impl Relay {
    /// Starts it. A database that is away is waited for.
    pub fn start(parts: Parts, destinations: Vec<DestinationSpec>) -> Self {
        let (destinations, changes) = watch::channel(shared(destinations));
        let (ended, closing) = mpsc::channel(ENDED_MAX);
        let Parts { store, clock, wake, node } = parts;
        let mut tasks = JoinSet::new();
        tasks.spawn(Closer { store: store.clone(), clock: clock.clone(), wake: wake.clone() }.run(closing));
        let sender = Sender {
            store,
            clock,
            wake,
            node,
            ended,
            lanes: BTreeMap::new(),
            running: JoinSet::new(),
            calls: HashMap::new(),
            chores: JoinSet::new(),
            registered: false,
        };
        let running = Running::start(tasks, |stopping, grace| sender.run(changes, stopping, grace));
        Self { destinations, running }
    }

    /// Takes a changed config. Messages to a destination that is gone stay where they are until it returns.
    pub fn set_destinations(&self, destinations: Vec<DestinationSpec>) {
        self.destinations.send_replace(shared(destinations));
    }

    /// Waits until the loop broke, which nothing but a mistake of ours can do: whoever runs it should start anew.
    pub async fn broke(&self) {
        self.running.broke().await;
    }

    /// Stops claiming, lets calls under way go on for `grace`, and puts the rest back without using an attempt.
    pub async fn stop(self, grace: Duration) {
        self.running.stop(grace).await;
    }
}

fn shared(destinations: Vec<DestinationSpec>) -> Arc<[Arc<DestinationSpec>]> {
    destinations.into_iter().map(Arc::new).collect()
}

/// The loop and what it has in hand.
struct Sender {
    store: Store,
    clock: Clock,
    wake: Wake,
    node: EventKey,
    /// To the closer.
    ended: mpsc::Sender<Ended>,
    lanes: BTreeMap<Arc<str>, Lane>,
    running: JoinSet<Ended>,
    calls: HashMap<Id, (Arc<str>, MessageFence)>,
    /// Claims on their way back.
    chores: JoinSet<()>,
    /// Whether the database knows the destinations as they are configured.
    registered: bool,
}

impl Sender {
    async fn run(
        mut self,
        mut changes: watch::Receiver<Arc<[Arc<DestinationSpec>]>>,
        stopping: Shutdown,
        grace: watch::Receiver<Duration>,
    ) {
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        changes.mark_changed();
        while !stopping.requested() {
            let resumes_in = self.resumes_in();
            tokio::select! {
                () = stopping.wait() => break,
                Ok(()) = changes.changed() => self.change(&changes.borrow_and_update().clone()),
                Some(ended) = self.running.join_next_with_id() => self.ended(ended).await,
                Some(_) = self.chores.join_next() => {}
                names = self.wake.wait_for_messages() => names.iter().for_each(|name| self.look(name)),
                _ = look.tick() => self.lanes.values_mut().for_each(Lane::look),
                () = tokio::time::sleep(resumes_in.unwrap_or(LOOK_EVERY)), if resumes_in.is_some() => {}
            }
            while let Some(ended) = self.running.try_join_next_with_id() {
                self.ended(ended).await;
            }
            if let Err(error) = self.step().await {
                tracing::warn!("claiming messages waits for the database: {}", error.chain());
                tokio::select! {
                    () = stopping.wait() => break,
                    () = tokio::time::sleep(POLL_EVERY) => {}
                }
            }
        }
        let grace = *grace.borrow();
        self.stop(grace).await;
    }

    /// Claims what the lanes have room for and begins the calls that may begin.
    async fn step(&mut self) -> Result<(), StoreError> {
        self.put_back();
        self.claim().await?;
        let now = self.clock.passed();
        for (name, lane) in &mut self.lanes {
            while let Some(one) = lane.start(now) {
                let fence = one.message.fence;
                let call = attempt::run(self.store.clone(), self.clock.clone(), lane.spec.clone(), one);
                let id = self.running.spawn(call).id();
                self.calls.insert(id, (name.clone(), fence));
            }
        }
        Ok(())
    }

    async fn claim(&mut self) -> Result<(), StoreError> {
        if !self.registered {
            let facts: Vec<_> = self.lanes.values().map(|lane| lane.spec.facts()).collect();
            if !facts.is_empty() {
                self.store.register_destinations(&facts).await?;
            }
            self.registered = true;
        }
        let now = self.clock.passed();
        let mut wants = Vec::new();
        for (name, lane) in &mut self.lanes {
            let limit = lane.appetite(now);
            if limit > 0 {
                wants.push(MessageWant { destination: name.to_string(), limit, lease: lane.spec.lease() });
            }
        }
        if wants.is_empty() {
            return Ok(());
        }
        let claims = match self.store.claim_messages(&wants, Some(self.node), self.clock.now()).await {
            Ok(claims) => claims,
            Err(error) => {
                self.lanes.values_mut().for_each(|lane| lane.claim_failed(now));
                return Err(error);
            }
        };
        claims.buried.iter().for_each(|(id, destination, attempt)| metric::buried(*id, destination, *attempt));
        let mut by_destination: HashMap<String, Vec<_>> = HashMap::new();
        for claim in claims.claimed {
            by_destination.entry(claim.destination.clone()).or_default().push(claim);
        }
        for want in wants {
            if let Some(lane) = self.lanes.get_mut(want.destination.as_str()) {
                lane.take(by_destination.remove(&want.destination).unwrap_or_default(), want.limit, now);
            }
        }
        Ok(())
    }

    fn change(&mut self, destinations: &[Arc<DestinationSpec>]) {
        self.lanes.values_mut().for_each(Lane::remove);
        for spec in destinations {
            match self.lanes.get_mut(&spec.name) {
                Some(lane) => lane.change(spec.clone()),
                None => drop(self.lanes.insert(spec.name.clone(), Lane::new(spec.clone()))),
            }
        }
        self.wake.serve(destinations.iter().map(|spec| spec.name.clone()));
        self.registered = false;
        self.forget();
    }

    /// A call is over: its slot is free at once, and the closer writes down how it went.
    async fn ended(&mut self, ended: Result<(Id, Ended), JoinError>) {
        let (id, ended) = match ended {
            Ok((id, ended)) => (id, Some(ended)),
            // Ours to repair, and never to stop for: the lease brings its message back.
            Err(error) => {
                tracing::error!("a call broke: {error}");
                (error.id(), None)
            }
        };
        let now = self.clock.passed();
        if let Some((name, _)) = self.calls.remove(&id)
            && let Some(lane) = self.lanes.get_mut(&name)
        {
            lane.end(ended.as_ref().map_or(Reached::Unknown, |ended| ended.reached), now);
        }
        match ended {
            Some(Ended { message, end: End::NotMade, .. }) => {
                let fences = vec![message.fence];
                self.chores.spawn(give_back(self.store.clone(), self.clock.clone(), fences, Duration::ZERO));
            }
            Some(Ended { end: End::Unknown, .. }) | None => {}
            // The closer lives as long as we do.
            Some(ended) => drop(self.ended.send(ended).await),
        }
        self.forget();
    }

    fn look(&mut self, destination: &str) {
        if let Some(lane) = self.lanes.get_mut(destination) {
            lane.look();
        }
    }

    /// Drops the lanes of removed destinations that have nothing left to do.
    fn forget(&mut self) {
        self.lanes.retain(|_, lane| !lane.is_over());
    }

    /// Returns what must not be begun: its destination is spared, or gone.
    fn put_back(&mut self) {
        let now = self.clock.passed();
        for lane in self.lanes.values_mut() {
            if let Some((fences, pause)) = lane.put_back(now) {
                self.chores.spawn(give_back(self.store.clone(), self.clock.clone(), fences, pause));
            }
        }
    }

    fn resumes_in(&self) -> Option<Duration> {
        let now = self.clock.passed();
        self.lanes.values().filter_map(|lane| lane.resumes_in(now)).min()
    }

    async fn stop(mut self, grace: Duration) {
        let mut over = std::pin::pin!(tokio::time::sleep(grace));
        let waiting: Vec<MessageFence> = self.lanes.values_mut().flat_map(Lane::drain).collect();
        self.chores.spawn(give_back(self.store.clone(), self.clock.clone(), waiting, Duration::ZERO));
        loop {
            tokio::select! {
                ended = self.running.join_next_with_id() => match ended {
                    Some(ended) => self.ended(ended).await,
                    None => break,
                },
                () = &mut over => break,
            }
        }
        self.running.shutdown().await;
        let cut_off: Vec<MessageFence> = self.calls.drain().map(|(_, (_, fence))| fence).collect();
        if !cut_off.is_empty() {
            tracing::warn!("{} calls were cut off; their messages are sent again under the same key", cut_off.len());
        }
        self.chores.spawn(give_back(self.store.clone(), self.clock.clone(), cut_off, Duration::ZERO));
        let chores = async { while self.chores.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_WRITE, chores).await.is_err() {
            tracing::warn!("stopping before all messages were given back; they end with their lease");
        }
    }
}
