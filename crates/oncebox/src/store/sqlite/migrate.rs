//! Migrations on SQLite: all in one immediate transaction, so that a second process waits at the door.

use rusqlite::{Connection, params};

use crate::adapter::migrations::{Applied, Migration, SQLITE, pending};
use crate::fault::Faults;
use crate::store::sql::sqlite as sql;
use crate::store::sqlite::{self, Database, classify};
use crate::store::{Commit, StoreError};

impl Database {
    pub(in crate::store) async fn migrate(&self, faults: &Faults) -> Result<usize, StoreError> {
        let mut tx: sqlite::Tx = self.begin().await?;
        let steps = tx.run(|connection| pending(SQLITE, &applied(connection)?)).await?;
        let count = steps.len();
        for step in steps {
            faults.at("migrate.step").await?;
            tx.run(move |connection| apply(connection, step)).await?;
        }
        faults.at("migrate.commit").await?;
        match tx.commit().await {
            Commit::Committed => {}
            Commit::Failed(error) | Commit::Unknown(error) => return Err(error),
        }
        faults.at("migrate.committed").await?;
        Ok(count)
    }
}

fn applied(connection: &Connection) -> Result<Vec<Applied>, StoreError> {
    connection.execute_batch(sql::CREATE_MIGRATIONS).map_err(classify)?;
    let mut statement = connection.prepare(sql::APPLIED_MIGRATIONS).map_err(classify)?;
    let read =
        |row: &rusqlite::Row<'_>| Ok(Applied { version: row.get(0)?, checksum: row.get(1)?, floor: row.get(2)? });
    let rows = statement.query_map([], read).map_err(classify)?;
    rows.collect::<Result<_, _>>().map_err(classify)
}

fn apply(connection: &Connection, step: &Migration) -> Result<(), StoreError> {
    connection.execute_batch(step.sql).map_err(classify)?;
    let record = params![step.version, step.name, step.checksum()];
    connection.execute(sql::RECORD_MIGRATION, record).map(drop).map_err(classify)
}
