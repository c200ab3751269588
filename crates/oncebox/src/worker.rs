//! The workers of one node: one loop that claims for every handler and hands the work out.
//!
//! The loop decides when, a lane decides how much, an attempt does the work. It is woken right after an ingest commit;
//! polling is the truth. Every handler has slots of its own, so that a slow one delays nobody else, and one statement
//! claims for all of them, so that an idle node asks less than twice a second.

mod attempt;
mod completer;
pub mod handler;
mod lane;
mod lease;
mod metric;
mod rules;

pub use crate::lane::background::Parts;
pub use metric::{Outcome, count_pulled};

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinSet};
use tokio::time::MissedTickBehavior;

use attempt::{Context, UnitEnd};
use completer::Completer;
use lane::{Lane, Pace};
use lease::{Leases, Proof};

use crate::event::NodeKey;
use crate::lane::background::{Running, Signals, Specs, specs};
use crate::lane::begun::{Beginnings, announce};
use crate::lane::circuit::Reached;
use crate::limits::{NODE_BYTES_MAX, POLL_EVERY};
use crate::shutdown::Shutdown;
use crate::store::{Claims, Fence, NodeEntry, Role, StoreError, Want};
use crate::wake::Wake;
use crate::worker::handler::HandlerSpec;

/// How long giving claims back may take at the end.
const LAST_WRITE: Duration = Duration::from_secs(5);

/// How often a claim is tried while others are in its way, and the pause in between.
const CLAIMS_MAX: u32 = 4;
const CLAIM_PAUSE: Duration = Duration::from_millis(10);

/// The running workers of one node.
#[derive(Debug)]
pub struct Workers {
    running: Running<Specs<HandlerSpec>>,
}

impl Workers {
    /// Starts them. A database that is away is waited for.
    pub fn start(parts: Parts, handlers: Vec<HandlerSpec>) -> Self {
        let mut tasks = JoinSet::new();
        let (completer, closing) = Completer::new(parts.store.clone(), parts.clock.clone());
        tasks.spawn(closing);
        let single_writer = parts.store.kind() == "sqlite";
        let (begun, beginning) = Beginnings::new(parts.store.clone(), parts.node.node);
        tasks.spawn(beginning);
        let context = Context { store: parts.store.clone(), clock: parts.clock.clone(), completer, begun };
        let worker = Worker {
            context,
            wake: parts.wake.clone(),
            node: parts.node.clone(),
            single_writer,
            lanes: BTreeMap::new(),
            running: JoinSet::new(),
            units: HashMap::new(),
            chores: JoinSet::new(),
            registered: false,
        };
        let leases = Leases { store: parts.store, clock: parts.clock, wake: parts.wake, node: parts.node };
        let running = Running::start(tasks, specs(handlers), |signals| async move {
            let Some(proof) = begin(&leases, &signals.stopping).await else { return };
            let looking = tokio::spawn(leases.run(proof, signals.stopping.clone()));
            worker.run(signals).await;
            // Ends by itself: it was asked to stop as we were.
            let _ = looking.await;
        });
        Self { running }
    }

    /// Takes a changed config. Deliveries of a handler that is gone stay where they are.
    pub fn set_handlers(&self, handlers: Vec<HandlerSpec>) {
        self.running.set(specs(handlers));
    }

    /// Waits until the loop broke, which nothing but a mistake of ours can do: whoever runs it should start anew.
    pub async fn failed(&self) {
        self.running.failed().await;
    }

    /// Stops claiming, lets running attempts go on for `grace`, and puts the rest back without using an attempt.
    pub async fn stop(self, grace: Duration) {
        self.running.stop(grace).await;
    }
}

/// Waits for the database; none when it was asked to stop before that.
async fn begin(leases: &Leases, stopping: &Shutdown) -> Option<Proof> {
    loop {
        match leases.begin().await {
            Ok(proof) => return Some(proof),
            Err(error) => tracing::warn!("the workers could not start, retrying: {}", error.chain()),
        }
        tokio::select! {
            () = stopping.wait() => return None,
            () = tokio::time::sleep(POLL_EVERY) => {}
        }
    }
}

/// The loop and what it has in hand.
struct Worker {
    context: Context,
    wake: Wake,
    node: NodeEntry,
    single_writer: bool,
    lanes: BTreeMap<Arc<str>, Lane>,
    running: JoinSet<UnitEnd>,
    units: HashMap<Id, Unit>,
    /// Claims on their way back.
    chores: JoinSet<()>,
    /// Whether the database knows the handlers as they are configured.
    registered: bool,
}

/// A unit of work under way.
struct Unit {
    handler: Arc<str>,
    fences: Vec<Fence>,
    bytes: usize,
    /// Whether one of them was lost with its worker before.
    lost: bool,
    /// Whether its end lets others run: the next of its order key, or what waited for it.
    lets_others_run: bool,
    /// Whether it may have written outbox messages.
    may_send: bool,
}

impl Worker {
    async fn run(mut self, Signals { mut config, stopping, grace }: Signals<Specs<HandlerSpec>>) {
        let mut poll = tokio::time::interval(POLL_EVERY);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !stopping.requested() {
            let now = self.context.clock.monotonic();
            let rest = self.lanes.values().filter_map(|lane| lane.rests_for(now)).min();
            tokio::select! {
                () = stopping.wait() => break,
                Ok(()) = config.changed() => {
                    self.change(&config.borrow_and_update().clone());
                    // Whether order keys matter is known before the first claim.
                    self.poll_all().await;
                }
                Some(ended) = self.running.join_next_with_id() => self.ended(ended),
                Some(_) = self.chores.join_next() => {}
                names = self.wake.wait() => names.iter().for_each(|name| self.mark_due(name)),
                _ = poll.tick() => self.poll_all().await,
                () = tokio::time::sleep(rest.unwrap_or(POLL_EVERY)), if rest.is_some() => {}
            }
            while let Some(ended) = self.running.try_join_next_with_id() {
                self.ended(ended);
            }
            if let Err(error) = self.step().await {
                tracing::warn!("claim failed, retrying: {}", error.chain());
                tokio::select! {
                    () = stopping.wait() => break,
                    () = tokio::time::sleep(POLL_EVERY) => {}
                }
            }
        }
        let grace = *grace.borrow();
        self.stop(grace).await;
    }

    /// Claims what the lanes have room for and begins the work; while that runs, claims what comes next.
    async fn step(&mut self) -> Result<(), StoreError> {
        self.put_back();
        self.register().await?;
        self.claim_lost().await?;
        loop {
            let more = self.claim().await?;
            self.begin();
            if !more {
                return Ok(());
            }
        }
    }

    /// Begins what the lanes have in hand and a slot for.
    fn begin(&mut self) {
        let Self { lanes, running, units, context, .. } = self;
        for (name, lane) in lanes.iter_mut() {
            while let Some(unit) = lane.start() {
                let fences = unit.iter().map(|one| one.claim.fence).collect();
                let bytes = unit.iter().map(|one| one.claim.body.len()).sum();
                let is_ordered = unit.iter().any(|one| one.claim.order_key.is_some());
                let lets_others_run = is_ordered || lane.spec.order.wait_for.is_some();
                let lost = unit.iter().any(|one| one.lost);
                let work = attempt::run(context.clone(), lane.spec.clone(), unit, lane.runs_apart());
                let id = running.spawn(work).id();
                let may_send = lane.spec.work.may_send();
                units.insert(id, Unit { handler: name.clone(), fences, bytes, lost, lets_others_run, may_send });
            }
        }
    }

    /// Lets the database know the handlers as they are configured.
    async fn register(&mut self) -> Result<(), StoreError> {
        if !self.registered {
            let facts: Vec<_> = self.lanes.values().map(|lane| lane.spec.facts()).collect();
            self.context.store.register_handlers(&facts).await?;
            let roles = [Role::Together, Role::Alone];
            announce(&self.context.begun, &roles, &self.context.store, self.node.node).await?;
            self.registered = true;
        }
        Ok(())
    }

    /// What was lost with its worker is tried apart, a few or one at a time on the whole node: one of them may be what
    /// took the worker with it, and would take along whatever is in hand with it.
    async fn claim_lost(&mut self) -> Result<(), StoreError> {
        let now = self.context.clock.monotonic();
        let names: Vec<Arc<str>> = self.lanes.keys().cloned().collect();
        for name in names {
            let in_hand = self.units.values().any(|unit| unit.lost) || self.lanes.values().any(Lane::holds_lost);
            let Some(lane) = self.lanes.get_mut(&name).filter(|_| !in_hand) else { break };
            let limit = lane.claim_limit_for_lost(now);
            if limit == 0 {
                continue;
            }
            let want = lane.want(limit, lane.free_bytes().max(1));
            match self.context.store.claim_lost(&want, self.node.node, self.context.clock.now()).await {
                Ok(claims) => {
                    claims.buried.iter().for_each(metric::buried);
                    lane.take_lost(claims.claimed, now);
                }
                Err(error) => {
                    lane.claim_failed(now);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Claims what the lanes want, and says whether anything came. Where order keys matter a handler is claimed for by
    /// itself, after the others: what it looks at has a bound, and nobody else waits for it.
    async fn claim(&mut self) -> Result<bool, StoreError> {
        let now = self.context.clock.monotonic();
        let full = self.lanes.values().map(Lane::bytes).sum::<usize>() >= NODE_BYTES_MAX;
        let mut wants = Vec::new();
        for lane in self.lanes.values_mut() {
            let limit = if full && !lane.is_idle() { 0 } else { lane.claim_limit(now) };
            if limit > 0 {
                wants.push(lane.want(limit, lane.free_bytes()));
            }
        }
        self.share_bytes(&mut wants);
        let (in_order, others): (Vec<Want>, Vec<Want>) = wants.into_iter().partition(|want| want.in_order);
        let mut came = !others.is_empty() && self.claim_these(others, now).await?;
        for want in in_order {
            self.begin();
            let name = want.handler.clone();
            let brought = self.claim_these(vec![want], now).await?;
            let over = self.context.clock.monotonic();
            if let Some(lane) = self.lanes.get_mut(name.as_str()).filter(|_| !brought) {
                lane.rest(over.saturating_sub(now), over);
            }
            came |= brought;
        }
        Ok(came)
    }

    async fn claim_these(&mut self, wants: Vec<Want>, now: Duration) -> Result<bool, StoreError> {
        let claims = match self.claim_beside_work(&wants).await {
            Ok(claims) => claims,
            Err(error) => {
                self.lanes.values_mut().for_each(|lane| lane.claim_failed(now));
                return Err(error);
            }
        };
        claims.buried.iter().for_each(metric::buried);
        let came = !claims.claimed.is_empty();
        let mut by_handler: HashMap<String, Vec<_>> = HashMap::new();
        for claim in claims.claimed {
            by_handler.entry(claim.handler.clone()).or_default().push(claim);
        }
        for want in wants {
            if let Some(lane) = self.lanes.get_mut(want.handler.as_str()) {
                let cut_off = claims.cut_off.contains(&want.handler);
                lane.take(by_handler.remove(&want.handler).unwrap_or_default(), want.limit, cut_off, now);
            }
        }
        Ok(came)
    }

    /// What the node has room for is shared evenly; each gets at least one, so that a handler that waits with large bodies
    /// in hand stops nobody else.
    fn share_bytes(&self, wants: &mut [Want]) {
        let in_hand: usize = self.lanes.values().map(Lane::bytes).sum();
        let share = NODE_BYTES_MAX.saturating_sub(in_hand) / wants.len().max(1);
        wants.iter_mut().for_each(|want| want.bytes = want.bytes.min(share).max(1));
    }

    /// Claims; what ends meanwhile makes room at once for what is in hand already.
    async fn claim_beside_work(&mut self, wants: &[Want]) -> Result<Claims, StoreError> {
        let context = self.context.clone();
        let mut claim = std::pin::pin!(claim_now(&context, wants, self.node.node));
        loop {
            tokio::select! {
                biased;
                claims = &mut claim => return claims,
                Some(ended) = self.running.join_next_with_id() => {
                    self.ended(ended);
                    self.begin();
                }
            }
        }
    }

    fn change(&mut self, handlers: &[Arc<HandlerSpec>]) {
        self.lanes.values_mut().for_each(Lane::remove);
        for spec in handlers {
            match self.lanes.get_mut(&spec.name) {
                Some(lane) => lane.change(spec.clone(), self.single_writer),
                None => drop(self.lanes.insert(spec.name.clone(), Lane::new(spec.clone(), self.single_writer))),
            }
        }
        self.registered = false;
        self.forget();
    }

    fn ended(&mut self, ended: Result<(Id, UnitEnd), tokio::task::JoinError>) {
        let (id, end) = match ended {
            Ok((id, end)) => (id, end),
            // Ours to repair, and never to stop for: the lease brings its deliveries back.
            Err(error) => {
                tracing::error!("a worker failed: {error}");
                (error.id(), UnitEnd { pace: Pace::Steady, reached: Reached::Unknown })
            }
        };
        if let Some(unit) = self.units.remove(&id)
            && let Some(lane) = self.lanes.get_mut(&unit.handler)
        {
            lane.end(unit.bytes, end.pace, end.reached, self.context.clock.monotonic());
            if unit.lets_others_run {
                lane.mark_due();
            }
            if unit.may_send {
                self.wake.written();
            }
        }
        self.forget();
    }

    /// Asks who has something due: a read for all of them, the relay's destinations too, so that idle nodes lock nothing.
    async fn poll_all(&mut self) {
        match self.context.store.due(self.context.clock.now()).await {
            Ok(due) => {
                due.handlers.iter().for_each(|handler| self.mark_due(handler));
                self.lanes
                    .iter_mut()
                    .for_each(|(name, lane)| lane.in_order = due.ordered.iter().any(|one| **one == **name));
                for handler in &due.lost {
                    if let Some(lane) = self.lanes.get_mut(handler.as_str()) {
                        lane.look_for_lost();
                    }
                }
                let destinations: Vec<Arc<str>> = due.destinations.into_iter().map(Arc::from).collect();
                self.wake.destinations(&destinations);
            }
            Err(error) => tracing::warn!("poll failed, retrying: {}", error.chain()),
        }
    }

    fn mark_due(&mut self, handler: &str) {
        if let Some(lane) = self.lanes.get_mut(handler) {
            lane.mark_due();
        }
    }

    /// Drops the lanes of removed handlers that have nothing left to do.
    fn forget(&mut self) {
        self.lanes.retain(|_, lane| !lane.is_over());
    }

    /// Returns what must not be begun: its target is spared, or its handler is gone.
    fn put_back(&mut self) {
        let now = self.context.clock.monotonic();
        for lane in self.lanes.values_mut() {
            if let Some((fences, pause)) = lane.put_back(now) {
                self.chores.spawn(give_back(self.context.clone(), fences, pause));
            }
        }
    }

    async fn stop(mut self, grace: Duration) {
        let mut over = std::pin::pin!(tokio::time::sleep(grace));
        let waiting: Vec<Fence> = self.lanes.values_mut().flat_map(Lane::drain).collect();
        self.chores.spawn(give_back(self.context.clone(), waiting, Duration::ZERO));
        loop {
            tokio::select! {
                ended = self.running.join_next_with_id() => match ended {
                    Some(ended) => self.ended(ended),
                    None => break,
                },
                () = &mut over => break,
            }
        }
        // Rolled back, or a call that nobody will write down.
        self.running.shutdown().await;
        let cut_off: Vec<Fence> = self.units.drain().flat_map(|(_, unit)| unit.fences).collect();
        if !cut_off.is_empty() {
            tracing::warn!("{} deliveries were cut off and are ready again", cut_off.len());
        }
        self.chores.spawn(give_back(self.context.clone(), cut_off, Duration::ZERO));
        let chores = async { while self.chores.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_WRITE, chores).await.is_err() {
            tracing::warn!("stopping before all claims were given back; they expire with their lease");
        }
    }
}

/// Two nodes that claim within one order key at the same instant are in each other's way for a moment only.
async fn claim_now(context: &Context, wants: &[Want], node: NodeKey) -> Result<Claims, StoreError> {
    for _ in 1..CLAIMS_MAX {
        match context.store.claim(wants, Some(node), context.clock.now()).await {
            Err(StoreError::Busy(_)) => tokio::time::sleep(CLAIM_PAUSE).await,
            outcome => return outcome,
        }
    }
    context.store.claim(wants, Some(node), context.clock.now()).await
}

async fn give_back(context: Context, fences: Vec<Fence>, pause: Duration) {
    context.put_back(fences, pause, "they were not begun, or cut off").await;
}
