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
