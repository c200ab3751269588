//! deadpool-postgres: transactions that own their connection, so that they can be handed around.
//!
//! A connection goes back to the pool only after a clean commit; one whose transaction was dropped is closed, and the
//! server rolls back.

use std::ops::Deref;

use deadpool_postgres::{ClientWrapper, Object};

use crate::database::driver::tokio_postgres::{as_params, classify, read_row};
use crate::database::{Commit, Dialect, Pool, Row, StoreError, Transaction, Value, refused_commit, sql};

/// An open transaction on a connection of its own; use it as the client that it is.
#[derive(Debug)]
pub struct Tx(Option<Object>);

impl Pool for deadpool_postgres::Pool {
    type Tx = Tx;

    async fn begin(&self) -> Result<Tx, StoreError> {
        begin(self, "BEGIN").await
    }

    async fn begin_marked(&self) -> Result<Tx, StoreError> {
        begin(self, sql::BEGIN_MARKED).await
    }

    async fn commit(mut tx: Tx) -> Commit {
        let client = match tx.client() {
            Ok(client) => client,
            Err(error) => return Commit::Failed(error),
        };
        match client.batch_execute("COMMIT").await {
            Ok(()) => {
                // Back to the pool: the only clean end.
                drop(tx.0.take());
                Commit::Committed
            }
            Err(error) if refused_commit(error.code().map(|code| code.code())) => Commit::Failed(classify(error)),
            Err(error) => Commit::Unknown(classify(error)),
        }
    }
}

async fn begin(pool: &deadpool_postgres::Pool, statement: &str) -> Result<Tx, StoreError> {
    let client = pool.get().await.map_err(|error| StoreError::Disconnected(error.into()))?;
    // Made before BEGIN is sent: whoever drops this future closes the connection.
    let tx = Tx(Some(client));
    tx.client()?.batch_execute(statement).await.map_err(classify)?;
    Ok(tx)
}

impl Tx {
    fn client(&self) -> Result<&Object, StoreError> {
        self.0.as_ref().ok_or_else(|| StoreError::Disconnected("the transaction is over".into()))
    }
}

impl crate::database::sealed::Sealed for Tx {}

impl Transaction for Tx {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn query(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        let client = self.client()?;
        let statement = client.prepare_cached(sql).await.map_err(classify)?;
        let rows = client.query(&statement, &as_params(&values)).await.map_err(classify)?;
        rows.iter().map(read_row).collect()
    }

    async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        let client = self.client()?;
        let statement = client.prepare_cached(sql).await.map_err(classify)?;
        client.execute(&statement, &as_params(&values)).await.map_err(classify)
    }

    async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        self.client()?.batch_execute(sql).await.map_err(classify)
    }
}

impl Deref for Tx {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        self.0.as_ref().expect("a transaction has its connection until it ends")
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            // Out of the pool and closed: the server rolls back whatever was open.
            drop(Object::take(client));
        }
    }
}
