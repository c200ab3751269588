//! One destination's share of a node: how much it may claim, what it has in hand, how fast it may call, and whether it
//! is spared because nobody is there. No waiting and no database here: the loop asks, the lane answers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::destination::DestinationSpec;
use crate::circuit::{Circuit, Pass, Reached};
use crate::rate::RateLimit;
use crate::store::{ClaimedMessage, MessageFence};

/// What is claimed ahead for each call that may be under way.
const HANDS: usize = 4;

/// A claimed message and when it was claimed.
#[derive(Debug)]
pub(super) struct InHand {
    pub(super) message: ClaimedMessage,
    pub(super) since: Duration,
}

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) spec: Arc<DestinationSpec>,
    queue: VecDeque<InHand>,
    running: usize,
    hungry: bool,
    backlog: bool,
    wanted: bool,
    circuit: Circuit,
    rate: Option<RateLimit>,
}

impl Lane {
    pub(super) fn new(spec: Arc<DestinationSpec>) -> Self {
        let rate = spec.rate.map(RateLimit::even);
        let (queue, circuit) = (VecDeque::new(), Circuit::default());
        Self { spec, queue, running: 0, hungry: true, backlog: false, wanted: true, circuit, rate }
    }

    /// Takes a changed config; what is in hand goes on.
    pub(super) fn change(&mut self, spec: Arc<DestinationSpec>) {
        if spec.rate != self.spec.rate {
            self.rate = spec.rate.map(RateLimit::even);
        }
        self.spec = spec;
        (self.hungry, self.wanted) = (true, true);
    }

    /// The destination is gone from the config: its messages stay where they are.
    pub(super) fn remove(&mut self) {
        self.wanted = false;
    }

    /// True when a removed destination has nothing left to do.
    pub(super) fn is_over(&self) -> bool {
        !self.wanted && self.running == 0 && self.queue.is_empty()
    }

    /// There may be something to claim.
    pub(super) fn look(&mut self) {
        self.hungry = true;
    }

    /// How many to claim now; a probe of an open circuit is one alone.
    pub(super) fn appetite(&mut self, now: Duration) -> usize {
        let room = self.hand().saturating_sub(self.running + self.queue.len());
        if !self.wanted || !(self.hungry || self.backlog) {
            return 0;
        }
        // Half a hand at a time: a claim for every call that ends would be a transaction for every message.
        if self.running + self.queue.len() > 0 && room * 2 < self.hand() {
            return 0;
        }
        // Nothing is claimed that would then have to wait for its turn under the rate.
        let room = match &self.rate {
            Some(rate) => rate.free(now, room + self.queue.len()).saturating_sub(self.queue.len()),
            None => room,
        };
        match if room == 0 { Pass::Wait(Duration::ZERO) } else { self.circuit.ask(now) } {
            Pass::Go => room,
            Pass::Probe => 1,
            Pass::Wait(_) => 0,
        }
    }

    /// Takes what a claim for `asked` brought.
    pub(super) fn take(&mut self, messages: Vec<ClaimedMessage>, asked: usize, now: Duration) {
        self.hungry = false;
        self.backlog = messages.len() >= asked;
        if messages.is_empty() {
            // If this was to be the probe, it was none.
            self.circuit.tell(Reached::Unknown, now);
        }
        self.queue.extend(messages.into_iter().map(|message| InHand { message, since: now }));
    }

    /// The claim did not come through: whoever was to probe did not.
    pub(super) fn claim_failed(&mut self, now: Duration) {
        self.circuit.tell(Reached::Unknown, now);
    }

    /// The next message to send, if one may be sent now.
    pub(super) fn start(&mut self, now: Duration) -> Option<InHand> {
        let is_free = self.running < self.spec.concurrency.max(1) && !self.queue.is_empty();
        if !is_free || self.rate.as_ref().is_some_and(|rate| rate.free(now, 1) == 0) {
            return None;
        }
        if let Some(rate) = &mut self.rate {
            rate.take(now, 1);
        }
        self.running += 1;
        self.queue.pop_front()
    }

    /// A call is over.
    pub(super) fn end(&mut self, reached: Reached, now: Duration) {
        self.running = self.running.saturating_sub(1);
        self.circuit.tell(reached, now);
    }

    /// What waits although its destination is spared or gone; and for how long it must wait.
    pub(super) fn put_back(&mut self, now: Duration) -> Option<(Vec<MessageFence>, Duration)> {
        let pause = if self.wanted { self.circuit.closed_for(now)? } else { Duration::ZERO };
        if self.queue.is_empty() {
            return None;
        }
        // If the probe is among them, it was none.
        self.circuit.tell(Reached::Unknown, now);
        Some((self.drain(), pause))
    }

    /// Everything that was claimed and not begun.
    pub(super) fn drain(&mut self) -> Vec<MessageFence> {
        self.queue.drain(..).map(|one| one.message.fence).collect()
    }

    /// When time alone will let this lane go on: its rate has room again, or its circuit lets a probe through.
    pub(super) fn resumes_in(&self, now: Duration) -> Option<Duration> {
        let waits = !self.queue.is_empty() || (self.wanted && (self.hungry || self.backlog));
        let rate = self.rate.as_ref().map(|rate| rate.wait(now)).unwrap_or_default();
        let pause = rate.max(self.circuit.closed_for(now).unwrap_or_default());
        (waits && self.running < self.spec.concurrency.max(1) && pause > Duration::ZERO).then_some(pause)
    }

    /// What may be in hand at once, begun or not.
    fn hand(&self) -> usize {
        self.spec.concurrency.max(1) * HANDS
    }
}
