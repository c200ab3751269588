//! Bringing the schema up to date: one runner, for our own store and over an application's own pool.
//!
//! All steps run in one transaction with their records, so a kill at any point leaves either the old schema or the new one.
//! One node at a time: on Postgres the schema's own table is the lock, so no advisory lock and no session state is needed;
//! on SQLite a second process waits at the door of the write transaction.

use super::migrations::{Applied, Recorded, Repeated, Schema, SchemaFile, checksum, pending};
use super::{Dialect, Pool, Row, StoreError, Transaction, Value, commit_or_fail, execute, query, sql};
use crate::fault::Faults;

/// Two processes may create the schema at the same instant, and a lock may be held by somebody else for a while; the loser
/// tries again.
const TRIES: usize = 5;

/// Brings the schema up to date over an application's own pool, and says how many steps that took.
///
/// Only looks when there is nothing to do, so that a role that may not create anything can call it too.
///
/// ```
/// use oncebox::database::{Pool, StoreError, migrate};
///
/// async fn set_up<P: Pool>(pool: &P) -> Result<(), StoreError> {
///     let steps = migrate(pool).await?;
///     println!("{steps} migrations applied");
///     Ok(())
/// }
/// ```
pub async fn migrate<P: Pool>(pool: &P) -> Result<usize, StoreError> {
    migrate_with(pool, &Faults::none()).await
}

/// As [`migrate`], with fault points.
pub(crate) async fn migrate_with<P: Pool>(pool: &P, faults: &Faults) -> Result<usize, StoreError> {
    if is_up_to_date(pool).await? {
        return Ok(0);
    }
    let mut outcome = try_migrate(pool, faults).await;
    for _ in 1..TRIES {
        match outcome {
            Err(StoreError::Refused(_) | StoreError::Busy(_)) => outcome = try_migrate(pool, faults).await,
            _ => break,
        }
    }
    outcome
}

async fn is_up_to_date<P: Pool>(pool: &P) -> Result<bool, StoreError> {
    let mut tx = pool.begin().await?;
    let recorded = recorded(&mut tx).await?;
    let up_to_date = pending(Schema::of(tx.dialect()), &recorded)?.is_empty();
    // There is nothing to commit; a connection whose transaction ended cleanly goes back to its pool.
    let _ = P::commit(tx).await;
    Ok(up_to_date)
}

async fn try_migrate<P: Pool>(pool: &P, faults: &Faults) -> Result<usize, StoreError> {
    let mut tx = pool.begin().await?;
    let steps = run_pending(&mut tx, faults).await?;
    faults.at("migrate.commit").await?;
    commit_or_fail::<P>(tx).await?;
    faults.at("migrate.committed").await?;
    Ok(steps)
}

/// Runs what is still to run, in the caller's transaction.
pub(super) async fn run_pending<T: Transaction>(tx: &mut T, faults: &Faults) -> Result<usize, StoreError> {
    // A schema that cannot be worked with is refused before anything is written.
    let dialect = tx.dialect();
    pending(Schema::of(dialect), &recorded(tx).await?)?;
    tx.batch(sql::CREATE_MIGRATIONS.in_dialect(dialect)).await?;
    if dialect == Dialect::Postgres {
        tx.batch(sql::LOCK_MIGRATIONS).await?;
    }
    let steps = pending(Schema::of(dialect), &recorded(tx).await?)?;
    for step in &steps {
        faults.at("migrate.step").await?;
        let SchemaFile { version, name, sql: text } = *step.file;
        tx.batch(text).await?;
        let sum = Value::Text(checksum(text));
        match step.is_repeatable {
            false => execute(tx, &sql::RECORD_MIGRATION, vec![version.into(), name.into(), sum]).await?,
            true => execute(tx, &sql::RECORD_REPEATABLE, vec![name.into(), version.into(), sum]).await?,
        };
    }
    Ok(steps.len())
}

async fn recorded<T: Transaction>(tx: &mut T) -> Result<Recorded, StoreError> {
    let there = query(tx, &sql::HAS_MIGRATIONS, Vec::new()).await?;
    let (mut migrations, mut repeatables) = (Vec::new(), Vec::new());
    if is_true(&there, 0)? {
        migrations = query(tx, &sql::APPLIED_MIGRATIONS, Vec::new()).await?;
    }
    if is_true(&there, 1)? {
        repeatables = query(tx, &sql::APPLIED_REPEATABLES, Vec::new()).await?;
    }
    Recorded::read(&migrations, &repeatables)
}

pub(crate) fn is_true(rows: &[Row], column: usize) -> Result<bool, StoreError> {
    Ok(rows.first().map(|row| row.int(column)).transpose()?.is_some_and(|value| value != 0))
}

impl Recorded {
    /// From the rows of the statements that ask for them.
    pub(crate) fn read(migrations: &[Row], repeatables: &[Row]) -> Result<Self, StoreError> {
        let applied = |row: &Row| Ok(Applied { version: row.int(0)?, checksum: row.text(1)?, floor: row.int(2)? });
        let repeated = |row: &Row| Ok(Repeated { name: row.text(0)?, version: row.int(1)?, checksum: row.text(2)? });
        Ok(Self {
            migrations: migrations.iter().map(applied).collect::<Result<_, StoreError>>()?,
            repeatables: repeatables.iter().map(repeated).collect::<Result<_, StoreError>>()?,
        })
    }
}
