//! The numbers and the log line of every attempt.

pub use crate::delivery::metric::Outcome;
pub(super) use crate::delivery::metric::took;
use crate::delivery::metric::{counted, counted_message};
use crate::store::{Buried, Claimed, Expired, ExpiredMessage, PulledClaim};

/// Counts an attempt and leaves its line.
pub(super) fn ended(claim: &Claimed, outcome: Outcome, error: &str) {
    counted(&claim.handler, claim.attempt, outcome);
    tracing::Span::current().record("outcome", outcome.as_str());
    let Claimed { handler, source, event_id, key, attempt, .. } = claim;
    match outcome {
        Outcome::Done => tracing::info!(handler, source, event_id, %key, attempt, "done"),
        Outcome::Superseded => tracing::info!(handler, source, event_id, %key, attempt, "superseded: {error}"),
        Outcome::Failed => tracing::warn!(handler, source, event_id, %key, attempt, "failed: {error}"),
        Outcome::Dead => tracing::error!(handler, source, event_id, %key, attempt, "dead: {error}"),
    }
}

/// Counts an attempt that was made outside this process, from its claim to its report.
pub fn count_pulled(claim: &PulledClaim, outcome: Outcome) {
    counted(&claim.handler, claim.attempt, outcome);
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
        tracing::info!(handler, source, event_id, %key, attempt, "reclaimed from a process that ended; no attempt was used");
    } else if *dead {
        counted(handler, *attempt, Outcome::Dead);
        tracing::error!(handler, source, event_id, %key, attempt, "dead: the last attempt ended without an answer");
    } else {
        counted(handler, *attempt, Outcome::Failed);
        tracing::warn!(handler, source, event_id, %key, attempt, "an attempt ended without an answer; it will be tried again");
    }
}

/// A message whose relay went silent. It may have been received all the same.
pub(super) fn expired_message(expired: &ExpiredMessage) {
    let ExpiredMessage { destination, id, attempt, dead, used } = expired;
    if !used {
        tracing::info!(destination, %id, attempt, "reclaimed from a process that ended; it was not sent");
        return;
    }
    counted_message(destination, *attempt, if *dead { "dead" } else { "failed" });
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
