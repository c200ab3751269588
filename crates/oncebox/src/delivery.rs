//! The duty to run one handler for one event, and the rules that move it on. Pure: the store only carries out what is
//! decided here.

pub(crate) mod chance;
pub(crate) mod handler_error;
pub mod metric;
pub mod order;
pub mod retry;
pub mod routing;

use std::time::Duration;

use crate::delivery::retry::RetryPolicy;

/// Where a delivery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeliveryState {
    /// Waits to be claimed, now or when it is due.
    Ready,
    /// A worker has it.
    Claimed,
    /// Its effect is committed.
    Done,
    /// It gave up.
    Dead,
    /// A newer version, or the same change under another id, was applied already.
    Superseded,
    /// It waits for a person.
    Held,
    /// A person decided that it never runs.
    Discarded,
}

impl DeliveryState {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Ready, Self::Claimed, Self::Done, Self::Dead, Self::Superseded, Self::Held, Self::Discarded];

    /// The word kept in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Claimed => "claimed",
            Self::Done => "done",
            Self::Dead => "dead",
            Self::Superseded => "superseded",
            Self::Held => "held",
            Self::Discarded => "discarded",
        }
    }

    /// Reads the word kept in the database.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Where a move leads from here; none where it is not allowed.
    pub fn after(self, step: Move) -> Option<Self> {
        match (self, step) {
            (Self::Ready, Move::Claim) => Some(Self::Claimed),
            // A claim that finds the attempts used up.
            (Self::Ready | Self::Claimed, Move::GiveUp) => Some(Self::Dead),
            (Self::Claimed, Move::Finish) => Some(Self::Done),
            (Self::Claimed, Move::Return) => Some(Self::Ready),
            (Self::Claimed, Move::Supersede) => Some(Self::Superseded),
            (Self::Claimed, Move::Hold) => Some(Self::Held),
            (Self::Dead, Move::Replay) | (Self::Held, Move::Release) | (Self::Done, Move::Requeue) => Some(Self::Ready),
            (Self::Dead | Self::Held, Move::Discard) => Some(Self::Discarded),
            _ => None,
        }
    }
}

/// What can happen to a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// A worker takes it.
    Claim,
    /// The effect is committed.
    Finish,
    /// Back in line: a retry, a lease that is over, a clean stop.
    Return,
    /// The attempts are used up, or the failure is permanent.
    GiveUp,
    /// Something newer was applied.
    Supersede,
    /// A broken invariant: a person must look.
    Hold,
    /// A person gives a dead one another chance.
    Replay,
    /// A person lets a held one go.
    Release,
    /// A person drops it.
    Discard,
    /// `reconcile` found that the effect is missing.
    Requeue,
}

/// How a failed attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// Another try may succeed; the target may have said when.
    Transient {
        /// The target's own wish.
        retry_after: Option<Duration>,
    },
    /// No try will succeed.
    Permanent,
    /// Something that cannot be: a person must look before anything goes on.
    Broken,
}

/// What happens to a delivery after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Ready again after a pause.
    Retry {
        /// The pause.
        after: Duration,
    },
    /// A dead letter.
    Dead,
    /// Held for a person.
    Held,
}

/// Decides after a failed attempt. `attempt` is the one that failed, `attempts_before` those before the last replay.
pub fn after_failure(policy: &RetryPolicy, attempt: u32, attempts_before: u32, failed: Failed, random: u64) -> Next {
    let used = attempt.saturating_sub(attempts_before);
    match failed {
        Failed::Broken => Next::Held,
        Failed::Permanent => Next::Dead,
        Failed::Transient { .. } if used >= policy.attempts => Next::Dead,
        Failed::Transient { retry_after } => Next::Retry { after: policy.delay_or_wish(used, random, retry_after) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DeliveryState::{Claimed, Dead, Discarded, Done, Held, Ready, Superseded};

    const MOVES: [Move; 10] = [
        Move::Claim,
        Move::Finish,
        Move::Return,
        Move::GiveUp,
        Move::Supersede,
        Move::Hold,
        Move::Replay,
        Move::Release,
        Move::Discard,
        Move::Requeue,
    ];

    #[test]
    fn every_move_from_every_state() {
        let allowed = [
            (Ready, Move::Claim, Claimed),
            (Ready, Move::GiveUp, Dead),
            (Claimed, Move::Finish, Done),
            (Claimed, Move::Return, Ready),
            (Claimed, Move::GiveUp, Dead),
            (Claimed, Move::Supersede, Superseded),
            (Claimed, Move::Hold, Held),
            (Dead, Move::Replay, Ready),
            (Held, Move::Release, Ready),
            (Dead, Move::Discard, Discarded),
            (Held, Move::Discard, Discarded),
            (Done, Move::Requeue, Ready),
        ];
        for state in DeliveryState::ALL {
            assert_eq!(DeliveryState::parse(state.as_str()), Some(state));
            for step in MOVES {
                let expected = allowed.iter().find(|(from, by, _)| (*from, *by) == (state, step)).map(|(_, _, to)| *to);
                assert_eq!(state.after(step), expected, "{state:?} {step:?}");
            }
        }
    }

    #[test]
    fn failures() {
        let policy = RetryPolicy { attempts: 3, base: Duration::from_secs(1), cap: Duration::from_secs(8) };
        let transient = Failed::Transient { retry_after: None };
        let asked = Failed::Transient { retry_after: Some(Duration::from_secs(90)) };
        let retry = |seconds| Next::Retry { after: Duration::from_secs(seconds) };
        for (attempt, before, failed, expected) in [
            (1, 0, transient, retry(1)),
            (2, 0, transient, retry(2)),
            (3, 0, transient, Next::Dead),
            (u32::MAX, 0, transient, Next::Dead),
            (4, 3, transient, retry(1)),
            (6, 3, transient, Next::Dead),
            (1, 7, transient, retry(1)),
            (1, 0, asked, retry(90)),
            (3, 0, asked, Next::Dead),
            (1, 0, Failed::Permanent, Next::Dead),
            (1, 0, Failed::Broken, Next::Held),
            (9, 0, Failed::Broken, Next::Held),
        ] {
            assert_eq!(after_failure(&policy, attempt, before, failed, u64::MAX), expected, "{attempt} {failed:?}");
        }
    }
}
