//! One destination's share of a node: how much it may claim, what it has in hand, how fast it may call, and whether it
//! is spared because nobody is there. No waiting and no database here: the loop and the callers ask, the lane answers.
//!
//! It claims ahead what it sends in a moment at its latest pace, so that a fast destination never waits for the database
//! and a slow one holds nothing back that another node could send.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::destination::DestinationSpec;
use crate::lane::circuit::{Circuit, Pass, Reached};
use crate::lane::rate::RateLimit;
use crate::limits::{MESSAGES_AHEAD_MAX, MESSAGES_BYTES_MAX};
use crate::store::{ClaimedMessage, MessageFence, MessageWant};

/// What is claimed ahead at first, for each call that may be under way.
const AHEAD_FIRST: usize = 7;
const AHEAD_FOR: Duration = Duration::from_millis(250);

/// A claimed message and when its claim began.
#[derive(Debug)]
pub(super) struct InHand {
    pub(super) message: ClaimedMessage,
    pub(super) since: Duration,
}

/// A lane that the loop and its callers share.
#[derive(Debug)]
pub(super) struct Shared(Mutex<Lane>);

impl Shared {
    pub(super) fn new(lane: Lane) -> Self {
        Self(Mutex::new(lane))
    }

    /// Never held over an await, so nobody waits for long.
    pub(super) fn lock(&self) -> MutexGuard<'_, Lane> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) spec: Arc<DestinationSpec>,
    queue: VecDeque<InHand>,
    /// The calls under way, with the bytes of each.
    running: Vec<(MessageFence, usize)>,
    /// What calls that were cut off leave behind.
    pub(super) cut_off: Vec<MessageFence>,
    /// Of the bodies in hand, begun or not.
    bytes: usize,
    may_have_work: bool,
    backlog: bool,
    wanted: bool,
    /// The loop was woken to claim.
    asked: bool,
    pub(super) circuit: Circuit,
    rate: Option<RateLimit>,
    ahead: usize,
    /// Calls that ended since the latest claim, and when that was.
    ended: usize,
    claimed_at: Duration,
}

impl Lane {
    pub(super) fn new(spec: Arc<DestinationSpec>) -> Self {
        Self {
            queue: VecDeque::new(),
            running: Vec::new(),
            cut_off: Vec::new(),
            bytes: 0,
            may_have_work: true,
            backlog: false,
            wanted: true,
            asked: false,
            circuit: Circuit::default(),
            rate: spec.rate.map(RateLimit::even),
            ahead: (spec.concurrency * AHEAD_FIRST).clamp(1, MESSAGES_AHEAD_MAX),
            ended: 0,
            claimed_at: Duration::ZERO,
            spec,
        }
    }

    /// Takes a changed config; what is in hand goes on.
    pub(super) fn change(&mut self, spec: Arc<DestinationSpec>) {
        if spec.rate != self.spec.rate {
            self.rate = spec.rate.map(RateLimit::even);
        }
        self.spec = spec;
        (self.may_have_work, self.wanted) = (true, true);
    }

    /// The destination is gone from the config, or the relay stops: its messages stay where they are.
    pub(super) fn remove(&mut self) {
        self.wanted = false;
    }

    /// True when a removed destination has nothing left to do.
    pub(super) fn is_over(&self) -> bool {
        !self.wanted && self.in_hand() == 0
    }

    pub(super) fn mark_due(&mut self) {
        self.may_have_work = true;
    }

    /// True when it is worth a claim: half a hand at a time, for a claim for every call that ends would be a transaction
    /// for every message.
    pub(super) fn is_due(&self) -> bool {
        let (in_hand, hand) = (self.in_hand(), self.hand());
        self.wanted
            && (self.may_have_work || self.backlog)
            && (in_hand == 0 || (in_hand * 2 <= hand && self.bytes * 2 <= MESSAGES_BYTES_MAX))
    }

    /// True once when it becomes due: whoever asks wakes the loop.
    pub(super) fn becomes_due(&mut self) -> bool {
        let becomes = !self.asked && self.is_due();
        self.asked |= becomes;
        becomes
    }

    /// What to claim now; a probe of an open circuit is one alone. Whoever asks claims, and tells by [`Lane::take`] or
    /// [`Lane::claim_failed`].
    pub(super) fn want(&mut self, now: Duration) -> Option<MessageWant> {
        self.asked = false;
        if !self.is_due() {
            return None;
        }
        self.measure(now);
        let room = self.hand().saturating_sub(self.in_hand());
        // Nothing is claimed that would then have to wait for its turn under the rate.
        let room = match &self.rate {
            Some(rate) => rate.free(now, room + self.queue.len()).saturating_sub(self.queue.len()),
            None => room,
        };
        let limit = match if room == 0 { Pass::Wait(Duration::ZERO) } else { self.circuit.ask(now) } {
            Pass::Go => room,
            Pass::Probe => 1,
            Pass::Wait(_) => return None,
        };
        // Whoever wakes us from here on wakes us for the next claim.
        (self.may_have_work, self.backlog) = (false, false);
        let bytes = MESSAGES_BYTES_MAX.saturating_sub(self.bytes).max(1);
        Some(MessageWant { destination: self.spec.name.to_string(), limit, bytes, lease: self.spec.lease() })
    }

    /// Takes what a claim brought that began at `since`; `buried` are those whose attempts were used up.
    pub(super) fn take(&mut self, messages: Vec<ClaimedMessage>, buried: usize, want: &MessageWant, since: Duration) {
        let bytes: usize = messages.iter().map(|message| message.body.len()).sum();
        self.backlog = messages.len() + buried >= want.limit || bytes >= want.bytes;
        if messages.is_empty() {
            // If this was to be the probe, it was none.
            self.circuit.tell(Reached::Unknown, since);
        }
        self.bytes += bytes;
        self.queue.extend(messages.into_iter().map(|message| InHand { message, since }));
    }

    /// The claim did not come through: whoever was to probe did not.
    pub(super) fn claim_failed(&mut self, now: Duration) {
        self.may_have_work = true;
        self.circuit.tell(Reached::Unknown, now);
    }

    /// The next message to send, if one may be sent now.
    pub(super) fn start(&mut self, now: Duration) -> Option<InHand> {
        let is_free = self.wanted && self.running.len() < self.spec.concurrency.max(1);
        let is_late = self.queue.front().is_none_or(|one| self.is_late(one, now));
        if !is_free || is_late || self.spared_for(now).is_some() {
            return None;
        }
        if let Some(rate) = &mut self.rate {
            if rate.free(now, 1) == 0 {
                return None;
            }
            rate.take(now, 1);
        }
        let one = self.queue.pop_front()?;
        self.running.push((one.message.fence, one.message.body.len()));
        Some(one)
    }

    /// A call is over, and somebody writes down how it went.
    pub(super) fn end(&mut self, fence: MessageFence) {
        self.ended += 1;
        self.forget(fence);
    }

    /// A call was cut off; how far it came nobody knows.
    pub(super) fn cut_off(&mut self, fence: MessageFence, now: Duration) {
        self.circuit.tell(Reached::Unknown, now);
        self.forget(fence);
        self.cut_off.push(fence);
    }

    /// What waits and must not be begun, and for how long it must wait: its destination is spared or gone, or it waited
    /// so long that its call might end after its lease.
    pub(super) fn put_back(&mut self, now: Duration) -> Option<(Vec<MessageFence>, Duration)> {
        let (count, pause) = match self.spared_for(now) {
            _ if !self.wanted => (self.queue.len(), Duration::ZERO),
            Some(pause) => (self.queue.len(), pause),
            None => (self.queue.iter().take_while(|one| self.is_late(one, now)).count(), Duration::ZERO),
        };
        if count == 0 {
            return None;
        }
        // If the probe is among them, it was none.
        self.circuit.tell(Reached::Unknown, now);
        self.may_have_work = true;
        let messages: Vec<ClaimedMessage> = self.queue.drain(..count).map(|one| one.message).collect();
        self.bytes -= messages.iter().map(|message| message.body.len()).sum::<usize>();
        Some((messages.iter().map(|message| message.fence).collect(), pause))
    }

    /// When time alone will let this lane go on: its rate has room again, or its circuit lets a probe through.
    pub(super) fn resumes_in(&self, now: Duration) -> Option<Duration> {
        let waits = !self.queue.is_empty() || (self.wanted && (self.may_have_work || self.backlog));
        let rate = self.rate.as_ref().map(|rate| rate.wait(now)).unwrap_or_default();
        let pause = rate.max(self.circuit.open_for(now).unwrap_or_default());
        (waits && self.running.len() < self.spec.concurrency.max(1) && pause > Duration::ZERO).then_some(pause)
    }

    /// How long nothing may be begun, because nobody is there; the probe may.
    pub(super) fn spared_for(&self, now: Duration) -> Option<Duration> {
        self.circuit.open_for(now).filter(|_| !self.circuit.is_probing())
    }

    fn is_late(&self, one: &InHand, now: Duration) -> bool {
        now.saturating_sub(one.since) > self.spec.lease() / 2
    }

    fn forget(&mut self, fence: MessageFence) {
        if let Some(index) = self.running.iter().position(|(one, _)| *one == fence) {
            self.bytes -= self.running.swap_remove(index).1;
        }
    }

    fn in_hand(&self) -> usize {
        self.running.len() + self.queue.len()
    }

    /// What may be in hand at once, begun or not.
    fn hand(&self) -> usize {
        self.spec.concurrency.max(1) + self.ahead
    }

    /// Sets what is claimed ahead by the pace since the claim before, if there was something to do all the time.
    fn measure(&mut self, now: Duration) {
        let time = now.saturating_sub(self.claimed_at).as_nanos();
        if self.backlog && self.ended > 0 && time > 0 {
            let pace = self.ended as u128 * AHEAD_FOR.as_nanos() / time;
            let pace = usize::try_from(pace).unwrap_or(usize::MAX);
            self.ahead = pace.clamp(self.spec.concurrency.clamp(1, MESSAGES_AHEAD_MAX), MESSAGES_AHEAD_MAX);
        }
        (self.ended, self.claimed_at) = (0, now);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;
    use crate::delivery::retry::RetryPolicy;
    use crate::event::{LeaseToken, MessageKey};
    use crate::outgoing::{Outgoing, Policy, Settings, Target};

    fn lane(concurrency: usize) -> Lane {
        let policy = Policy::Operator { allow: Vec::new() };
        let settings = Settings { policy, authorities: Vec::new(), hosts: HashMap::new() };
        Lane::new(Arc::new(DestinationSpec {
            name: "crm".into(),
            target: Target::parse("https://crm.example/").expect("a URL"),
            client: Outgoing::new(settings).expect("a client"),
            headers: HeaderMap::new(),
            signing: None,
            timeout: Duration::from_secs(10),
            concurrency,
            rate: None,
            retry: RetryPolicy::default(),
            retry_on: Vec::new(),
            ordered: false,
        }))
    }

    fn messages(count: usize, bytes: usize) -> Vec<ClaimedMessage> {
        let one = |number: usize| ClaimedMessage {
            fence: MessageFence {
                id: MessageKey::from_bytes([u8::try_from(number).expect("a few"); 16]),
                token: LeaseToken::from_bytes([8; 16]),
            },
            destination: "crm".to_owned(),
            idempotency_key: String::new(),
            method: "POST".to_owned(),
            path: String::new(),
            headers: "{}".to_owned(),
            body: Bytes::from(vec![0; bytes]),
            attempt: 1,
            attempts_before: 0,
            key: None,
            source: None,
            event_id: None,
            handler: None,
            step: None,
            traceparent: None,
            has_order_key: false,
        };
        (0..count).map(one).collect()
    }

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn half_a_hand_is_claimed_at_a_time() {
        let mut lane = lane(2);
        let want = lane.want(ms(0)).expect("it may have work at first");
        assert_eq!((want.limit, want.bytes), (16, MESSAGES_BYTES_MAX));
        assert!(lane.want(ms(0)).is_none(), "one claim at a time");
        lane.take(messages(16, 1), 0, &want, ms(0));
        assert!(!lane.is_due() && !lane.becomes_due());
        for _ in 0..8 {
            let one = lane.start(ms(1)).expect("a message");
            lane.end(one.message.fence);
        }
        assert!(lane.becomes_due() && !lane.becomes_due(), "said once");
        assert_eq!(lane.want(ms(1)).map(|want| want.limit > 8), Some(true));
    }

    #[test]
    fn what_is_claimed_ahead_follows_the_pace() {
        for (time, expected) in [(ms(1), MESSAGES_AHEAD_MAX), (ms(100), 40), (ms(10_000), 2)] {
            let mut lane = lane(2);
            let want = lane.want(ms(0)).expect("may_have_work");
            lane.take(messages(16, 1), 0, &want, ms(0));
            while let Some(one) = lane.start(ms(0)) {
                lane.end(one.message.fence);
            }
            assert_eq!(lane.want(time).map(|want| want.limit), Some(2 + expected), "{time:?}");
        }
    }

    #[test]
    fn bytes_in_hand_are_bounded() {
        let mut lane = lane(2);
        let want = lane.want(ms(0)).expect("may_have_work");
        lane.take(messages(2, MESSAGES_BYTES_MAX / 2), 0, &want, ms(0));
        assert!(lane.backlog && !lane.is_due(), "cut off by the bytes, and no room for more");
        let one = lane.start(ms(0)).expect("a message");
        lane.end(one.message.fence);
        assert_eq!(lane.want(ms(1)).map(|want| want.bytes), Some(MESSAGES_BYTES_MAX / 2));
    }

    #[test]
    fn what_must_not_be_begun_is_put_back() {
        let mut spared = lane(32);
        let want = spared.want(ms(0)).expect("may_have_work");
        spared.take(messages(40, 1), 0, &want, ms(0));
        for _ in 0..16 {
            let one = spared.start(ms(0)).expect("a message");
            spared.circuit.tell(Reached::No, ms(0));
            spared.end(one.message.fence);
        }
        assert!(spared.start(ms(0)).is_none(), "nobody is there");
        let (fences, pause) = spared.put_back(ms(0)).expect("what waits");
        assert_eq!((fences.len(), pause), (24, ms(1000)));
        assert_eq!(spared.want(ms(1000)).map(|want| want.limit), Some(1), "a probe");
        spared.take(messages(1, 1), 0, &want, ms(1000));
        assert!(spared.put_back(ms(1000)).is_none() && spared.start(ms(1000)).is_some(), "the probe goes");

        let mut late = lane(1);
        let want = late.want(ms(0)).expect("may_have_work");
        late.take(messages(2, 1), 0, &want, ms(0));
        assert!(late.put_back(ms(29_000)).is_none());
        assert!(late.start(ms(31_000)).is_none(), "it might end after its lease");
        assert_eq!(late.put_back(ms(31_000)).map(|(fences, pause)| (fences.len(), pause)), Some((2, ms(0))));
    }
}
