//! Sends the messages of one lane, one after the other, until the lane has none for it.
//!
//! Whoever ends a call takes the next message itself: the loop is woken for claims, not for every call.

use std::sync::Arc;

use tokio::sync::{Notify, mpsc};

use super::attempt::{self, End, Ended};
use super::completer::give_back;
use super::destination::DestinationSpec;
use super::lane::Shared;
use crate::clock::Clock;
use crate::lane::begun::Beginnings;
use crate::store::{BegunClaim, ClaimedMessage, MessageFence, Role, Store};

#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) store: Store,
    pub(super) clock: Clock,
    /// To the completer.
    pub(super) ended: mpsc::Sender<Ended>,
    /// Wakes the loop when a lane has room for a claim.
    pub(super) due: Arc<Notify>,
    pub(super) begun: Beginnings,
}

/// A call under way. Dropped before its end, it leaves its message to whoever stops the relay.
#[derive(Debug)]
pub(super) struct UnderWay {
    lane: Arc<Shared>,
    clock: Clock,
    fence: MessageFence,
    is_over: bool,
}

#[derive(Debug)]
pub(super) struct Begun {
    message: ClaimedMessage,
    spec: Arc<DestinationSpec>,
    under_way: UnderWay,
}

impl Begun {
    /// The next message of a lane, if it has one that may be sent now.
    pub(super) fn next_of(lane: &Arc<Shared>, clock: &Clock) -> Option<Self> {
        let mut locked = lane.lock();
        let message = locked.start(clock.monotonic())?.message;
        let under_way = UnderWay { lane: lane.clone(), clock: clock.clone(), fence: message.fence, is_over: false };
        Some(Self { message, spec: locked.spec.clone(), under_way })
    }
}

impl UnderWay {
    /// Ends it; true when the lane has room for a claim now and did not before.
    fn end(mut self) -> bool {
        self.is_over = true;
        let mut lane = self.lane.lock();
        lane.end(self.fence);
        lane.becomes_due()
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if !self.is_over {
            self.lane.lock().cut_off(self.fence, self.clock.monotonic());
        }
    }
}

impl Caller {
    /// Sends this message and whatever the lane gives after it.
    pub(super) async fn run(self, first: Begun) {
        let mut begun = Some(first);
        while let Some(Begun { message, spec, under_way }) = begun {
            let lane = under_way.lane.clone();
            let claims = vec![BegunClaim::new(message.fence.id, message.fence.token)];
            let ended = match self.begun.begin(Role::Relay, claims).await {
                Some(_under_way) => attempt::run(&self.store, &self.clock, &spec, message).await,
                None => attempt::not_made(message),
            };
            lane.lock().circuit.tell(ended.reached, self.clock.monotonic());
            // Where the completer cannot keep up, no further call is begun.
            self.hand_over(ended).await;
            if under_way.end() {
                self.due.notify_one();
            }
            begun = Begun::next_of(&lane, &self.clock);
        }
    }

    async fn hand_over(&self, ended: Ended) {
        match ended.end {
            End::NotMade => {
                let fences = vec![ended.message.fence];
                give_back(self.store.clone(), self.clock.clone(), fences, std::time::Duration::ZERO).await;
            }
            // The end of the lease brings it back.
            End::Unknown => {}
            // The completer lives as long as its callers do.
            End::Sent(_) | End::Failed(_) => drop(self.ended.send(ended).await),
        }
    }
}
