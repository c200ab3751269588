//! Claiming deliveries and ending them over an application's own pool, by the same statements as our own workers.
//!
//! A claim is a short transaction that counts the attempt; every write after it is fenced by the claim's token.

use std::time::Duration;

use super::{
    At, Buried, Claim, Claimed, Dialect, Fence, Fenced, Pool, Row, StoreError, Transaction, Value, commit_or_fail,
    execute, execute_at, fenced, is_open, kept, millis, query, query_at, read_claim, sql,
};
use crate::clock::UnixMillis;
use crate::delivery::Next;
use crate::event::EventKey;
use crate::retry::RetryPolicy;

/// Leases ended in one transaction.
const SLICE: i64 = 500;

/// What a claim brought.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    pub(crate) claimed: Vec<Claimed>,
    pub(crate) buried: Vec<Buried>,
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

/// Claims what is due for a handler, oldest first.
pub(crate) async fn claim<P: Pool>(
    pool: &P,
    handler: &str,
    most: usize,
    lease: Duration,
    now: At,
) -> Result<Claims, StoreError> {
    let mut tx = pool.begin().await?;
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let mut values = vec![handler.into(), most.into(), millis(lease).into(), Value::Null];
    values.extend(match P::Tx::DIALECT {
        Dialect::Sqlite => vec![now.wall.into(), now.steady.unwrap_or(now.wall).into()],
        Dialect::Postgres => vec![now.steady.into()],
    });
    let mut rows = query(&mut tx, &sql::CLAIM, values).await?;
    if P::Tx::DIALECT == Dialect::Sqlite {
        add_events(&mut tx, &mut rows).await?;
    }
    let mut claims = Claims::default();
    for row in rows {
        match read_claim(&row)? {
            Claim::Claimed(claimed) => claims.claimed.push(claimed),
            Claim::Buried(buried) => claims.buried.push(buried),
            Claim::Empty(fence, buried) => {
                fail(&mut tx, fence, Next::Dead, "the payload is gone", now).await?;
                claims.buried.push(buried);
            }
        }
    }
    commit_or_fail::<P>(tx).await?;
    Ok(claims)
}

/// Marks a delivery done together with whatever else this marked transaction writes.
pub(crate) async fn finish<T: Transaction>(tx: &mut T, fence: Fence, now: UnixMillis) -> Result<Finished, StoreError> {
    // Asked before, because outside of a transaction the statement would commit by itself.
    if T::DIALECT == Dialect::Sqlite && !is_open(tx).await? {
        return Ok(Finished::Ended);
    }
    match fenced(execute(tx, &sql::FINISH_ONE, fence.values([now.into()])).await?) {
        Fenced::Recorded => Ok(Finished::Recorded),
        Fenced::LeaseLost if T::DIALECT == Dialect::Postgres && !is_open(tx).await? => Ok(Finished::Ended),
        Fenced::LeaseLost => Ok(Finished::LeaseLost),
    }
}

/// Records a failed attempt and what was decided about it.
pub(crate) async fn fail<T: Transaction>(
    tx: &mut T,
    fence: Fence,
    next: Next,
    error: &str,
    now: At,
) -> Result<Fenced, StoreError> {
    let (state, outcome, pause) = match next {
        Next::Retry { after } => ("ready", "failed", Some(millis(after))),
        Next::Dead => ("dead", "dead", None),
        Next::Held => ("held", "held", None),
    };
    let error = kept(error);
    let attempt = fence.values([now.wall.into(), outcome.into(), Value::Null, error.as_str().into()]);
    if execute(tx, &sql::RECORD_ATTEMPT, attempt).await? == 0 {
        return Ok(Fenced::LeaseLost);
    }
    let delivery = fence.values([now.wall.into(), state.into(), pause.into(), error.as_str().into()]);
    execute_at(tx, &sql::END_ATTEMPT, delivery, now).await.map(fenced)
}

/// Lets a worker keep a delivery for `lease` from now.
pub(crate) async fn extend<P: Pool>(pool: &P, fence: Fence, lease: Duration, now: At) -> Result<Fenced, StoreError> {
    let mut tx = pool.begin().await?;
    let values = fence.values([now.wall.into(), millis(lease).into()]);
    let rows = query_at(&mut tx, &sql::EXTEND_LEASE, values, now).await?;
    commit_or_fail::<P>(tx).await?;
    Ok(if rows.is_empty() { Fenced::LeaseLost } else { Fenced::Recorded })
}

/// Puts a claim back in line without using an attempt.
pub(crate) async fn give_back<P: Pool>(pool: &P, fence: Fence, now: At) -> Result<Fenced, StoreError> {
    let mut tx = pool.begin().await?;
    let rows = execute_at(&mut tx, &sql::GIVE_BACK, fence.values([now.wall.into(), Value::Int(0)]), now).await?;
    commit_or_fail::<P>(tx).await?;
    Ok(fenced(rows))
}

/// Takes back what is claimed beyond its lease, whoever has it, and says how many that were.
pub(crate) async fn expire<P: Pool>(pool: &P, now: At) -> Result<usize, StoreError> {
    let mut tx = pool.begin().await?;
    let error = "the lease ended without an answer";
    let values = vec![now.wall.into(), SLICE.into(), error.into()];
    let rows = query_at(&mut tx, &sql::EXPIRE_LEASES, values, now).await?;
    for row in &rows {
        let (node, started) = (row.optional_key(5)?.into(), row.optional_int(6)?.into());
        let values = vec![row.key(0)?.into(), row.int(4)?.into(), node, started, now.wall.into(), error.into()];
        execute(&mut tx, &sql::LOST_ATTEMPT, values).await?;
    }
    commit_or_fail::<P>(tx).await?;
    Ok(rows.len())
}

/// The columns of the event behind those of the claim, which is as far as SQLite's RETURNING goes.
async fn add_events<T: Transaction>(tx: &mut T, rows: &mut [Row]) -> Result<(), StoreError> {
    for row in rows.iter_mut() {
        let key: EventKey = row.key(2)?;
        let event = query(tx, &sql::CLAIMED_EVENT, vec![key.into()]).await?;
        let event = event.into_iter().next().ok_or(StoreError::Corrupt { what: "delivery without event" })?;
        row.0.extend(event.0);
    }
    // RETURNING has an order of its own.
    rows.sort_by_key(|row| (row.int(7).unwrap_or(0), row.key(2).ok()));
    Ok(())
}
