//! Migrations on Postgres: the schema's own table is the lock, so no advisory lock and no session state is needed.

use super::postgres::{Database, Tx};
use super::sql::postgres as sql;
use super::{Commit, StoreError};
use crate::adapter::migrations::{POSTGRES, pending};

/// Two nodes may create the schema at the same instant; the loser tries again and finds it there.
const TRIES: usize = 5;

impl Database {
    pub(super) async fn migrate(&self) -> Result<usize, StoreError> {
        if self.is_up_to_date().await? {
            return Ok(0);
        }
        let mut outcome = self.try_migrate().await;
        for _ in 1..TRIES {
            match outcome {
                Err(StoreError::Refused(_) | StoreError::Busy(_)) => outcome = self.try_migrate().await,
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

    async fn try_migrate(&self) -> Result<usize, StoreError> {
        let mut tx = self.begin().await?;
        tx.step(async |client| client.batch_execute(sql::CREATE_MIGRATIONS).await).await?;
        tx.step(async |client| client.batch_execute(sql::LOCK_MIGRATIONS).await).await?;
        let steps = pending(POSTGRES, &applied(&mut tx).await?)?;
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

async fn applied(tx: &mut Tx) -> Result<Vec<(i64, String)>, StoreError> {
    tx.step(async |client| {
        let rows = client.query(sql::APPLIED_MIGRATIONS, &[]).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    })
    .await
}
