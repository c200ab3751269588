//! The numbers and the log line of every attempt to send. Each line names the event whose handler wrote the message, where
//! there is one.

use std::time::Duration;

use metrics::histogram;

use crate::delivery::metric::counted_message;
use crate::store::ClaimedMessage;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Sent,
    Failed,
    Dead,
}

/// A line about one message, with the fields that every such line has.
macro_rules! line {
    ($level:ident, $message:expr, $($text:tt)+) => {{
        let one: &ClaimedMessage = $message;
        tracing::$level!(
            destination = one.destination,
            id = %one.fence.id,
            idempotency_key = one.idempotency_key,
            attempt = one.attempt,
            source = one.source,
            event_id = one.event_id,
            key = one.key.map(tracing::field::display),
            handler = one.handler,
            $($text)+
        )
    }};
}

/// Counts an attempt and leaves its line.
pub(super) fn ended(message: &ClaimedMessage, outcome: Outcome, error: &str) {
    let word = match outcome {
        Outcome::Sent => "sent",
        Outcome::Failed => "failed",
        Outcome::Dead => "dead",
    };
    counted_message(&message.destination, message.attempt, word);
    match outcome {
        Outcome::Sent => line!(info, message, "sent"),
        Outcome::Failed => line!(warn, message, "not sent: {error}"),
        Outcome::Dead => line!(error, message, "dead: {error}"),
    }
}

/// Notes how long a call took.
pub(super) fn took(destination: &str, time: Duration) {
    histogram!("oncebox_outbox_seconds", "destination" => destination.to_owned()).record(time.as_secs_f64());
}

/// A message that somebody else has by now.
pub(super) fn lost(message: &ClaimedMessage) {
    line!(warn, message, "the lease was lost; whoever has it sends it under the same key");
}

/// How it went could not be written down.
pub(super) fn unwritten(message: &ClaimedMessage) {
    line!(error, message, "its result could not be saved; it will be sent again under the same key");
}

/// A message that was due and had no attempt left.
pub(super) fn buried(message: &ClaimedMessage) {
    line!(error, message, "dead: no attempt is left");
}
