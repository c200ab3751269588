//! One attempt to send one message: the call, and what its end means. No transaction is open meanwhile; the same key goes
//! out whenever the message does.

use bytes::Bytes;
use tracing::Instrument as _;

use super::destination::DestinationSpec;
use super::{metric, request};
use crate::clock::Clock;
use crate::delivery::chance::chance;
use crate::delivery::{Failed, after_failure};
use crate::lane::circuit::Reached;
use crate::outgoing::Answer;
use crate::outgoing::forward::{judge_message, reached_without_answer, refusal};
use crate::outgoing::masks::Masks;
use crate::store::{ClaimedMessage, MessageFailure, Sent, Store};
use crate::trace::TARGET;

#[derive(Debug)]
pub(super) struct Ended {
    pub(super) message: ClaimedMessage,
    pub(super) end: End,
    /// Whether the next of its order key waited for it.
    pub(super) is_followed: bool,
    /// What it says about the destination.
    pub(super) reached: Reached,
}

#[derive(Debug)]
pub(super) enum End {
    Sent(Sent),
    Failed(MessageFailure),
    /// It was not made.
    NotMade,
    /// It was made, and nothing more is known: the end of the lease brings it back.
    Unknown,
}

pub(super) async fn run(store: &Store, clock: &Clock, spec: &DestinationSpec, message: ClaimedMessage) -> Ended {
    let call = match request::call(spec, &message, clock.now()) {
        Ok(call) => call,
        // The message itself is wrong, whoever is at the other end.
        Err(error) => return failed(spec, message, (Failed::Permanent, Reached::Unknown), error.to_string(), None),
    };
    if store.pass("outbox.send").await.is_err() {
        return not_made(message);
    }
    let span = tracing::info_span!(
        target: TARGET, "send", traceparent = message.traceparent.map(tracing::field::display),
        destination = &*spec.name, id = %message.fence.id, attempt = message.attempt,
    );
    let masks = Masks::of_call(&call.headers, &spec.headers);
    let begun = clock.monotonic();
    let answer = spec.client.send(call).instrument(span).await;
    metric::took(&spec.name, clock.monotonic().saturating_sub(begun));
    if store.pass("outbox.sent").await.is_err() {
        return nothing_known(message, End::Unknown);
    }
    match answer {
        Ok(answer) => answered(spec, message, Answer { body: masks.apply(answer.body), ..answer }, clock),
        Err(error) => {
            let judged = (Failed::Transient { retry_after: None }, reached_without_answer(&error));
            failed(spec, message, judged, error.to_string(), None)
        }
    }
}

pub(super) fn not_made(message: ClaimedMessage) -> Ended {
    nothing_known(message, End::NotMade)
}

fn nothing_known(message: ClaimedMessage, end: End) -> Ended {
    Ended { message, end, is_followed: false, reached: Reached::Unknown }
}

/// The status decides. A body that is too long, too slow or broken off is kept as far as it came.
fn answered(spec: &DestinationSpec, message: ClaimedMessage, answer: Answer, clock: &Clock) -> Ended {
    let status = answer.status.as_u16();
    let Some(judged) = judge_message(status, &answer.headers, &spec.retry_on, clock.now()) else {
        let sent = Sent { fence: message.fence, status, answer: answer.body };
        let is_followed = spec.ordered && message.has_order_key;
        return Ended { message, end: End::Sent(sent), is_followed, reached: Reached::Yes };
    };
    let error = refusal(answer.status, &answer.body);
    failed(spec, message, judged, error, Some((status, answer.body)))
}

fn failed(
    spec: &DestinationSpec,
    message: ClaimedMessage,
    (failed, reached): (Failed, Reached),
    error: String,
    answer: Option<(u16, Bytes)>,
) -> Ended {
    let (status, answer) = answer.unzip();
    let answer = answer.unwrap_or_default();
    let next = after_failure(&spec.retry, message.attempt, message.attempts_before, failed, chance());
    let end = End::Failed(MessageFailure { fence: message.fence, next, error, status, answer });
    let is_followed = spec.ordered && message.has_order_key;
    Ended { message, end, is_followed, reached }
}
