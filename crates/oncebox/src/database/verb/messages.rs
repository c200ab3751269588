//! Outbox messages, written in the caller's transaction by the same function or view that SQL uses.

use crate::database::{Dialect, StoreError, Transaction, Value, execute, query, sql};

/// Writes a message: destination, body, delivery, step, path, method, headers, key, order key.
pub(crate) async fn send<T: Transaction>(tx: &mut T, values: [Value; 9]) -> Result<(), StoreError> {
    match tx.dialect() {
        Dialect::Postgres => query(tx, &sql::SEND, values.into()).await.map(drop),
        Dialect::Sqlite => execute(tx, &sql::SEND, values.into()).await.map(drop),
    }
}
