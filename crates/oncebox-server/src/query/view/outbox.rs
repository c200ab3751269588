//! Views of outbox messages.

use oncebox::gateway::store::{MessageAttempt, MessageDetail, MessageLine, Waiting};
use serde::{Deserialize, Serialize};

use super::from_record::view;
use super::{DeliveryLineView, time};
use crate::query::destinations::Destinations;

/// One message in a list, with the columns of `outbox_v1` and what explains it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct MessageView {
    /// Its name.
    pub(crate) id: String,
    /// The destination's name.
    pub(crate) destination: String,
    /// What every attempt carries.
    pub(crate) idempotency_key: String,
    /// `ready`, `claimed`, `sent`, `dead` or `discarded`.
    pub(crate) state: String,
    /// Claims so far.
    pub(crate) attempt: i64,
    /// When it was written.
    pub(crate) created_at: String,
    /// When the destination took it.
    pub(crate) sent_at: Option<String>,
    /// When it may be claimed next.
    pub(crate) next_attempt_at: Option<String>,
    /// The status of the latest answer.
    pub(crate) status: Option<i64>,
    /// The last failure.
    pub(crate) last_error: Option<String>,
    /// Why it waits, where it is not for its turn alone.
    pub(crate) waits_because: Option<String>,
    /// The event whose handler wrote it.
    pub(crate) key: Option<String>,
    /// The handler that wrote it.
    pub(crate) handler: Option<String>,
    /// Which of the handler's calls.
    pub(crate) step: Option<String>,
}

/// One message with all that belongs to it.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct MessageDetailView {
    /// The message.
    #[serde(flatten)]
    pub(crate) message: MessageView,
    /// The method.
    pub(crate) method: String,
    /// What is added below the destination's URL.
    pub(crate) path: String,
    /// The names of its headers; their values may be anybody's secrets.
    pub(crate) headers: Vec<String>,
    /// The bytes as text, with marks for what is none.
    pub(crate) body: String,
    /// The key within which messages go out in order.
    pub(crate) order_key: Option<String>,
    /// The first bytes of the latest answer, as text.
    pub(crate) answer: Option<String>,
    /// The attempts that were not taken.
    pub(crate) attempts: Vec<MessageAttemptView>,
}

view! {
    /// An attempt that was not taken.
    MessageAttemptView of attempt: MessageAttempt {
        /// Which attempt, from 1.
        attempt: i64 = attempt.attempt,
        /// When it was claimed.
        started_at: Option<String> = attempt.started_at.map(time),
        /// When it ended.
        ended_at: String = time(attempt.ended_at),
        /// `failed`, `dead` or `lost`.
        outcome: String = attempt.outcome,
        /// The answer's status, where there was one.
        status: Option<i64> = attempt.status,
        /// Why.
        error: Option<String> = attempt.error,
    }
}

/// What gave up: a delivery or a message.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum DeadLetterView {
    /// A delivery.
    Delivery(DeliveryLineView),
    /// A message.
    Message(MessageView),
}

view! {
    /// Messages to one destination in one state.
    OutboxStats of waiting: Waiting {
        /// The destination's name.
        destination: String = waiting.name,
        /// The messages' state.
        state: String = waiting.state,
        /// How many.
        count: i64 = waiting.count,
    }
}

/// A destination that a person should look at.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct DestinationStats {
    /// Its name.
    pub(crate) destination: String,
    /// False where messages wait for it and nobody serves it.
    #[serde(rename = "configured")]
    pub(crate) is_configured: bool,
    /// When it is called again, where nobody answered there.
    pub(crate) spared_until: Option<String>,
}

impl DeadLetterView {
    /// What names it, and orders it by time.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Delivery(line) => &line.delivery,
            Self::Message(message) => &message.id,
        }
    }
}

impl MessageView {
    /// A message, and what its destination makes it wait for.
    pub(crate) fn new(line: MessageLine, destinations: &Destinations) -> Self {
        Self {
            waits_because: destinations.why_waiting(&line.destination, &line.state),
            id: line.id.to_string(),
            destination: line.destination,
            idempotency_key: line.idempotency_key,
            state: line.state,
            attempt: line.attempt,
            created_at: time(line.created_at),
            sent_at: line.sent_at.map(time),
            next_attempt_at: line.next_attempt_at.map(time),
            status: line.status,
            last_error: line.last_error,
            key: line.key.map(|key| key.to_string()),
            handler: line.handler,
            step: line.step,
        }
    }
}

impl MessageDetailView {
    pub(crate) fn new(detail: MessageDetail, destinations: &Destinations) -> Self {
        let headers: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&detail.headers).unwrap_or_default();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            message: MessageView::new(detail.line, destinations),
            method: detail.method,
            path: detail.path,
            headers: headers.into_iter().map(|(name, _)| name).collect(),
            body: text(&detail.body),
            order_key: detail.order_key,
            answer: detail.answer.as_deref().map(text),
            attempts: detail.attempts.into_iter().map(Into::into).collect(),
        }
    }
}
