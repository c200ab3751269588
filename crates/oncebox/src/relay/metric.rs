//! The numbers and the log line of every attempt to send.

use std::time::Duration;

use metrics::{counter, histogram};

use crate::store::ClaimedMessage;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Sent,
    Failed,
    Dead,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Dead => "dead",
        }
    }
}

/// Counts an attempt and leaves its line.
pub(super) fn ended(message: &ClaimedMessage, outcome: Outcome, error: &str) {
    let nth = if message.attempt.saturating_sub(message.attempts_before) <= 1 { "first" } else { "retry" };
    let name = message.destination.clone();
    counter!("oncebox_outbox_attempts_total", "destination" => name, "try" => nth, "outcome" => outcome.as_str())
        .increment(1);
    let ClaimedMessage { destination, attempt, idempotency_key, .. } = message;
    let id = message.fence.id;
    match outcome {
        Outcome::Sent => tracing::info!(destination, %id, idempotency_key, attempt, "sent"),
        Outcome::Failed => tracing::warn!(destination, %id, idempotency_key, attempt, "not sent: {error}"),
        Outcome::Dead => tracing::error!(destination, %id, idempotency_key, attempt, "dead: {error}"),
    }
}

/// Notes how long a call took.
pub(super) fn took(destination: &str, time: Duration) {
    histogram!("oncebox_outbox_seconds", "destination" => destination.to_owned()).record(time.as_secs_f64());
}

/// A message that somebody else has by now.
pub(super) fn lost(message: &ClaimedMessage) {
    let ClaimedMessage { destination, attempt, .. } = message;
    let id = message.fence.id;
    tracing::warn!(destination, %id, attempt, "the lease was lost; whoever has it sends it under the same key");
}

/// How it went could not be written down.
pub(super) fn unwritten(message: &ClaimedMessage) {
    let ClaimedMessage { destination, attempt, .. } = message;
    let id = message.fence.id;
    tracing::error!(destination, %id, attempt, "not written down; it will be sent again under the same key");
}

/// A message that was due and had no attempt left.
pub(super) fn buried(id: crate::event::EventKey, destination: &str, attempt: u32) {
    tracing::error!(destination, %id, attempt, "dead: no attempt is left");
}
