//! Our own transactions behind the seam that applications' transactions stand behind, for what is written once for both.

use std::time::Duration;

use crate::database::{Pool, Transaction};
use crate::store::postgres::{Database, Tx};
use crate::store::{Commit, Dialect, Row, StoreError, Value};

/// How long several statements may take: a migration of a large table takes its time. Whoever waits for another node's steps
/// waits as long.
const BATCH_WAIT: Duration = Duration::from_secs(6 * 60 * 60);

impl Pool for Database {
    type Tx = Tx;

    async fn begin(&self) -> Result<Tx, StoreError> {
        Self::begin(self).await
    }

    async fn commit(tx: Tx) -> Commit {
        tx.commit().await
    }
}

impl Transaction for Tx {
    const DIALECT: Dialect = Dialect::Postgres;

    async fn query(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        Self::query(self, sql, values).await
    }

    async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        Self::execute(self, sql, values).await
    }

    async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        self.step_within(BATCH_WAIT, async |client| client.batch_execute(sql).await).await
    }
}
