//! Reading the outbox for people and for metrics: pages, one message with its attempts, depths.

use crate::clock::UnixMillis;
use crate::database::FromRow as _;
use crate::event::{EventKey, MessageKey, NodeKey, Position};
use crate::store::report::columns;
use crate::store::report::events::QueueCount;
use crate::store::report::key_range::{Page, Range, one_more};
use crate::store::{Store, StoreError, sql};

/// One message as `outbox_v1` shows it, with what explains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageLine {
    /// Its name.
    pub id: MessageKey,
    /// The destination's name.
    pub destination: String,
    /// What every attempt carries.
    pub idempotency_key: String,
    /// Its state.
    pub state: String,
    /// Claims so far.
    pub attempt: i64,
    /// When it was written.
    pub created_at: UnixMillis,
    /// When the destination took it.
    pub sent_at: Option<UnixMillis>,
    /// When it may be claimed next, while it is ready.
    pub next_attempt_at: Option<UnixMillis>,
    /// The status of the latest answer.
    pub status: Option<i64>,
    /// The last failure.
    pub last_error: Option<String>,
    /// The event whose handler wrote it.
    pub key: Option<EventKey>,
    /// The handler that wrote it.
    pub handler: Option<String>,
    /// Which of the handler's calls.
    pub step: Option<String>,
}

/// A message with all that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageDetail {
    /// The message.
    pub line: MessageLine,
    /// The method.
    pub method: String,
    /// What is added below the destination's URL.
    pub path: String,
    /// A JSON object of texts.
    pub headers: String,
    /// The bytes.
    pub body: Vec<u8>,
    /// The key within which messages go out in order.
    pub order_key: Option<String>,
    /// The first bytes of the latest answer.
    pub answer: Option<Vec<u8>>,
    /// The attempts that were not taken.
    pub attempts: Vec<MessageAttempt>,
}

/// An attempt that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageAttempt {
    /// Which attempt, from 1.
    pub attempt: i64,
    /// The process that made it.
    pub node: Option<NodeKey>,
    /// When it was claimed.
    pub started_at: Option<UnixMillis>,
    /// When it ended.
    pub ended_at: UnixMillis,
    /// `failed`, `dead` or `lost`.
    pub outcome: String,
    /// The answer's status, where there was one.
    pub status: Option<i64>,
    /// Why.
    pub error: Option<String>,
}

/// Which messages to list. What is absent does not matter.
#[derive(Clone, Debug, Default)]
pub struct MessageFilter {
    /// Exactly this state.
    pub state: Option<String>,
    /// Exactly this destination.
    pub destination: Option<String>,
    /// Written by this handler.
    pub handler: Option<String>,
    /// Written not before.
    pub since: Option<UnixMillis>,
    /// Written before.
    pub until: Option<UnixMillis>,
    /// Written for this event.
    pub key: Option<EventKey>,
    /// Older than this message: the cursor of the page before.
    pub before: Option<Position>,
}

impl Store {
    /// A page of messages, newest first.
    pub async fn messages(&self, filter: &MessageFilter, limit: usize) -> Result<Page<MessageLine>, StoreError> {
        let is_dead = filter.state.as_deref() == Some("dead");
        let range = Range::within(filter.before, filter.since, filter.until);
        let (page, floor) = match is_dead {
            true => (&sql::DEAD_MESSAGES_PAGE, &sql::DEAD_MESSAGES_FLOOR),
            false => (&sql::OUTBOX_PAGE, &sql::MESSAGES_FLOOR),
        };
        let range = range.cut(self.floor(floor, range.before, None).await?);
        let values = vec![
            range.before.into(),
            filter.state.as_deref().into(),
            filter.destination.as_deref().into(),
            filter.handler.as_deref().into(),
            filter.since.into(),
            filter.until.into(),
            filter.key.into(),
            one_more(limit),
            range.floor.into(),
        ];
        Ok(range.page(self.list(page, values).await?, limit, |line: &MessageLine| line.id))
    }

    /// The messages that handlers wrote for an event, newest first, at most so many.
    pub async fn messages_of(&self, key: EventKey, limit: usize) -> Result<Vec<MessageLine>, StoreError> {
        self.list(&sql::MESSAGES_OF_EVENT, vec![key.into(), limit.into()]).await
    }

    /// One message with its attempts and the latest answer.
    pub async fn message(&self, id: MessageKey) -> Result<Option<MessageDetail>, StoreError> {
        let rows = self.query(&sql::MESSAGE_BY_ID, vec![id.into()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(MessageDetail {
            line: MessageLine::from_row(row)?,
            method: row.text(13)?,
            path: row.text(14)?,
            headers: row.text(15)?,
            body: row.bytes(16)?,
            order_key: row.optional_text(17)?,
            answer: row.optional_bytes(18)?,
            attempts: self.list(&sql::ATTEMPTS_OF_MESSAGE, vec![id.into()]).await?,
        }))
    }

    /// What waits or is stopped, by destination: cheap enough to ask often.
    pub async fn outbox_depths(&self) -> Result<Vec<QueueCount>, StoreError> {
        self.list(&sql::OUTBOX_DEPTHS, Vec::new()).await
    }
}

columns!(MessageLine: id, destination, idempotency_key, state, attempt, created_at, sent_at, next_attempt_at, status,
    last_error, key, handler, step);
columns!(MessageAttempt: attempt, node, started_at, ended_at, outcome, status, error);
