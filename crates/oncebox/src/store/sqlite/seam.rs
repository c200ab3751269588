//! Our own transactions behind the seam that applications' transactions stand behind, for what is written once for both.

use crate::database::{Pool, Transaction};
use crate::store::sqlite::{Database, Tx, classify};
use crate::store::{Commit, Dialect, Row, StoreError, Value};

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
    const DIALECT: Dialect = Dialect::Sqlite;

    async fn query(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        Self::query(self, sql, values).await
    }

    async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        Self::execute(self, sql, values).await
    }

    async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        let sql = sql.to_owned();
        self.run(move |connection| connection.execute_batch(&sql).map_err(classify)).await
    }
}
