//! The loop of the relay: claims for the lanes that have room, and sets callers to work.
//!
//! One claim is under way at a time, beside the calls, and never in their way.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinError, JoinSet};
use tokio::time::MissedTickBehavior;

use super::attempt::Ended;
use super::caller::{Begun, Caller};
use super::completer::give_back;
use super::destination::DestinationSpec;
use super::lane::{Lane, Shared};
use super::observed::{Spared, Unserved};
use super::{Parts, metric};
use crate::lane::background::{Signals, Specs};
use crate::lane::begun::{Beginnings, announce};
use crate::limits::POLL_EVERY;
use crate::store::{
    ClaimedMessage, DestinationFacts, MessageClaims, MessageFence, MessageWant, NodeEntry, Role, StoreError,
};
use crate::wake::Wake;

/// How often the relay polls on its own: the workers' poll, which serves both, is the usual one.
const OWN_POLL_EVERY: Duration = Duration::from_secs(30);
/// How long giving claims back may take at the end.
const LAST_WRITE: Duration = Duration::from_secs(5);

pub(super) struct Dispatch {
    caller: Caller,
    wake: Wake,
    node: NodeEntry,
    lanes: BTreeMap<Arc<str>, Arc<Shared>>,
    callers: JoinSet<()>,
    /// One at most.
    claims: JoinSet<Claim>,
    /// Claims on their way back.
    chores: JoinSet<()>,
    /// Whether the database knows this process, and the destinations as they are configured.
    registered: bool,
    /// After a claim that failed.
    claim_not_before: Duration,
    spared: Spared,
    unserved: Unserved,
}

struct Claim {
    wants: Vec<MessageWant>,
    since: Duration,
    outcome: Result<MessageClaims, StoreError>,
}

impl Dispatch {
    pub(super) fn new(parts: Parts, ended: mpsc::Sender<Ended>, begun: Beginnings, spared: Spared) -> Self {
        let Parts { store, clock, wake, node } = parts;
        Self {
            caller: Caller { store, clock, ended, due: Arc::new(Notify::new()), begun },
            wake,
            node,
            lanes: BTreeMap::new(),
            callers: JoinSet::new(),
            claims: JoinSet::new(),
            chores: JoinSet::new(),
            registered: false,
            claim_not_before: Duration::ZERO,
            spared,
            unserved: Unserved::default(),
        }
    }

    pub(super) async fn run(mut self, Signals { mut config, stopping, grace }: Signals<Specs<DestinationSpec>>) {
        let mut poll = tokio::time::interval(OWN_POLL_EVERY);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !stopping.requested() {
            let resumes_in = self.resumes_in();
            tokio::select! {
                () = stopping.wait() => break,
                Ok(()) = config.changed() => self.change(&config.borrow_and_update().clone()),
                Some(claim) = self.claims.join_next() => self.claimed(claim),
                Some(ended) = self.callers.join_next() => note(ended),
                Some(_) = self.chores.join_next() => {}
                () = self.caller.due.notified() => {}
                names = self.wake.wait_for_messages() => names.iter().for_each(|name| self.mark_due(name)),
                _ = poll.tick() => self.poll_all(),
                () = tokio::time::sleep(resumes_in.unwrap_or(OWN_POLL_EVERY)), if resumes_in.is_some() => {}
            }
            while let Some(ended) = self.callers.try_join_next() {
                note(ended);
            }
            self.step();
        }
        let grace = *grace.borrow();
        self.stop(grace).await;
    }

    /// Gives back what must wait, begins the calls that may begin, and a claim if there is room.
    fn step(&mut self) {
        self.put_back();
        for lane in self.lanes.values() {
            while let Some(begun) = Begun::next_of(lane, &self.caller.clock) {
                self.callers.spawn(self.caller.clone().run(begun));
            }
        }
        self.claim();
        self.lanes.retain(|_, lane| !lane.lock().is_over());
        let now = self.caller.clock.monotonic();
        // The probe's own time is part of it.
        let spared = |lane: &Shared| lane.lock().circuit.open_for(now);
        let spared = self.lanes.iter().filter_map(|(name, lane)| Some((name.clone(), spared(lane)?)));
        self.spared.set(spared, self.caller.clock.now());
    }

    fn claim(&mut self) {
        let now = self.caller.clock.monotonic();
        if !self.claims.is_empty() || now < self.claim_not_before {
            return;
        }
        let wants: Vec<MessageWant> = self.lanes.values().filter_map(|lane| lane.lock().want(now)).collect();
        if wants.is_empty() {
            return;
        }
        let facts = || self.lanes.values().map(|lane| lane.lock().spec.facts()).collect();
        let unknown: Option<Vec<DestinationFacts>> = (!self.registered).then(facts);
        self.registered = true;
        let (caller, node) = (self.caller.clone(), self.node.clone());
        self.claims.spawn(async move {
            let outcome = claim(&caller, unknown.as_deref(), &wants, &node).await;
            Claim { wants, since: now, outcome }
        });
    }

    fn claimed(&mut self, claim: Result<Claim, JoinError>) {
        let now = self.caller.clock.monotonic();
        match claim {
            Ok(Claim { wants, since, outcome: Ok(claims) }) => self.take(wants, since, claims),
            Ok(Claim { outcome: Err(error), .. }) => {
                tracing::warn!("claim of messages failed, retrying: {}", error.chain());
                self.claim_failed(now);
            }
            // Ours to repair, and never to stop for.
            Err(error) => {
                tracing::error!("a claim failed: {error}");
                self.claim_failed(now);
            }
        }
    }

    fn claim_failed(&mut self, now: Duration) {
        self.lanes.values().for_each(|lane| lane.lock().claim_failed(now));
        self.registered = false;
        self.claim_not_before = now + POLL_EVERY;
    }

    fn take(&mut self, wants: Vec<MessageWant>, since: Duration, claims: MessageClaims) {
        claims.buried.iter().for_each(metric::buried);
        let buried = |name: &str| claims.buried.iter().filter(|message| message.destination == name).count();
        let mut by_destination: HashMap<&str, Vec<ClaimedMessage>> = HashMap::new();
        for message in claims.claimed {
            if let Some(want) = wants.iter().find(|want| want.destination == message.destination) {
                by_destination.entry(&want.destination).or_default().push(message);
            }
        }
        for want in &wants {
            let messages = by_destination.remove(want.destination.as_str()).unwrap_or_default();
            match self.lanes.get(want.destination.as_str()) {
                Some(lane) => lane.lock().take(messages, buried(&want.destination), want, since),
                // Gone from the config meanwhile.
                None => {
                    let fences = messages.iter().map(|message| message.fence).collect();
                    let (store, clock) = (self.caller.store.clone(), self.caller.clock.clone());
                    drop(self.chores.spawn(give_back(store, clock, fences, Duration::ZERO)));
                }
            }
        }
    }

    fn change(&mut self, destinations: &[Arc<DestinationSpec>]) {
        self.lanes.values().for_each(|lane| lane.lock().remove());
        for spec in destinations {
            match self.lanes.get(&spec.name) {
                Some(lane) => lane.lock().change(spec.clone()),
                None => drop(self.lanes.insert(spec.name.clone(), Arc::new(Shared::new(Lane::new(spec.clone()))))),
            }
        }
        self.wake.serve(destinations.iter().map(|spec| spec.name.clone()));
        self.registered = false;
    }

    fn poll_all(&mut self) {
        self.lanes.values().for_each(|lane| lane.lock().mark_due());
        let served = self.lanes.keys().cloned().collect();
        self.chores.spawn(self.unserved.clone().watch(self.caller.store.clone(), served));
    }

    fn mark_due(&mut self, destination: &str) {
        if let Some(lane) = self.lanes.get(destination) {
            lane.lock().mark_due();
        }
    }

    /// Returns what must not be begun: its destination is spared or gone, or its lease is too far gone.
    fn put_back(&mut self) {
        let now = self.caller.clock.monotonic();
        for lane in self.lanes.values() {
            if let Some((fences, pause)) = lane.lock().put_back(now) {
                self.chores.spawn(give_back(self.caller.store.clone(), self.caller.clock.clone(), fences, pause));
            }
        }
    }

    fn resumes_in(&self) -> Option<Duration> {
        let now = self.caller.clock.monotonic();
        let claim = self.claim_not_before.checked_sub(now).filter(|pause| !pause.is_zero());
        self.lanes.values().filter_map(|lane| lane.lock().resumes_in(now)).chain(claim).min()
    }

    async fn stop(mut self, grace: Duration) {
        let mut over = std::pin::pin!(tokio::time::sleep(grace));
        self.lanes.values().for_each(|lane| lane.lock().remove());
        loop {
            self.put_back();
            tokio::select! {
                ended = self.callers.join_next() => match ended {
                    Some(ended) => note(ended),
                    None => break,
                },
                // What a claim still brings goes back at once.
                Some(claim) = self.claims.join_next() => self.claimed(claim),
                () = &mut over => break,
            }
        }
        self.callers.shutdown().await;
        let cut_off = self.lanes.values().flat_map(|lane| std::mem::take(&mut lane.lock().cut_off));
        let cut_off: Vec<MessageFence> = cut_off.collect();
        if !cut_off.is_empty() {
            tracing::warn!("{} calls were cut off; their messages are sent again under the same key", cut_off.len());
        }
        let (store, clock) = (self.caller.store.clone(), self.caller.clock.clone());
        self.chores.spawn(give_back(store, clock, cut_off, Duration::ZERO));
        let last = async {
            while let Some(claim) = self.claims.join_next().await {
                self.claimed(claim);
                self.put_back();
            }
            while self.chores.join_next().await.is_some() {}
        };
        if tokio::time::timeout(LAST_WRITE, last).await.is_err() {
            tracing::warn!("stopping before all messages were given back; they expire with their lease");
        }
    }
}

/// The process is written down before it claims anything: whoever starts after its death finds its claims by that.
async fn claim(
    caller: &Caller,
    unknown: Option<&[DestinationFacts]>,
    wants: &[MessageWant],
    node: &NodeEntry,
) -> Result<MessageClaims, StoreError> {
    let Caller { store, clock, begun, .. } = caller;
    if let Some(destinations) = unknown {
        store.register_node(node, clock.now()).await?;
        store.register_destinations(destinations).await?;
        announce(begun, &[Role::Relay], store, node.node).await?;
    }
    store.claim_messages(wants, Some(node.node), clock.now()).await
}

/// A caller that broke is ours to repair, and never to stop for: the lease brings its message back.
fn note(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!("a call failed: {error}");
    }
}
