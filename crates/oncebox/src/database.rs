//! The seam to a database: run a statement with a few kinds of values inside a transaction that somebody else opened.
//!
//! Applications that embed the library hand in their own transaction, whatever driver it belongs to. Every verb is
//! written once above this seam, with the same statements that our own store runs; a driver says only how values and
//! rows travel. Each driver is a feature of its own, and none of their types stands in a name outside its module.

pub(crate) mod driver;
mod error;
mod migrate;
pub(crate) mod migrations;
pub(crate) mod sql;
mod statement;
pub(crate) mod steady;
pub(crate) mod template;
mod value;
pub(crate) mod verb;

#[cfg(feature = "deadpool-postgres")]
pub use driver::deadpool_postgres;
#[cfg(feature = "diesel-async")]
pub use driver::diesel;
#[cfg(feature = "rusqlite")]
pub use driver::rusqlite;
#[cfg(feature = "sqlx-postgres")]
pub use driver::sqlx_postgres;
#[cfg(feature = "sqlx-sqlite")]
pub use driver::sqlx_sqlite;
#[cfg(any(feature = "tokio-postgres", feature = "sqlx-postgres"))]
use error::ReadOnly;
pub use error::StoreError;
pub use migrate::migrate;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) use migrate::{is_true, migrate_with};
pub use statement::Dialect;
pub(crate) use statement::Statement;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) use value::FromRow;
pub(crate) use value::first;
pub use value::{Row, Value};
pub use verb::claimed::{Buried, Claimed, Fence, Fenced};
pub(crate) use verb::claimed::{Claim, count, fenced, kept, millis, read_claim};
pub use verb::deliveries::{Expired, Failure};
pub(crate) use verb::marked::{ENDED, is_open};
pub(crate) use verb::once::{has_identity, is_remembered, remember};
pub(crate) use verb::steps::{record_step, step_result};

use crate::clock::UnixMillis;

pub(crate) mod sealed {
    /// Implemented by what implements [`Transaction`](super::Transaction), and by nothing outside.
    pub trait Sealed {}
}

/// An open transaction of an application: what is written through it is there together, or not at all.
///
/// Only types that are a transaction implement it, so that a mark cannot be committed before the work it stands for; it is
/// sealed, because a driver more is a module more here.
pub trait Transaction: sealed::Sealed {
    /// Whose SQL it understands.
    fn dialect(&self) -> Dialect;

    /// Runs a statement and gives its rows.
    fn query(&mut self, sql: &str, values: Vec<Value>) -> impl Future<Output = Result<Vec<Row>, StoreError>> + Send;

    /// Runs a statement and says how many rows it touched.
    fn execute(&mut self, sql: &str, values: Vec<Value>) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// Runs several statements that bind nothing.
    fn batch(&mut self, sql: &str) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Where an application's transactions come from. Cheap to clone.
pub trait Pool: Clone + Send + Sync + 'static {
    /// A transaction; dropping it rolls back.
    type Tx: Transaction + Send + 'static;

    /// Opens a write transaction. A future that is dropped meanwhile leaves none open.
    fn begin(&self) -> impl Future<Output = Result<Self::Tx, StoreError>> + Send;

    /// The same, with a mark by which work that ended the transaction is found out. Drivers say it in one message.
    fn begin_marked(&self) -> impl Future<Output = Result<Self::Tx, StoreError>> + Send {
        async {
            let mut tx = self.begin().await?;
            verb::marked::mark(&mut tx).await?;
            Ok(tx)
        }
    }

    /// Ends a transaction. Only [`Commit::Committed`] may be acknowledged.
    fn commit(tx: Self::Tx) -> impl Future<Output = Commit> + Send;
}

/// What became of a transaction.
#[derive(Debug)]
pub enum Commit {
    /// It is on disk.
    Committed,
    /// It is certainly not there.
    Failed(StoreError),
    /// Nobody knows: the connection was lost, or the flush failed, while the commit was under way.
    Unknown(StoreError),
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl Commit {
    pub(crate) fn from_fault(injected: crate::fault::Injected) -> Self {
        match injected {
            crate::fault::Injected::Fail => Self::Failed(injected.into()),
            crate::fault::Injected::Unknown => Self::Unknown(injected.into()),
        }
    }
}

/// The rows of a statement of ours.
async fn query<T: Transaction>(tx: &mut T, text: &Statement, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
    tx.query(text.in_dialect(tx.dialect()), values).await
}

/// How many rows a statement of ours touched.
async fn execute<T: Transaction>(tx: &mut T, text: &Statement, values: Vec<Value>) -> Result<u64, StoreError> {
    tx.execute(text.in_dialect(tx.dialect()), values).await
}

/// The time as a process tells it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) wall: UnixMillis,
    /// As leases and due times tell it; none where this process does not keep it.
    pub(crate) steady: Option<UnixMillis>,
}

/// Commits, for callers to whom every other answer is an error.
pub(crate) async fn commit_or_fail<P: Pool>(tx: P::Tx) -> Result<(), StoreError> {
    match P::commit(tx).await {
        Commit::Committed => Ok(()),
        Commit::Failed(error) | Commit::Unknown(error) => Err(error),
    }
}

/// By Postgres's codes: what a caller can do about an error.
#[cfg(any(feature = "tokio-postgres", feature = "sqlx-postgres"))]
pub(crate) fn classify_postgres(code: Option<&str>, error: impl Into<BoxError>) -> StoreError {
    let Some(code) = code else { return StoreError::Disconnected(error.into()) };
    // Serialization failure, deadlock, lock not available, query cancelled.
    if ["40001", "40P01", "55P03", "57014"].contains(&code) {
        return StoreError::Busy(error.into());
    }
    // A standby; or somebody made the transaction so.
    if code == "25006" {
        return StoreError::Disconnected(Box::new(ReadOnly(error.into())));
    }
    // 08 connection, 53 out of resources, 57 operator intervention, 58 system error.
    if ["08", "53", "57", "58"].iter().any(|class| code.starts_with(class)) {
        return StoreError::Disconnected(error.into());
    }
    StoreError::Refused(error.into())
}

/// A server that answers COMMIT with an error did not commit, unless it was being shut down at that moment.
#[cfg(any(feature = "deadpool-postgres", feature = "sqlx-postgres"))]
pub(crate) fn refused_commit(code: Option<&str>) -> bool {
    code.is_some_and(|code| !code.starts_with("57P"))
}

#[cfg(any(feature = "tokio-postgres", feature = "sqlx-postgres"))]
type BoxError = Box<dyn std::error::Error + Send + Sync>;
