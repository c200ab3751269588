//! One file per driver: how values and rows travel, and nothing else.

#[cfg(feature = "deadpool-postgres")]
pub mod deadpool_postgres;
#[cfg(feature = "diesel-async")]
pub mod diesel;
#[cfg(feature = "rusqlite")]
pub mod rusqlite;
#[cfg(feature = "rusqlite")]
mod rusqlite_thread;
#[cfg(feature = "sqlx-postgres")]
pub mod sqlx_postgres;
#[cfg(feature = "sqlx-sqlite")]
pub mod sqlx_sqlite;
#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-sqlite"))]
mod sqlx_transaction;
#[cfg(feature = "tokio-postgres")]
pub(crate) mod tokio_postgres;

/// A type that holds a transaction is one, and can be used as the connection that it is.
#[cfg(any(feature = "diesel-async", feature = "sqlx-postgres", feature = "sqlx-sqlite"))]
macro_rules! held_transaction {
    ($connection:ty, $dialect:expr, |$tx:ident| $held:expr) => {
        impl crate::database::sealed::Sealed for Tx {}

        impl Transaction for Tx {
            fn dialect(&self) -> Dialect {
                $dialect
            }

            async fn query(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
                let $tx = self;
                Transaction::query($held, sql, values).await
            }

            async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
                let $tx = self;
                Transaction::execute($held, sql, values).await
            }

            async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
                let $tx = self;
                Transaction::batch($held, sql).await
            }
        }

        impl std::ops::Deref for Tx {
            type Target = $connection;

            fn deref(&self) -> &$connection {
                &self.0
            }
        }

        impl std::ops::DerefMut for Tx {
            fn deref_mut(&mut self) -> &mut $connection {
                &mut self.0
            }
        }
    };
}

#[cfg(any(feature = "diesel-async", feature = "sqlx-postgres", feature = "sqlx-sqlite"))]
use held_transaction;
