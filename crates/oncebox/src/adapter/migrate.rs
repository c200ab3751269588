//! Bringing the schema up to date over an application's own pool.

use super::migrations::{Applied, Migration, POSTGRES, SQLITE, pending};
use super::{Dialect, Pool, StoreError, Transaction, commit_or_fail, execute, query, sql};

/// Two processes may create the schema at the same instant; the loser tries again and finds it there.
const TRIES: usize = 5;

/// Brings the schema up to date over an application's own pool, and says how many steps that took.
///
/// Only looks when there is nothing to do, so that a role that may not create anything can call it too.
pub async fn migrate<P: Pool>(pool: &P) -> Result<usize, StoreError> {
    if is_up_to_date(pool, known(P::Tx::DIALECT)).await? {
        return Ok(0);
    }
    let mut outcome = try_migrate(pool).await;
    for _ in 1..TRIES {
        match outcome {
            Err(StoreError::Refused(_) | StoreError::Busy(_)) => outcome = try_migrate(pool).await,
            _ => break,
        }
    }
    outcome
}

fn known(dialect: Dialect) -> &'static [Migration] {
    match dialect {
        Dialect::Postgres => POSTGRES,
        Dialect::Sqlite => SQLITE,
    }
}

async fn is_up_to_date<P: Pool>(pool: &P, known: &[Migration]) -> Result<bool, StoreError> {
    let mut tx = pool.begin().await?;
    let there = query(&mut tx, &sql::HAS_MIGRATIONS, Vec::new()).await?;
    let there = there.first().map(|row| row.int(0)).transpose()?.is_some_and(|count| count > 0);
    Ok(there && pending(known, &applied(&mut tx).await?)?.is_empty())
}

async fn try_migrate<P: Pool>(pool: &P) -> Result<usize, StoreError> {
    let mut tx = pool.begin().await?;
    let steps = run_pending(&mut tx).await?;
    commit_or_fail::<P>(tx).await.map(|()| steps)
}

/// Runs what is still to run, in the caller's transaction.
pub(super) async fn run_pending<T: Transaction>(tx: &mut T) -> Result<usize, StoreError> {
    tx.batch(sql::CREATE_MIGRATIONS.in_dialect(T::DIALECT)).await?;
    if T::DIALECT == Dialect::Postgres {
        tx.batch(sql::LOCK_MIGRATIONS).await?;
        tx.batch(sql::MIGRATE_POLITELY).await?;
    }
    let steps = pending(known(T::DIALECT), &applied(tx).await?)?;
    for step in &steps {
        tx.batch(step.sql).await?;
        let values = vec![step.version.into(), step.name.into(), step.checksum().as_str().into()];
        execute(tx, &sql::RECORD_MIGRATION, values).await?;
    }
    Ok(steps.len())
}

async fn applied<T: Transaction>(tx: &mut T) -> Result<Vec<Applied>, StoreError> {
    let rows = query(tx, &sql::APPLIED_MIGRATIONS, Vec::new()).await?;
    rows.iter().map(|row| Ok(Applied { version: row.int(0)?, checksum: row.text(1)?, floor: row.int(2)? })).collect()
}
