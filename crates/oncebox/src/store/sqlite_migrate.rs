//! Migrations on SQLite: all in one immediate transaction, so that a second process waits at the door.

use rusqlite::{Connection, params};

use super::StoreError;
use super::sql::sqlite as sql;
use super::sqlite::{Database, classify};
use super::{Commit, sqlite};
use crate::adapter::migrations::{SQLITE, pending};

impl Database {
    pub(super) async fn migrate(&self) -> Result<usize, StoreError> {
        let mut tx: sqlite::Tx = self.begin().await?;
        let steps = tx.run(apply).await?;
        match tx.commit().await {
            Commit::Committed => Ok(steps),
            Commit::Failed(error) | Commit::Unknown(error) => Err(error),
        }
    }
}

fn apply(connection: &Connection) -> Result<usize, StoreError> {
    connection.execute_batch(sql::CREATE_MIGRATIONS).map_err(classify)?;
    let applied = {
        let mut statement = connection.prepare(sql::APPLIED_MIGRATIONS).map_err(classify)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(classify)?;
        rows.collect::<Result<Vec<(i64, String)>, _>>().map_err(classify)?
    };
    let steps = pending(SQLITE, &applied)?;
    for step in &steps {
        connection.execute_batch(step.sql).map_err(classify)?;
        connection
            .execute(sql::RECORD_MIGRATION, params![step.version, step.name, step.checksum()])
            .map_err(classify)?;
    }
    Ok(steps.len())
}
