//! One event is to be handled by one handler, and the rules that move that on. Pure: the store only carries out what is
//! decided here.

pub(crate) mod chance;
pub(crate) mod handler_error;
pub mod metric;
pub mod order;
pub mod retry;
pub mod routing;

use std::time::Duration;

use crate::delivery::retry::RetryPolicy;

/// Where a delivery stands, in the words kept in the database.
pub const DELIVERY_STATES: [&str; 7] = [
    // Waits to be claimed, now or when it is due.
    "ready",
    // A worker has it.
    "claimed",
    // Its effect is committed.
    "done",
    // It gave up.
    "dead",
    // A newer version, or the same change under another id, was applied already.
    "superseded",
    // It waits for a person.
    "held",
    // A person decided that it never runs.
    "discarded",
];

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

    #[test]
    fn words() {
        for state in DELIVERY_STATES {
            assert_eq!(DELIVERY_STATES.into_iter().filter(|other| *other == state).count(), 1, "{state}");
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
