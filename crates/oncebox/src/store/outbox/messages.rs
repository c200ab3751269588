//! Claiming outbox messages, and writing down how sending went. They are written by `oncebox.send` and `oncebox_send`, in
//! the transaction of whoever sends.
//!
//! A message exists exactly if the transaction that wrote it committed. It is found by its state, never by a cursor over
//! numbers or times, so one that commits late is sent like any other. Every write after a claim carries its token.

use std::time::Duration;

use bytes::Bytes;

use crate::clock::UnixMillis;
use crate::database::{fenced, kept};
use crate::delivery::Next;
use crate::event::{EventKey, LeaseToken, MessageKey, MessageKind, NodeKey};
use crate::store::handling::deliveries::{count, millis};
use crate::store::{Fenced, Row, Store, StoreError, Tx, TxInner, Value, sql};
use crate::trace::Traceparent;

/// What to claim for one destination.
#[derive(Clone, Debug)]
pub struct MessageWant {
    /// The destination's name; one that is not registered has nothing to claim.
    pub destination: String,
    /// At most so many.
    pub limit: usize,
    /// No further one once their bodies have so many bytes together.
    pub bytes: usize,
    /// How long they may be kept.
    pub lease: Duration,
}

/// What proves that a message is still ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageFence {
    /// The message.
    pub id: MessageKey,
    /// The claim's token.
    pub token: LeaseToken,
}

/// A claimed message with all that sending it needs.
#[derive(Clone, Debug)]
pub struct ClaimedMessage {
    /// The message and the claim's token.
    pub fence: MessageFence,
    /// The destination's name.
    pub destination: String,
    /// What every attempt carries.
    pub idempotency_key: String,
    /// The method, in capitals.
    pub method: String,
    /// What is added below the destination's URL.
    pub path: String,
    /// A JSON object of texts.
    pub headers: String,
    /// The bytes.
    pub body: Bytes,
    /// This attempt, counted from 1 over the whole life of the message.
    pub attempt: u32,
    /// The attempts before the last replay: they are not part of the budget.
    pub attempts_before: u32,
    /// The event whose handler wrote it.
    pub key: Option<EventKey>,
    /// That event's source, while the event is remembered.
    pub source: Option<String>,
    /// That event's id at its sender, while the event is remembered.
    pub event_id: Option<String>,
    /// The handler that wrote it.
    pub handler: Option<String>,
    /// Which of the handler's calls.
    pub step: Option<String>,
    /// Whether others of its key wait for it, where the destination wants order.
    pub has_order_key: bool,
    /// The trace of that event.
    pub traceparent: Option<Traceparent>,
}

/// The answer to a claim.
#[derive(Clone, Debug, Default)]
pub struct MessageClaims {
    /// Ours now, oldest due first.
    pub claimed: Vec<ClaimedMessage>,
    /// Given up, as their attempts are used up.
    pub buried: Vec<ClaimedMessage>,
}

/// A message that its destination took.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Which one.
    pub fence: MessageFence,
    /// The answer's status.
    pub status: u16,
    /// The first bytes of the answer.
    pub answer: Bytes,
}

/// What became of a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentMarks {
    /// All are sent once the transaction commits.
    All,
    /// These were claimed by somebody else meanwhile; the transaction must roll back.
    LeaseLost(Vec<MessageKey>),
}

/// An attempt that the destination did not take, and what was decided about it.
#[derive(Clone, Debug)]
pub struct MessageFailure {
    /// Which message.
    pub fence: MessageFence,
    /// What happens next; messages are never held.
    pub next: Next,
    /// Why, for people.
    pub error: String,
    /// The answer's status, where there was one.
    pub status: Option<u16>,
    /// The first bytes of the answer.
    pub answer: Bytes,
}

impl Store {
    /// Claims what is due for these destinations, oldest first, in one transaction.
    pub async fn claim_messages(
        &self,
        wants: &[MessageWant],
        node: Option<NodeKey>,
        now: UnixMillis,
    ) -> Result<MessageClaims, StoreError> {
        self.faults.at("outbox.claim").await?;
        let mut tx = self.begin().await?;
        let (_, steady) = (now, tx.steady.now());
        let mut rows = by_database!(&mut tx.inner,
            TxInner::Sqlite(tx) => tx.claim_messages(wants.to_vec(), node, (now, steady.unwrap_or(now))).await?,
            TxInner::Postgres(tx) => tx.claim_messages(wants, node, steady).await?,
        );
        // RETURNING has an order of its own.
        rows.sort_by_key(|row| (row.int(6).unwrap_or(0), row.key::<MessageKind>(0).ok()));
        let mut claims = MessageClaims::default();
        for row in rows {
            let list = if row.text(3)? == "dead" { &mut claims.buried } else { &mut claims.claimed };
            list.push(read_claim(row)?);
        }
        tx.commit_or_fail().await?;
        self.faults.at("outbox.claimed").await?;
        Ok(claims)
    }

    /// Puts claims back in line without using an attempt: a clean stop, or a circuit that is open for `pause`.
    pub async fn give_back_messages(
        &self,
        fences: &[MessageFence],
        pause: Duration,
        now: UnixMillis,
    ) -> Result<Vec<Fenced>, StoreError> {
        let mut tx = self.begin().await?;
        let mut outcomes = Vec::with_capacity(fences.len());
        for fence in fences {
            let values = fence.values([now.into(), millis(pause).into()]);
            outcomes.push(fenced(tx.execute(&sql::GIVE_BACK_MESSAGE, values).await?));
        }
        tx.commit_or_fail().await?;
        Ok(outcomes)
    }

    /// True when the message was marked sent under this very token: settles a commit whose result is unknown.
    pub async fn was_sent(&self, fence: MessageFence) -> Result<bool, StoreError> {
        let rows = self.query(&sql::MESSAGE_SETTLED, fence.values([])).await?;
        Ok(rows.first().map(|row| row.text(0)).transpose()?.is_some_and(|state| state == "sent"))
    }
}

impl Tx {
    /// Marks messages sent and keeps what was answered.
    pub async fn sent(&mut self, marks: &[Sent], now: UnixMillis) -> Result<SentMarks, StoreError> {
        let before = std::mem::replace(&mut self.poisoned, true);
        self.faults.at("outbox.mark").await?;
        let mut sorted = marks.to_vec();
        // Sorted, as everything that two nodes may write at once.
        sorted.sort_unstable_by_key(|mark| mark.fence.id);
        let _ = now;
        let done = by_database!(&mut self.inner,
            TxInner::Sqlite(tx) => tx.sent(sorted, now).await?,
            TxInner::Postgres(tx) => tx.sent(&sorted).await?,
        );
        if done.len() < marks.len() {
            let lost = marks.iter().map(|mark| mark.fence.id).filter(|id| !done.contains(id));
            return Ok(SentMarks::LeaseLost(lost.collect()));
        }
        self.poisoned = before;
        Ok(SentMarks::All)
    }

    /// Records an attempt that was not taken.
    pub async fn fail_message(&mut self, failure: &MessageFailure, now: UnixMillis) -> Result<Fenced, StoreError> {
        let (state, outcome, pause) = match failure.next {
            Next::Retry { after } => ("ready", "failed", Some(millis(after))),
            Next::Dead | Next::Held => ("dead", "dead", None),
        };
        let (error, status) = (kept(&failure.error), failure.status.map(i64::from));
        let attempt = [now.into(), outcome.into(), status.into(), error.as_str().into()];
        if self.execute(&sql::RECORD_MESSAGE_ATTEMPT, failure.fence.values(attempt)).await? == 0 {
            return Ok(Fenced::LeaseLost);
        }
        let message = [now.into(), state.into(), pause.into(), error.as_str().into(), status.into()];
        let outcome = self.execute(&sql::END_MESSAGE_ATTEMPT, failure.fence.values(message)).await.map(fenced)?;
        if !failure.answer.is_empty() {
            let answer = Value::Bytes(failure.answer.to_vec());
            self.execute(&sql::KEEP_ANSWER, vec![failure.fence.id.into(), now.into(), answer]).await?;
        }
        Ok(outcome)
    }
}

impl MessageFence {
    pub(in crate::store) fn values<const N: usize>(self, rest: [Value; N]) -> Vec<Value> {
        [self.id.into(), self.token.into()].into_iter().chain(rest).collect()
    }
}

/// Columns: id, token, destination, state, attempt, attempts before, due, key, method, path, headers, body, event,
/// handler, step, order key, source, the sender's id, the first bytes of the event's headers.
fn read_claim(mut row: Row) -> Result<ClaimedMessage, StoreError> {
    let body = row.take_bytes(11)?.unwrap_or_default();
    Ok(ClaimedMessage {
        fence: MessageFence { id: row.key(0)?, token: row.key(1)? },
        destination: row.text(2)?,
        attempt: count(row.int(4)?),
        attempts_before: count(row.int(5)?),
        idempotency_key: row.text(7)?,
        method: row.text(8)?,
        path: row.text(9)?,
        headers: row.text(10)?,
        body: body.into(),
        key: row.optional_key(12)?,
        handler: row.optional_text(13)?,
        step: row.optional_text(14)?,
        has_order_key: row.optional_text(15)?.is_some(),
        source: row.optional_text(16)?,
        event_id: row.optional_text(17)?,
        traceparent: row.optional_bytes(18)?.as_deref().and_then(Traceparent::stored),
    })
}
