//! Migrations on Postgres: the schema's own table is the lock, so no advisory lock and no session state is needed.

use std::time::Duration;

use crate::adapter::migrations::{Applied, POSTGRES, pending};
use crate::fault::Faults;
use crate::store::postgres::{Database, Tx};
use crate::store::sql::postgres as sql;
use crate::store::{Commit, StoreError};

/// Two nodes may create the schema at the same instant, and a lock may be held by somebody else for a while; the loser
/// tries again.
const TRIES: usize = 5;
/// How long a step may take: a large table takes its time. Whoever waits for another node's steps waits as long.
const STEP_WAIT: Duration = Duration::from_secs(6 * 60 * 60);

impl Database {
    pub(in crate::store) async fn migrate(&self, faults: &Faults) -> Result<usize, StoreError> {
        if self.is_up_to_date().await? {
            return Ok(0);
        }
        let mut outcome = self.try_migrate(faults).await;
        for _ in 1..TRIES {
            match outcome {
                Err(StoreError::Refused(_) | StoreError::Busy(_)) => outcome = self.try_migrate(faults).await,
                _ => break,
            }
        }
        outcome
    }

    /// Only reads, so that a server whose role may not create anything can start on a finished schema.
    async fn is_up_to_date(&self) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let there: bool = tx.step(async |client| client.query_one(sql::HAS_MIGRATIONS, &[]).await?.try_get(0)).await?;
        let up_to_date = there && pending(POSTGRES, &applied(&mut tx).await?)?.is_empty();
        tx.rollback().await;
        Ok(up_to_date)
    }

    async fn try_migrate(&self, faults: &Faults) -> Result<usize, StoreError> {
        let mut tx = self.begin().await?;
        run(&mut tx, sql::CREATE_MIGRATIONS).await?;
        run(&mut tx, "SET LOCAL statement_timeout = 0").await?;
        run(&mut tx, sql::LOCK_MIGRATIONS).await?;
        run(&mut tx, sql::MIGRATE_POLITELY).await?;
        let steps = pending(POSTGRES, &applied(&mut tx).await?)?;
        for step in &steps {
            faults.at("migrate.step").await?;
            run(&mut tx, step.sql).await?;
            let checksum = step.checksum();
            tx.step(async |client| {
                client.execute(sql::RECORD_MIGRATION, &[&step.version, &step.name, &checksum]).await
            })
            .await?;
        }
        faults.at("migrate.commit").await?;
        match tx.commit().await {
            Commit::Committed => {}
            Commit::Failed(error) | Commit::Unknown(error) => return Err(error),
        }
        faults.at("migrate.committed").await?;
        Ok(steps.len())
    }
}

async fn run(tx: &mut Tx, sql: &str) -> Result<(), StoreError> {
    tx.step_within(STEP_WAIT, async |client| client.batch_execute(sql).await).await
}

async fn applied(tx: &mut Tx) -> Result<Vec<Applied>, StoreError> {
    tx.step(async |client| {
        let rows = client.query(sql::APPLIED_MIGRATIONS, &[]).await?;
        let read = |row: &tokio_postgres::Row| {
            Ok(Applied { version: row.try_get(0)?, checksum: row.try_get(1)?, floor: row.try_get(2)? })
        };
        rows.iter().map(read).collect()
    })
    .await
}
