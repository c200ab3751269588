//! A claimed delivery, and what proves that it is still ours.

use std::time::Duration;

use bytes::Bytes;

use crate::clock::UnixMillis;
use crate::database::{Row, StoreError, Value};
use crate::event::{DeliveryKey, EventKey, LeaseToken, Mark};

/// Bytes of an error that are kept.
const ERROR_BYTES_MAX: usize = 2048;

/// What proves that a delivery is still ours: every write after the claim carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    /// The delivery.
    pub delivery: DeliveryKey,
    /// The claim's token.
    pub token: LeaseToken,
}

/// What became of a fenced write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fenced {
    /// Written.
    Recorded,
    /// Somebody else has the delivery; nothing was written.
    LeaseLost,
}

/// A claimed delivery with all that a handler needs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claimed {
    /// The delivery and the claim's token.
    pub fence: Fence,
    /// The event's key.
    pub key: EventKey,
    /// The handler's name.
    pub handler: String,
    /// The source's name.
    pub source: String,
    /// The sender's id.
    pub event_id: String,
    /// The sender's type.
    pub event_type: String,
    /// `name: value` lines.
    pub headers: Bytes,
    /// The exact bytes.
    pub body: Bytes,
    /// This attempt, counted from 1 over the whole life of the delivery.
    pub attempt: u32,
    /// The attempts before the last replay: they are not part of the budget.
    pub attempts_before: u32,
    /// When the event came.
    pub received_at: UnixMillis,
    /// When it was due.
    pub due_at: UnixMillis,
    /// How long it may be kept.
    pub lease_until: UnixMillis,
    /// The key within which it runs one at a time.
    pub order_key: Option<Mark>,
    /// Until when it waits for its prerequisite, once it has begun to.
    pub wait_until: Option<UnixMillis>,
}

/// A delivery that was due and became a dead letter in place of being claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Buried {
    /// The delivery.
    pub delivery: DeliveryKey,
    /// The event's key.
    pub key: EventKey,
    /// The source's name.
    pub source: String,
    /// The sender's id.
    pub event_id: String,
    /// The handler's name.
    pub handler: String,
    /// The attempts it had.
    pub attempt: u32,
}

pub(crate) enum Claim {
    Claimed(Claimed),
    Buried(Buried),
    Empty(Fence, Buried),
}

/// Columns: delivery, token, key, handler, state, attempt, attempts before, due, lease, order key, wait; then source,
/// id, type, received, headers, body.
pub(crate) fn read_claim(mut row: Row) -> Result<Claim, StoreError> {
    let fence = Fence { delivery: row.key(0)?, token: row.key(1)? };
    let (key, handler, attempt) = (row.key(2)?, row.text(3)?, count(row.int(5)?));
    let (source, event_id) = (row.text(11)?, row.text(12)?);
    let buried = Buried {
        delivery: fence.delivery,
        key,
        source: source.clone(),
        event_id: event_id.clone(),
        handler: handler.clone(),
        attempt,
    };
    if row.text(4)? == "dead" {
        return Ok(Claim::Buried(buried));
    }
    let (Some(headers), Some(body)) = (row.take_bytes(15)?, row.take_bytes(16)?) else {
        return Ok(Claim::Empty(fence, buried));
    };
    Ok(Claim::Claimed(Claimed {
        fence,
        key,
        handler,
        source,
        event_id,
        event_type: row.text(13)?,
        headers: headers.into(),
        body: body.into(),
        attempt,
        attempts_before: count(row.int(6)?),
        received_at: row.int(14)?,
        due_at: row.int(7)?,
        lease_until: row.int(8)?,
        order_key: row.optional_key(9)?,
        wait_until: row.optional_int(10)?,
    }))
}

pub(crate) fn count(value: i64) -> u32 {
    u32::try_from(value.max(0)).unwrap_or(u32::MAX)
}

pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}

impl Fence {
    pub(crate) fn values<const N: usize>(self, rest: [Value; N]) -> Vec<Value> {
        [self.delivery.into(), self.token.into()].into_iter().chain(rest).collect()
    }
}

pub(crate) fn fenced(rows: u64) -> Fenced {
    if rows == 0 { Fenced::LeaseLost } else { Fenced::Recorded }
}

/// An error as it is kept: bounded, and without the one character that Postgres cannot hold.
pub(crate) fn kept(error: &str) -> String {
    let end = (0..=ERROR_BYTES_MAX.min(error.len())).rev().find(|end| error.is_char_boundary(*end)).unwrap_or(0);
    error[..end].replace('\0', "\u{fffd}")
}
