//! A mark on a transaction that ends with it. Work has the transaction in its hands, and a `commit` or `rollback` of its own
//! would split its effect from what we write with it: then the mark is gone, whatever was begun since.
//!
//! On Postgres it is a setting local to the transaction, on SQLite a savepoint. Savepoints of the work do not touch it.

use crate::database::{Dialect, StoreError, Transaction, sql};

/// What is said about work that ended its transaction. It is not tried again: what it committed would be there twice.
pub(crate) const ENDED: &str = "the work ended its transaction (commit or rollback), so its writes and the mark are not one; \
                                take that out, look whether the writes are there, and replay it if they are not";

pub(crate) async fn mark<T: Transaction>(tx: &mut T) -> Result<(), StoreError> {
    tx.batch(sql::MARK.in_dialect(tx.dialect())).await
}

/// Whether the marked transaction is still the one that is open. Ask once: on SQLite asking takes the mark away.
pub(crate) async fn is_open<T: Transaction>(tx: &mut T) -> Result<bool, StoreError> {
    if tx.dialect() == Dialect::Postgres {
        return Ok(!tx.query(sql::IS_MARKED, Vec::new()).await?.is_empty());
    }
    match tx.batch(sql::RELEASE_MARK).await {
        Err(StoreError::Refused(_)) => {
            // The driver rolls back what it believes to be open; sqlx keeps a connection in a transaction where that fails.
            let _ = tx.batch("BEGIN").await;
            Ok(false)
        }
        released => released.map(|()| true),
    }
}
