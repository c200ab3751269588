//! The numbers and the log line of every attempt. Names and labels are the contract's.

use std::time::Duration;

use metrics::{counter, histogram};

use crate::delivery::Next;
use crate::store::{Buried, Claimed, Expired, ExpiredMessage, PulledClaim};

/// How an attempt ended, as metrics count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its effect is there.
    Done,
    /// It will be tried again.
    Failed,
    /// It was the last one, or a person must decide.
    Dead,
    /// Something newer was applied, so it did not run.
    Superseded,
}

impl From<Next> for Outcome {
    fn from(next: Next) -> Self {
        match next {
            Next::Retry { .. } => Self::Failed,
            Next::Dead | Next::Held => Self::Dead,
        }
    }
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Dead => "dead",
            Self::Superseded => "superseded",
        }
    }
}

/// Counts an attempt and leaves its line.
pub(super) fn ended(claim: &Claimed, outcome: Outcome, error: &str) {
    counted(&claim.handler, claim.attempt <= 1, outcome);
    tracing::Span::current().record("outcome", outcome.as_str());
    let Claimed { handler, source, event_id, key, attempt, .. } = claim;
    match outcome {
        Outcome::Done => tracing::info!(handler, source, event_id, %key, attempt, "done"),
        Outcome::Superseded => tracing::info!(handler, source, event_id, %key, attempt, "superseded: {error}"),
        Outcome::Failed => tracing::warn!(handler, source, event_id, %key, attempt, "failed: {error}"),
        Outcome::Dead => tracing::error!(handler, source, event_id, %key, attempt, "dead: {error}"),
    }
}

/// Notes how long a handler worked on one delivery, or on each of several at once.
pub(super) fn took(handler: &str, time: Duration, deliveries: usize) {
    let each = time.as_secs_f64() / deliveries.max(1) as f64;
    histogram!("oncebox_handler_seconds", "handler" => handler.to_owned()).record_many(each, deliveries);
}

/// Counts an attempt that was made outside this process, from its claim to its report.
pub fn count_pulled(claim: &PulledClaim, outcome: Outcome) {
    counted(&claim.handler, claim.attempt <= 1, outcome);
    took(&claim.handler, claim.held_for, 1);
}

/// A delivery that somebody else has by now: its effect, if any, was rolled back.
pub(super) fn lost(claim: &Claimed) {
    let Claimed { handler, source, event_id, key, attempt, .. } = claim;
    tracing::warn!(handler, source, event_id, %key, attempt, "the lease was lost, so this attempt changed nothing");
}

/// An attempt whose worker went silent. It counts, and it may have been the last one.
pub(super) fn expired(expired: &Expired) {
    let Expired { handler, source, event_id, key, attempt, dead, used, .. } = expired;
    if !used {
        tracing::info!(handler, source, event_id, %key, attempt, "taken back from a process that is gone; no attempt was used");
    } else if *dead {
        counted(handler, *attempt <= 1, Outcome::Dead);
        tracing::error!(handler, source, event_id, %key, attempt, "dead: the last attempt ended without an answer");
    } else {
        counted(handler, *attempt <= 1, Outcome::Failed);
        tracing::warn!(handler, source, event_id, %key, attempt, "an attempt ended without an answer; it will be tried again");
    }
}

/// A message whose relay went silent. It may have been received all the same.
pub(super) fn expired_message(expired: &ExpiredMessage) {
    let ExpiredMessage { destination, id, attempt, dead, used } = expired;
    if !used {
        tracing::info!(destination, %id, attempt, "taken back from a process that is gone; it was not sent");
        return;
    }
    let (nth, outcome) = (if *attempt <= 1 { "first" } else { "retry" }, if *dead { "dead" } else { "failed" });
    counter!("oncebox_outbox_attempts_total", "destination" => destination.clone(), "try" => nth, "outcome" => outcome)
        .increment(1);
    if *dead {
        tracing::error!(destination, %id, attempt, "dead: the last attempt ended without an answer");
    } else {
        tracing::warn!(destination, %id, attempt, "an attempt ended without an answer; it is sent again under its key");
    }
}

/// A delivery that was due and had no attempt left.
pub(super) fn buried(buried: &Buried) {
    let Buried { handler, source, event_id, key, attempt, .. } = buried;
    tracing::error!(handler, source, event_id, %key, attempt, "dead: no attempt is left");
}

fn counted(handler: &str, first: bool, outcome: Outcome) {
    let nth = if first { "first" } else { "retry" };
    counter!("oncebox_attempts_total", "handler" => handler.to_owned(), "try" => nth, "outcome" => outcome.as_str())
        .increment(1);
}
