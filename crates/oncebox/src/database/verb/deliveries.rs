//! Claiming deliveries and ending them, over an application's own pool and for our own workers. Only claim, finish and
//! register are an application's alone: the store claims for many handlers at once, finishes many deliveries by one statement
//! in the transaction of their effects, and registers what a config says.
//!
//! A claim is a short transaction that counts the attempt; every write after it is fenced by the claim's token.

use std::time::Duration;

use crate::clock::UnixMillis;
use crate::database::{
    At, Buried, Claim, Claimed, Dialect, Fence, Fenced, Pool, Row, StoreError, Transaction, Value, commit_or_fail,
    count, execute, fenced, first, is_open, kept, millis, query, read_claim, sql,
};
use crate::delivery::Next;
use crate::delivery::retry::RetryPolicy;
use crate::event::{DeliveryKey, EventKey, EventKind, NodeKind};
use crate::limits::CLAIMED_BYTES_MAX;

/// Leases ended in one transaction.
pub(crate) const SLICE: i64 = 500;
/// Why a delivery is dead whose event has no bytes any more.
pub(crate) const PAYLOAD_GONE: &str = "the payload is gone";

/// A failed attempt and what was decided about it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Whose it is.
    pub fence: Fence,
    /// What happens next.
    pub next: Next,
    /// Why it failed, for people.
    pub error: String,
    /// The target's answer, where there was one.
    pub status: Option<u16>,
}

/// A delivery taken back from a worker that went silent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired {
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
    /// The attempt that was lost.
    pub attempt: u32,
    /// True when it was the last one.
    pub dead: bool,
    /// Whether it used an attempt: false when it had not begun, or when it had begun together with others and only one
    /// attempt is left.
    pub used: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Claims {
    pub(crate) claimed: Vec<Claimed>,
    pub(crate) buried: Vec<Buried>,
    /// Something waits that was lost before; what was claimed, if anything, is one of those.
    pub(crate) lost: bool,
}

/// What became of the mark of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finished {
    /// It is written, in the transaction of the work.
    Recorded,
    /// Somebody else has the delivery.
    LeaseLost,
    /// The work ended its transaction; nothing was written.
    Ended,
}

/// Tells the database about a handler, before anything is claimed for it; a config that describes it wins.
pub(crate) async fn register<P: Pool>(
    pool: &P,
    handler: &str,
    retry: &RetryPolicy,
    lease: Duration,
) -> Result<(), StoreError> {
    let mut tx = pool.begin().await?;
    let values = vec![
        handler.into(),
        i64::from(retry.attempts).into(),
        millis(retry.base).into(),
        millis(retry.cap).into(),
        millis(lease).into(),
    ];
    execute(&mut tx, &sql::REGISTER_OWN_HANDLER, values).await?;
    commit_or_fail::<P>(tx).await
}

/// Claims what is due for a handler, oldest first. What was lost with its worker before may be what took the worker with
/// it: it is claimed alone, and only by one who has nothing else in hand (`is_idle`); nothing else is claimed before it.
pub(crate) async fn claim<P: Pool>(
    mut tx: P::Tx,
    handler: &str,
    most: usize,
    is_idle: bool,
    lease: Duration,
    now: At,
) -> Result<Claims, StoreError> {
    let asked = sql::HAS_LOST.with(vec![handler.into(), now.wall.into()], now.steady);
    let lost = !query(&mut tx, &sql::HAS_LOST, asked).await?.is_empty();
    if lost && !is_idle {
        commit_or_fail::<P>(tx).await?;
        return Ok(Claims { lost, ..Claims::default() });
    }
    let in_order = !query(&mut tx, &sql::HAS_ORDER_KEYS, vec![handler.into()]).await?.is_empty();
    let most = if lost { 1 } else { most };
    let mut values = vec![handler.into(), most.into(), millis(lease).into(), Value::Null];
    values.extend(match tx.dialect() {
        Dialect::Sqlite => [now.wall.into(), now.steady.unwrap_or(now.wall).into()],
        Dialect::Postgres => [now.steady.into(), CLAIMED_BYTES_MAX.into()],
    });
    let rows = query(&mut tx, sql::claim_with(lost, in_order), values).await?;
    let mut claims = Claims { lost, ..Claims::default() };
    for row in without_excess(&mut tx, rows).await? {
        match read_claim(row)? {
            Claim::Claimed(claimed) => claims.claimed.push(claimed),
            Claim::Buried(buried) => claims.buried.push(buried),
            Claim::Empty(fence, buried) => {
                let error = PAYLOAD_GONE.to_owned();
                fail(&mut tx, &Failure { fence, next: Next::Dead, error, status: None }, now).await?;
                claims.buried.push(buried);
            }
        }
    }
    commit_or_fail::<P>(tx).await?;
    Ok(claims)
}

/// Marks a delivery done together with whatever else this marked transaction writes.
pub(crate) async fn finish<T: Transaction>(tx: &mut T, fence: Fence, now: UnixMillis) -> Result<Finished, StoreError> {
    let dialect = tx.dialect();
    // Asked before, because outside of a transaction the statement would commit by itself.
    if dialect == Dialect::Sqlite && !is_open(tx).await? {
        return Ok(Finished::Ended);
    }
    match fenced(execute(tx, &sql::FINISH_ONE, fence.values([now.into()])).await?) {
        Fenced::Recorded => Ok(Finished::Recorded),
        Fenced::LeaseLost if dialect == Dialect::Postgres && !is_open(tx).await? => Ok(Finished::Ended),
        Fenced::LeaseLost => Ok(Finished::LeaseLost),
    }
}

pub(crate) async fn fail<T: Transaction>(tx: &mut T, failure: &Failure, now: At) -> Result<Fenced, StoreError> {
    let (state, outcome, pause) = match failure.next {
        Next::Retry { after } => ("ready", "failed", Some(millis(after))),
        Next::Dead => ("dead", "dead", None),
        Next::Held => ("held", "held", None),
    };
    let status = failure.status.map(i64::from);
    end_attempt(tx, failure.fence, (state, outcome, pause), status, &failure.error, now).await
}

/// Writes down how an attempt ended otherwise than done: the delivery's state then, the attempt's outcome, and the pause
/// before the next.
pub(crate) async fn end_attempt<T: Transaction>(
    tx: &mut T,
    fence: Fence,
    (state, outcome, pause): (&str, &str, Option<i64>),
    status: Option<i64>,
    why: &str,
    now: At,
) -> Result<Fenced, StoreError> {
    let why = kept(why);
    let attempt = fence.values([now.wall.into(), outcome.into(), status.into(), why.as_str().into()]);
    if execute(tx, &sql::RECORD_ATTEMPT, attempt).await? == 0 {
        return Ok(Fenced::LeaseLost);
    }
    let delivery = fence.values([now.wall.into(), state.into(), pause.into(), why.as_str().into()]);
    execute(tx, &sql::END_ATTEMPT, sql::END_ATTEMPT.with(delivery, now.steady)).await.map(fenced)
}

/// Lets a worker keep a delivery for `lease` from now, and says until when by steady time; none when it was lost.
pub(crate) async fn extend<P: Pool>(
    pool: &P,
    fence: Fence,
    lease: Duration,
    now: At,
) -> Result<Option<UnixMillis>, StoreError> {
    let mut tx = pool.begin().await?;
    let values = fence.values([now.wall.into(), millis(lease).into()]);
    let rows = query(&mut tx, &sql::EXTEND_LEASE, sql::EXTEND_LEASE.with(values, now.steady)).await?;
    commit_or_fail::<P>(tx).await?;
    first(&rows)
}

/// Puts claims back in line without using an attempt: a clean stop, or a circuit that is open for `pause`.
pub(crate) async fn give_back<P: Pool>(
    pool: &P,
    fences: &[Fence],
    pause: Duration,
    now: At,
) -> Result<Vec<Fenced>, StoreError> {
    let mut tx = pool.begin().await?;
    let mut outcomes = Vec::with_capacity(fences.len());
    for fence in fences {
        let values = fence.values([now.wall.into(), millis(pause).into()]);
        let values = sql::GIVE_BACK.with(values, now.steady);
        outcomes.push(fenced(execute(&mut tx, &sql::GIVE_BACK, values).await?));
    }
    commit_or_fail::<P>(tx).await?;
    Ok(outcomes)
}

/// Takes back what is claimed beyond its lease, whoever has it, at most 500.
pub(crate) async fn expire<T: Transaction>(tx: &mut T, now: At) -> Result<Vec<Expired>, StoreError> {
    let error = "the lease ended without an answer";
    let values = vec![now.wall.into(), SLICE.into(), error.into()];
    let rows = query(tx, &sql::EXPIRE_LEASES, sql::EXPIRE_LEASES.with(values, now.steady)).await?;
    record_lost(tx, &rows, error, now.wall).await
}

/// Writes down the attempts that were lost with these deliveries, which were taken back.
pub(crate) async fn record_lost<T: Transaction>(
    tx: &mut T,
    rows: &[Row],
    error: &str,
    now: UnixMillis,
) -> Result<Vec<Expired>, StoreError> {
    let mut expired = Vec::with_capacity(rows.len());
    for row in rows {
        let (node, started) = (row.optional_key::<NodeKind>(5)?.into(), row.optional_int(6)?.into());
        let delivery: DeliveryKey = row.key(0)?;
        let values = vec![delivery.into(), row.int(4)?.into(), node, started, now.into(), error.into()];
        let used = row.text(9)? == error;
        if used {
            execute(tx, &sql::LOST_ATTEMPT, values).await?;
        }
        expired.push(Expired {
            delivery,
            key: row.key(1)?,
            handler: row.text(2)?,
            // An event is never removed before its deliveries; its line in the log is no reason to fail.
            source: row.optional_text(7)?.unwrap_or_default(),
            event_id: row.optional_text(8)?.unwrap_or_default(),
            attempt: count(row.int(4)?),
            dead: row.text(3)? == "dead",
            used,
        });
    }
    Ok(expired)
}

/// What fits into the bytes; the rest is put back. On Postgres the claim itself says which that is.
async fn without_excess<T: Transaction>(tx: &mut T, mut rows: Vec<Row>) -> Result<Vec<Row>, StoreError> {
    // RETURNING has an order of its own.
    rows.sort_by_key(|row| (row.int(7).unwrap_or(0), row.key::<EventKind>(2).ok()));
    let (mut fitting, mut bytes) = (Vec::with_capacity(rows.len()), 0);
    for mut row in rows {
        let is_dead = row.text(4)? == "dead";
        let fits = match tx.dialect() {
            Dialect::Sqlite => is_dead || bytes < CLAIMED_BYTES_MAX,
            Dialect::Postgres => row.int(17)? != 0,
        };
        if !fits {
            let fence = Fence { delivery: row.key(0)?, token: row.key(1)? };
            execute(tx, &sql::UNCLAIM_ONE, fence.values([])).await?;
            continue;
        }
        if tx.dialect() == Dialect::Sqlite {
            add_event(tx, &mut row).await?;
        }
        if let (false, Some(Value::Bytes(body))) = (is_dead, row.0.get(16)) {
            bytes += body.len();
        }
        fitting.push(row);
    }
    Ok(fitting)
}

/// The columns of the event behind those of the claim, which is as far as SQLite's RETURNING goes.
async fn add_event<T: Transaction>(tx: &mut T, row: &mut Row) -> Result<(), StoreError> {
    let key: EventKey = row.key(2)?;
    let event = query(tx, &sql::CLAIMED_EVENT, vec![key.into()]).await?;
    let event = event.into_iter().next().ok_or(StoreError::Corrupt { what: "delivery without event" })?;
    row.0.extend(event.0);
    Ok(())
}
