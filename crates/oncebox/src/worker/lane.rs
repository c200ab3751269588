//! One handler's share of a node: how much it may claim, what it has in hand, and whether its target is spared.
//!
//! Lanes share nothing but the loop, so a slow or failing handler holds its own slots and nobody else's. No waiting and
//! no database here: the loop asks, the lane answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::lane::circuit::{Circuit, Pass, Reached};
use crate::lane::rate::RateLimit;
use crate::limits::{
    BARE_TRANSACTION_DELIVERIES_MAX, CLAIMED_BYTES_MAX, HANDLER_BYTES_MAX, TRANSACTION_DELIVERIES_MAX,
    TRANSACTIONS_PER_HANDLER_MAX,
};
use crate::store::{Claimed, Fence, Want};
use crate::trace::TARGET;
use crate::worker::handler::{HandlerSpec, Work};

/// Deliveries in the first transaction of a handler that nobody has timed yet.
const BATCH_FIRST: usize = 16;
/// Units of work that run apart after one whose statements ended their session.
const APART_UNITS: usize = 64;
/// A rest is so many times as long as the claim that brought nothing, and no longer than this.
const REST_TIMES: u32 = 4;
const REST_MAX: Duration = Duration::from_secs(1);
/// Transactions' worth of deliveries claimed ahead by a handler that is quick enough.
const BATCHES_AHEAD: usize = 2;

/// A claimed delivery and when it was claimed.
#[derive(Debug)]
pub(super) struct InHand {
    pub(super) claim: Claimed,
    pub(super) since: Duration,
    /// Whether it was lost with its worker before.
    pub(super) lost: bool,
}

/// How quickly the last unit of work went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Well within the lease.
    Quick,
    /// Nothing to conclude.
    Steady,
    /// Many of them failed: fewer at a time, so that a failure costs fewer a second run.
    Rough,
    /// Several together took too long: one at a time for now.
    Slow,
    /// Their statements ended their session: one at a time for now, on a session of their own.
    KillsSession,
}

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) spec: Arc<HandlerSpec>,
    queue: VecDeque<InHand>,
    running: usize,
    /// Of the bodies in hand, begun or not.
    bytes: usize,
    /// As many are asked for at most: about twice what fitted into the bytes of late.
    reach: usize,
    slots: usize,
    batch: usize,
    batch_max: usize,
    may_have_work: bool,
    backlog: bool,
    wanted: bool,
    /// Something that was lost with its worker may wait.
    lost: bool,
    /// Order keys matter to its deliveries.
    pub(super) in_order: bool,
    /// When to look again after a claim in order that brought nothing.
    rests_until: Duration,
    /// Units yet to run on a session of their own.
    apart: usize,
    circuit: Circuit,
    rate: Option<RateLimit>,
}

impl Lane {
    /// `single_writer`: the database runs one transaction at a time, so more of them at once would only wait.
    pub(super) fn new(spec: Arc<HandlerSpec>, single_writer: bool) -> Self {
        let mut lane = Self {
            spec: spec.clone(),
            queue: VecDeque::new(),
            running: 0,
            bytes: 0,
            reach: usize::MAX,
            slots: 0,
            batch: BATCH_FIRST,
            batch_max: BATCH_FIRST,
            may_have_work: true,
            backlog: false,
            wanted: true,
            lost: false,
            apart: 0,
            in_order: false,
            rests_until: Duration::ZERO,
            circuit: Circuit::default(),
            rate: None,
        };
        lane.change(spec, single_writer);
        lane
    }

    /// Takes a changed config; what is in hand goes on.
    pub(super) fn change(&mut self, spec: Arc<HandlerSpec>, single_writer: bool) {
        let transactions = if single_writer { 1 } else { TRANSACTIONS_PER_HANDLER_MAX };
        self.slots = match spec.work {
            Work::Sql(_) => spec.concurrency.clamp(1, transactions),
            Work::Call(_) => spec.concurrency.max(1),
            Work::Pull => 0,
        };
        let is_bare = !single_writer && !spec.reads_payload();
        self.batch_max = if is_bare { BARE_TRANSACTION_DELIVERIES_MAX } else { TRANSACTION_DELIVERIES_MAX };
        self.batch = self.batch.min(self.batch_max);
        self.rate = spec.rate.map(RateLimit::new);
        self.spec = spec;
        (self.may_have_work, self.wanted) = (true, true);
    }

    /// The handler is gone from the config: nothing more is claimed for it.
    pub(super) fn remove(&mut self) {
        self.wanted = false;
    }

    /// A claim in order that took so long brought nothing: many wait behind few keys, and are not looked through again at
    /// once.
    pub(super) fn rest(&mut self, took: Duration, now: Duration) {
        self.rests_until = now + (took * REST_TIMES).min(REST_MAX);
    }

    /// When a rest of something that wants to look is over.
    pub(super) fn rests_for(&self, now: Duration) -> Option<Duration> {
        self.rests_until.checked_sub(now).filter(|left| self.wanted && self.may_have_work && !left.is_zero())
    }

    /// True when a removed handler has nothing left to do.
    pub(super) fn is_over(&self) -> bool {
        !self.wanted && self.running == 0 && self.queue.is_empty()
    }

    /// There may be something to claim.
    pub(super) fn mark_due(&mut self) {
        self.may_have_work = true;
    }

    /// There is something that was lost with its worker.
    pub(super) fn look_for_lost(&mut self) {
        self.lost = true;
    }

    /// How many to claim now of what was lost with its worker.
    pub(super) fn claim_limit_for_lost(&mut self, now: Duration) -> usize {
        let room = self.room();
        if !self.wanted || !self.lost || room == 0 || self.is_full() { 0 } else { self.allowed(room, now) }
    }

    /// Takes what was claimed of it; it goes first.
    pub(super) fn take_lost(&mut self, claims: Vec<Claimed>, now: Duration) {
        self.lost = !claims.is_empty();
        self.note_claimed(&claims, now);
        for claim in claims.into_iter().rev() {
            self.queue.push_front(InHand { claim, since: now, lost: true });
        }
    }

    /// True while something that was lost before waits for its turn.
    pub(super) fn holds_lost(&self) -> bool {
        self.queue.iter().any(|one| one.lost)
    }

    /// How many to claim now; a probe of an open circuit is one alone. Whoever gets a number claims, and tells by
    /// [`Lane::take`] or [`Lane::claim_failed`].
    pub(super) fn claim_limit(&mut self, now: Duration) -> usize {
        let room = self.room();
        if !self.wanted
            || !(self.may_have_work || self.backlog)
            || room == 0
            || self.is_full()
            || now < self.rests_until
        {
            return 0;
        }
        // A transaction's worth, or half a hand of calls: a claim for every slot that falls free would be a transaction for
        // every delivery.
        let enough = if self.is_outside() { self.hand().div_ceil(2) } else { self.batch };
        if self.running + self.queue.len() > 0 && room < enough {
            return 0;
        }
        let limit = self.allowed(room.min(self.reach), now);
        if limit > 0 {
            // Whoever wakes us from here on wakes us for the next claim.
            (self.may_have_work, self.backlog) = (false, false);
        }
        limit
    }

    /// A claim of so many deliveries, and of so many bytes.
    pub(super) fn want(&self, limit: usize, bytes: usize) -> Want {
        // Whoever listens to our spans wants to know the trace, which stands in the headers.
        let payload = self.spec.reads_payload() || tracing::span_enabled!(target: TARGET, tracing::Level::INFO);
        let (handler, lease, in_order) = (self.spec.name.to_string(), self.spec.lease, self.in_order);
        Want { handler, limit, bytes, lease, in_order, payload }
    }

    /// Body bytes that there is room for.
    pub(super) fn free_bytes(&self) -> usize {
        HANDLER_BYTES_MAX.saturating_sub(self.bytes)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// True while nothing is in hand.
    pub(super) fn is_idle(&self) -> bool {
        self.running == 0 && self.queue.is_empty()
    }

    /// What rate and circuit leave of it.
    fn allowed(&mut self, room: usize, now: Duration) -> usize {
        let room = self.rate.as_ref().map_or(room, |rate| rate.free(now, room));
        match if room == 0 { Pass::Wait(Duration::ZERO) } else { self.circuit.ask(now) } {
            Pass::Go => room,
            Pass::Probe => 1,
            Pass::Wait(_) => 0,
        }
    }

    /// Takes what a claim for `asked` brought; `cut_off`: more is due than fits into the bytes.
    pub(super) fn take(&mut self, claims: Vec<Claimed>, asked: usize, cut_off: bool, now: Duration) {
        self.in_order |= claims.iter().any(|claim| claim.order_key.is_some());
        self.backlog = cut_off || claims.len() >= asked;
        self.reach = if cut_off { (claims.len() * 2).max(1) } else { self.reach.saturating_mul(2) };
        self.note_claimed(&claims, now);
        self.queue.extend(claims.into_iter().map(|claim| InHand { claim, since: now, lost: false }));
    }

    fn note_claimed(&mut self, claims: &[Claimed], now: Duration) {
        self.bytes += claims.iter().map(|claim| claim.body.len()).sum::<usize>();
        if claims.is_empty() {
            // If this was to be the probe, it was none.
            self.circuit.tell(Reached::Unknown, now);
        }
        if let Some(rate) = &mut self.rate {
            rate.take(now, claims.len());
        }
    }

    /// The claim did not come through: whoever was to probe did not.
    pub(super) fn claim_failed(&mut self, now: Duration) {
        self.may_have_work = true;
        self.circuit.tell(Reached::Unknown, now);
    }

    /// The next unit of work, if there is a free slot and something to do.
    pub(super) fn start(&mut self) -> Option<Vec<InHand>> {
        if self.running >= self.slots || self.queue.is_empty() {
            return None;
        }
        self.running += 1;
        let most = if self.is_outside() { 1 } else { self.batch };
        let mut bytes = 0;
        let fits = |one: &&InHand| {
            bytes += one.claim.body.len();
            bytes <= CLAIMED_BYTES_MAX
        };
        let count = self.queue.iter().take(most).take_while(fits).count().max(1);
        Some(self.queue.drain(..count).collect())
    }

    /// Whether its statements have ended their session of late.
    pub(super) fn runs_apart(&self) -> bool {
        self.apart > 0
    }

    /// A unit of work with so many bytes is over.
    pub(super) fn end(&mut self, bytes: usize, pace: Pace, reached: Reached, now: Duration) {
        self.running = self.running.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.rests_until = Duration::ZERO;
        self.circuit.tell(reached, now);
        self.batch = match pace {
            Pace::Quick => (self.batch * 2).min(self.batch_max),
            Pace::Steady => self.batch,
            Pace::Rough => (self.batch / 2).max(BATCH_FIRST.min(self.batch)),
            Pace::Slow | Pace::KillsSession => 1,
        };
        self.apart = if pace == Pace::KillsSession { APART_UNITS } else { self.apart.saturating_sub(1) };
    }

    /// What waits although its target is spared, or although the handler is gone; and for how long it must wait.
    pub(super) fn put_back(&mut self, now: Duration) -> Option<(Vec<Fence>, Duration)> {
        let pause = if self.wanted { self.circuit.open_for(now)? } else { Duration::ZERO };
        if self.queue.is_empty() {
            return None;
        }
        // If the probe is among them, it was none.
        self.circuit.tell(Reached::Unknown, now);
        Some((self.drain(), pause))
    }

    /// Everything that was claimed and not begun.
    pub(super) fn drain(&mut self) -> Vec<Fence> {
        self.bytes -= self.queue.iter().map(|one| one.claim.body.len()).sum::<usize>();
        self.queue.drain(..).map(|one| one.claim.fence).collect()
    }

    fn is_outside(&self) -> bool {
        matches!(self.spec.work, Work::Call(_))
    }

    /// What may be in hand at once, begun or not.
    fn hand(&self) -> usize {
        match &self.spec.work {
            // Claimed ahead only where a call that has to wait for another still ends within its lease.
            Work::Call(target) if target.deadline() * 3 > self.spec.lease => self.slots,
            Work::Call(_) => self.slots * 2,
            Work::Pull => 0,
            Work::Sql(_) if self.batch < self.batch_max => self.slots * self.batch,
            Work::Sql(_) => (self.slots + BATCHES_AHEAD) * self.batch,
        }
    }

    /// True when so many bytes are in hand that a claim would hardly bring any: half a hand at a time.
    fn is_full(&self) -> bool {
        !self.is_idle() && self.bytes * 2 > HANDLER_BYTES_MAX
    }

    fn room(&self) -> usize {
        let unit = if self.is_outside() { 1 } else { self.batch };
        self.hand().saturating_sub(self.running * unit + self.queue.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::retry::RetryPolicy;
    use crate::store::{Dialect, HandlerSql};
    use crate::worker::handler::{OncePer, OrderRules};

    fn lane() -> Lane {
        let sql = HandlerSql::parse("delete from t where id = :event_id", Dialect::Postgres).unwrap();
        let spec = HandlerSpec {
            name: "orders".into(),
            work: Work::Sql(Arc::new(sql)),
            lease: Duration::from_secs(60),
            retry: RetryPolicy::default(),
            concurrency: 2,
            rate: None,
            order: OrderRules::default(),
        };
        Lane::new(Arc::new(spec), false)
    }

    #[test]
    fn who_wakes_it_during_a_claim_is_heard() {
        let (mut lane, now) = (lane(), Duration::ZERO);
        let asked = lane.claim_limit(now);
        assert_eq!((asked, lane.claim_limit(now)), (2 * BATCH_FIRST, 0), "one claim at a time");
        lane.take(Vec::new(), asked, false, now);
        assert_eq!(lane.claim_limit(now), 0, "there is nothing");
        lane.mark_due();
        let asked = lane.claim_limit(now);
        lane.mark_due();
        lane.take(Vec::new(), asked, false, now);
        assert_eq!(lane.claim_limit(now), asked, "what came after the claim had looked");
    }

    #[test]
    fn the_payload_is_wanted_where_something_reads_it() {
        let mut spec = HandlerSpec::clone(&lane().spec);
        assert!(!spec.reads_payload(), "neither statements nor order");
        let fields = Vec::new();
        spec.order.once_per = Some(OncePer { fields, window: Duration::from_secs(1) });
        assert!(spec.reads_payload(), "order reads it");
        let sql = HandlerSql::parse("insert into t values (:body)", Dialect::Postgres).unwrap();
        let spec = HandlerSpec { work: Work::Sql(Arc::new(sql)), order: OrderRules::default(), ..spec };
        assert!(spec.reads_payload(), "a statement binds it");
        assert!(HandlerSpec { work: Work::Pull, ..spec }.reads_payload(), "it goes outside");
    }

    #[test]
    fn a_claim_that_failed_is_made_again() {
        let (mut lane, now) = (lane(), Duration::ZERO);
        let asked = lane.claim_limit(now);
        lane.claim_failed(now);
        assert_eq!(lane.claim_limit(now), asked);
    }
}
