//! Forward-only migrations, embedded. One node at a time runs them, each in a transaction with its own record, so a
//! kill at any point leaves either the old schema or the new one.

use super::{Dialect, Pool, StoreError, Transaction, commit_or_fail, execute, query, sql};
use crate::event::sha256;

/// Two processes may create the schema at the same instant; the loser tries again and finds it there.
const TRIES: usize = 5;

/// A step of the schema.
pub(crate) struct Migration {
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

impl Migration {
    /// Tells whether a step was edited after it was applied.
    pub(crate) fn checksum(&self) -> String {
        data_encoding::HEXLOWER.encode(&sha256(self.sql.as_bytes()))
    }
}

pub(crate) const SQLITE: &[Migration] = &[
    Migration { version: 1, name: "initial", sql: include_str!("../../sql/migrations/sqlite/0001_initial.sql") },
    Migration { version: 2, name: "processing", sql: include_str!("../../sql/migrations/sqlite/0002_processing.sql") },
    Migration {
        version: 3,
        name: "arrived_secrets",
        sql: include_str!("../../sql/migrations/sqlite/0003_arrived_secrets.sql"),
    },
    Migration { version: 5, name: "remembered", sql: include_str!("../../sql/migrations/sqlite/0005_remembered.sql") },
    Migration { version: 6, name: "steps", sql: include_str!("../../sql/migrations/sqlite/0006_steps.sql") },
];

pub(crate) const POSTGRES: &[Migration] = &[
    Migration { version: 1, name: "initial", sql: include_str!("../../sql/migrations/postgres/0001_initial.sql") },
    Migration {
        version: 2,
        name: "processing",
        sql: include_str!("../../sql/migrations/postgres/0002_processing.sql"),
    },
    Migration {
        version: 3,
        name: "arrived_secrets",
        sql: include_str!("../../sql/migrations/postgres/0003_arrived_secrets.sql"),
    },
    Migration {
        version: 5,
        name: "remembered",
        sql: include_str!("../../sql/migrations/postgres/0005_remembered.sql"),
    },
    Migration { version: 6, name: "steps", sql: include_str!("../../sql/migrations/postgres/0006_steps.sql") },
];

/// The steps still to run, given what was applied. Steps that we do not know belong to a newer version of ours running
/// beside us, and are left alone.
pub(crate) fn pending<'m>(known: &'m [Migration], applied: &[(i64, String)]) -> Result<Vec<&'m Migration>, StoreError> {
    let mut pending = Vec::new();
    for step in known {
        match applied.iter().find(|(version, _)| *version == step.version) {
            None => pending.push(step),
            Some((_, checksum)) if *checksum == step.checksum() => {}
            Some(_) => {
                let (version, name) = (step.version, step.name);
                return Err(StoreError::Schema(format!(
                    "migration {version} ({name}) was applied from another text; this database belongs to another build"
                )));
            }
        }
    }
    Ok(pending)
}

/// Brings the schema up to date over an application's own pool, and says how many steps that took.
///
/// Only looks when there is nothing to do, so that a role that may not create anything can call it too.
pub async fn migrate<P: Pool>(pool: &P) -> Result<usize, StoreError> {
    let known = known(P::Tx::DIALECT);
    if is_up_to_date(pool, known).await? {
        return Ok(0);
    }
    let mut outcome = try_migrate(pool, known).await;
    for _ in 1..TRIES {
        match outcome {
            Err(StoreError::Refused(_) | StoreError::Busy(_)) => outcome = try_migrate(pool, known).await,
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

async fn try_migrate<P: Pool>(pool: &P, known: &[Migration]) -> Result<usize, StoreError> {
    let mut tx = pool.begin().await?;
    tx.batch(sql::CREATE_MIGRATIONS.in_dialect(P::Tx::DIALECT)).await?;
    if P::Tx::DIALECT == Dialect::Postgres {
        tx.batch(sql::LOCK_MIGRATIONS).await?;
    }
    let steps = pending(known, &applied(&mut tx).await?)?;
    for step in &steps {
        tx.batch(step.sql).await?;
        let values = vec![step.version.into(), step.name.into(), step.checksum().as_str().into()];
        execute(&mut tx, &sql::RECORD_MIGRATION, values).await?;
    }
    let steps = steps.len();
    commit_or_fail::<P>(tx).await.map(|()| steps)
}

async fn applied<T: Transaction>(tx: &mut T) -> Result<Vec<(i64, String)>, StoreError> {
    let rows = query(tx, &sql::APPLIED_MIGRATIONS, Vec::new()).await?;
    rows.iter().map(|row| Ok((row.int(0)?, row.text(1)?))).collect()
}
