//! Migrations on Postgres: the schema's own table is the lock, so no advisory lock and no session state is needed.

use super::migrations::{POSTGRES, pending};
use super::postgres::Database;
use super::sql::postgres as sql;
use super::{Commit, StoreError};

/// Two nodes may create the schema at the same instant; the loser tries again and finds it there.
const TRIES: usize = 5;

impl Database {
    pub(super) async fn migrate(&self) -> Result<usize, StoreError> {
        let mut outcome = self.try_migrate().await;
        for _ in 1..TRIES {
            match outcome {
                Err(StoreError::Refused(_) | StoreError::Busy(_)) => outcome = self.try_migrate().await,
                _ => break,
            }
        }
        outcome
    }

    async fn try_migrate(&self) -> Result<usize, StoreError> {
        let mut tx = self.begin().await?;
        tx.step(async |client| client.batch_execute(sql::CREATE_MIGRATIONS).await).await?;
        tx.step(async |client| client.batch_execute(sql::LOCK_MIGRATIONS).await).await?;
        let applied = tx
            .step(async |client| {
                let rows = client.query(sql::APPLIED_MIGRATIONS, &[]).await?;
                rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<Vec<_>, _>>()
            })
            .await?;
        let steps = pending(POSTGRES, &applied)?;
        for step in &steps {
            tx.step(async |client| client.batch_execute(step.sql).await).await?;
            let checksum = step.checksum();
            tx.step(async |client| {
                client.execute(sql::RECORD_MIGRATION, &[&step.version, &step.name, &checksum]).await
            })
            .await?;
        }
        match tx.commit().await {
            Commit::Committed => Ok(steps.len()),
            Commit::Failed(error) | Commit::Unknown(error) => Err(error),
        }
    }
}
