//! The numbers and the log line of every attempt to send. Each line names the event whose handler wrote the message, where
//! there is one.

use std::time::Duration;

use metrics::histogram;

use crate::delivery::Next;
use crate::delivery::metric::counted_message;
use crate::store::ClaimedMessage;

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

pub(super) fn sent(message: &ClaimedMessage) {
    counted_message(&message.destination, message.attempt, "sent");
    line!(info, message, "sent");
}

pub(super) fn failed(message: &ClaimedMessage, next: Next, error: &str) {
    let is_dead = !matches!(next, Next::Retry { .. });
    counted_message(&message.destination, message.attempt, if is_dead { "dead" } else { "failed" });
    match is_dead {
        true => line!(error, message, "dead: {error}"),
        false => line!(warn, message, "not sent: {error}"),
    }
}

pub(super) fn took(destination: &str, time: Duration) {
    histogram!("oncebox_outbox_seconds", "destination" => destination.to_owned()).record(time.as_secs_f64());
}

pub(super) fn lost(message: &ClaimedMessage) {
    line!(warn, message, "the lease was lost; whoever has it sends it under the same key");
}

pub(super) fn unwritten(message: &ClaimedMessage) {
    line!(error, message, "its result could not be saved; it will be sent again under the same key");
}

pub(super) fn buried(message: &ClaimedMessage) {
    line!(error, message, "dead: no attempt is left");
}
