//! Claiming deliveries and finishing them.
//!
//! A claim is a short transaction of its own: it counts the attempt and writes who has the delivery and until when, so
//! that a worker which dies loses one attempt and nothing else. Every later write carries the claim's token; whoever
//! no longer has the current one changes nothing.

use std::time::Duration;

use bytes::Bytes;

use super::{Failure, Row, Store, StoreError, Tx, TxInner, sql};
use crate::clock::UnixMillis;
use crate::delivery::Next;
use crate::event::EventKey;
use crate::limits::LOST_TOGETHER_MAX;

/// What to claim for one handler.
#[derive(Clone, Debug)]
pub struct Want {
    /// The handler's name; one that is not registered, or is paused, has nothing to claim.
    pub handler: String,
    /// At most so many.
    pub limit: usize,
    /// How long they may be kept.
    pub lease: Duration,
}

/// What proves that a delivery is still ours: every write after the claim carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    /// The delivery.
    pub delivery: EventKey,
    /// The claim's token.
    pub token: EventKey,
}

/// A claimed delivery with all that a handler needs.
#[derive(Clone, Debug)]
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
    pub order_key: Option<EventKey>,
    /// Until when it waits for its prerequisite, once it has begun to.
    pub wait_until: Option<UnixMillis>,
}

/// A delivery that was due and became a dead letter in place of being claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buried {
    /// The delivery.
    pub delivery: EventKey,
    /// The event's key.
    pub key: EventKey,
    /// The handler's name.
    pub handler: String,
    /// The attempts it had.
    pub attempt: u32,
}

/// The answer to a claim.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// Ours now, oldest due first.
    pub claimed: Vec<Claimed>,
    /// Given up: the attempts are used up, or the payload is gone.
    pub buried: Vec<Buried>,
}

/// What became of a finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished {
    /// All are done once the transaction commits.
    All,
    /// These were claimed by somebody else meanwhile: the whole transaction must roll back.
    LeaseLost(Vec<EventKey>),
}

/// Which deliveries a claim may take, by the attempts that were lost with their worker: one of those may be what took
/// the worker with it, and whatever is claimed together is lost together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Care {
    /// All of them.
    Any,
    /// None was lost.
    Sound,
    /// One was lost, and the next is not the last.
    LostOnce,
    /// More than that.
    Suspect,
}

impl Store {
    /// Claims what is due for these handlers, oldest first, in one transaction. `node` is the worker's process, which
    /// must ask for what was lost by [`Store::claim_lost`]; none for consumers outside. `now` is the time on SQLite;
    /// Postgres has its own.
    pub async fn claim(&self, wants: &[Want], node: Option<EventKey>, now: UnixMillis) -> Result<Claims, StoreError> {
        let care = if node.is_some() { Care::Sound } else { Care::Any };
        self.claim_with(wants, node, care, now).await
    }

    /// Claims what was lost with its worker before: a few of those that were lost once, or else one alone. Whoever has
    /// them in hand should claim no others of their kind, so that the one that kills takes no innocents along.
    pub async fn claim_lost(&self, want: &Want, node: EventKey, now: UnixMillis) -> Result<Claims, StoreError> {
        for (care, most) in [(Care::LostOnce, LOST_TOGETHER_MAX), (Care::Suspect, 1)] {
            let want = Want { limit: want.limit.min(most), ..want.clone() };
            let claims = self.claim_with(&[want], Some(node), care, now).await?;
            if !claims.claimed.is_empty() || !claims.buried.is_empty() {
                return Ok(claims);
            }
        }
        Ok(Claims::default())
    }

    async fn claim_with(
        &self,
        wants: &[Want],
        node: Option<EventKey>,
        care: Care,
        now: UnixMillis,
    ) -> Result<Claims, StoreError> {
        self.faults.at("deliveries.claim").await?;
        let mut tx = self.begin().await?;
        let rows = match tx.claim_rows(wants, node, care, now).await {
            Ok(rows) => rows,
            // Two nodes within one order key are no reason to lose the connection.
            Err(error) => {
                tx.rollback().await;
                return Err(error);
            }
        };
        let mut claims = Claims::default();
        for row in rows {
            match read_claim(&row)? {
                Claim::Claimed(claimed) => claims.claimed.push(claimed),
                Claim::Buried(buried) => claims.buried.push(buried),
                Claim::Empty(fence, buried) => {
                    let error = "the payload is gone".to_owned();
                    tx.fail(&Failure { fence, next: Next::Dead, error, status: None }, now).await?;
                    claims.buried.push(buried);
                }
            }
        }
        tx.commit_or_fail().await?;
        self.faults.at("deliveries.claimed").await?;
        Ok(claims)
    }

    /// True when the delivery was finished under this very token: settles a commit whose result is unknown.
    pub async fn was_finished(&self, fence: Fence) -> Result<bool, StoreError> {
        let rows = self.query(&sql::SETTLED, vec![fence.delivery.into(), fence.token.into()]).await?;
        Ok(rows.first().map(|row| row.text(0)).transpose()?.is_some_and(|state| state == "done"))
    }
}

impl Tx {
    /// Marks deliveries done together with whatever else this transaction writes.
    pub async fn finish(&mut self, fences: &[Fence], now: UnixMillis) -> Result<Finished, StoreError> {
        let before = std::mem::replace(&mut self.half_done, true);
        self.faults.at("deliveries.finish").await?;
        let mut sorted = fences.to_vec();
        // Sorted, as everything that two nodes may write at once.
        sorted.sort_unstable_by_key(|fence| fence.delivery);
        let done = match &mut self.inner {
            #[cfg(feature = "sqlite")]
            TxInner::Sqlite(tx) => tx.finish(sorted, now).await?,
            #[cfg(feature = "postgres")]
            TxInner::Postgres(tx) => tx.finish(&sorted).await?,
        };
        let _ = now;
        if done.len() == fences.len() {
            self.half_done = before;
            return Ok(Finished::All);
        }
        // Left half done on purpose: effects without their mark must never be committed.
        let lost = fences.iter().map(|fence| fence.delivery).filter(|delivery| !done.contains(delivery));
        Ok(Finished::LeaseLost(lost.collect()))
    }

    async fn claim_rows(
        &mut self,
        wants: &[Want],
        node: Option<EventKey>,
        care: Care,
        now: UnixMillis,
    ) -> Result<Vec<Row>, StoreError> {
        let _ = now;
        match &mut self.inner {
            #[cfg(feature = "sqlite")]
            TxInner::Sqlite(tx) => tx.claim_deliveries(wants.to_vec(), node, care, now).await,
            #[cfg(feature = "postgres")]
            TxInner::Postgres(tx) => tx.claim_deliveries(wants, node, care).await,
        }
    }
}

enum Claim {
    Claimed(Claimed),
    Buried(Buried),
    Empty(Fence, Buried),
}

/// Columns: delivery, token, key, handler, state, attempt, attempts before, due, lease, order key, wait; then source,
/// id, type, received, headers, body.
fn read_claim(row: &Row) -> Result<Claim, StoreError> {
    let fence = Fence { delivery: row.key(0)?, token: row.key(1)? };
    let (key, handler, attempt) = (row.key(2)?, row.text(3)?, count(row.int(5)?));
    let buried = Buried { delivery: fence.delivery, key, handler: handler.clone(), attempt };
    if row.text(4)? == "dead" {
        return Ok(Claim::Buried(buried));
    }
    let (Some(headers), Some(body)) = (row.optional_bytes(15)?, row.optional_bytes(16)?) else {
        return Ok(Claim::Empty(fence, buried));
    };
    Ok(Claim::Claimed(Claimed {
        fence,
        key,
        handler,
        source: row.text(11)?,
        event_id: row.text(12)?,
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

pub(super) fn count(value: i64) -> u32 {
    u32::try_from(value.max(0)).unwrap_or(u32::MAX)
}

pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}
