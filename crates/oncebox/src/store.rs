//! Where everything is kept: SQLite or Postgres, one meaning. `tests/it/store_contract.rs` is the definition.
//!
//! The set of databases is closed and ours, so [`Store`] is an enum. The seam is narrow: a transaction runs a statement
//! with a few kinds of values, and its [`Tx::commit`] has three answers. Every verb of the domain is written once
//! above that seam; only batch inserts go to the drivers directly.
//!
//! Methods on [`Store`] open their own transaction; functions that take a [`Tx`] join the caller's.

/// A match over the databases that are compiled in: an arm for each, or one for both.
macro_rules! by_database {
    ($kind:ident, $on:expr, $inner:ident => $both:expr) => {
        by_database!($on, $kind::Sqlite($inner) => $both, $kind::Postgres($inner) => $both)
    };
    ($on:expr, $sqlite:pat => $on_sqlite:expr, $postgres:pat => $on_postgres:expr $(,)?) => {
        match $on {
            #[cfg(feature = "sqlite")]
            $sqlite => $on_sqlite,
            #[cfg(feature = "postgres")]
            $postgres => $on_postgres,
        }
    };
}

mod handling;
mod insert;
mod operate;
mod outbox;
#[cfg(feature = "postgres")]
mod postgres;
mod report;
mod retention;
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;
mod steady;

pub use crate::database::{Commit, Dialect, Row, StoreError, Value};
pub use handling::attempts::{Failure, Fenced};
pub use handling::begun::{BegunClaim, Role};
pub use handling::deliveries::{Buried, Claimed, Claims, Fence, Finished, Want};
pub use handling::effects::{EffectFailed, Failures, RanEach};
pub use handling::handler_sql::{HandlerSql, HandlerSqlError};
pub use handling::handlers::{Asked, Due, HandlerFacts, HandlerRecord, OnDead};
pub use handling::leases::{Chores, Expired, Kin, Nearness, NodeEntry, NodeLock};
pub use handling::order::{Change, Prerequisite, Version};
pub use handling::pull::{PulledClaim, PulledFailure};
pub use insert::arrivals::ArrivalCount;
pub use insert::arrived_secrets::{ARMED_FOR_MS, ArrivedSecret, Kept};
pub use insert::ledger::{Inserted, NewEvent, insert_events};
pub use insert::one_trip::Settled;
pub use operate::action_filter::ActionFilter;
pub use operate::actions::{Action, ActionError, ActionKind, ActionRecord};
pub use operate::alerts::{NodeReport, Told};
pub use operate::conflicts::{CONFLICT_DISCARDED, CONFLICT_RELEASED};
pub use operate::erase::{Erasure, ErasureCount, Subject, SubjectValue};
pub use outbox::leases::{DestinationFacts, ExpiredMessage};
pub use outbox::messages::{ClaimedMessage, MessageClaims, MessageFailure, MessageFence, MessageWant, Sent, SentMarks};
#[cfg(feature = "postgres")]
pub use postgres::Connections;
#[cfg(feature = "postgres")]
pub use postgres::retention::{Exclusive, Partition};
pub use report::deliveries::{AttemptRecord, DeliveryFilter, DeliveryLine, FirstTries};
pub use report::events::{
    ArrivalRecord, DeliveryRecord, EventDetail, EventFilter, EventRecord, PayloadRecord, QueueCount, SourceCount,
    StoreStats,
};
pub use report::inspect::{Depth, Fault, Finding};
pub use report::key_range::{DeadError, Page, Recent, Waiting};
pub use report::messages::{MessageAttempt, MessageDetail, MessageFilter, MessageLine};
pub use report::reconcile::{DoneDelivery, DoneFilter};
pub use retention::log::{LedgerRows, Removed, RetentionRecord, RunRecord, WindowRecord};
pub use retention::{Aged, AgedDelivery, AgedRow, RetentionLock, Trail};
#[cfg(feature = "sqlite")]
pub use sqlite::Access;
#[cfg(feature = "sqlite")]
pub use sqlite::backup::Copied;

use sql::Statement;

use crate::clock::UnixMillis;
use crate::database::steady::Steady;
use crate::database::{At, Pool, Transaction, migrate_with};
use crate::fault::Faults;

/// The database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    database: Database,
    faults: Faults,
    steady: Steady,
}

#[derive(Clone, Debug)]
enum Database {
    #[cfg(feature = "sqlite")]
    Sqlite(sqlite::Database),
    #[cfg(feature = "postgres")]
    Postgres(postgres::Database),
}

/// What a transaction is for: on Postgres each has sessions of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Session {
    /// Whatever has no other.
    Work,
    /// Events that come in.
    Ingest,
    /// Statements that ended their session before.
    Isolated,
}

/// What an acknowledged event must survive; a database that cannot promise it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Nothing: throw-away tests only.
    Unsafe,
    /// A crash and a restart of the database.
    Restart,
    /// The promotion of a standby, too: one must have confirmed each commit.
    Failover,
}

impl Store {
    /// Opens an SQLite file, creating it if need be.
    #[cfg(feature = "sqlite")]
    pub async fn open_sqlite(
        path: &std::path::Path,
        access: Access,
        durability: Durability,
    ) -> Result<Self, StoreError> {
        let database = sqlite::Database::open(path, access, durability).await?;
        Ok(Self::of(Database::Sqlite(database)))
    }

    /// Connects to Postgres by URL. Where it names several hosts, whichever of them takes writes is used.
    #[cfg(feature = "postgres")]
    pub async fn connect_postgres(
        url: &str,
        connections: Connections,
        durability: Durability,
    ) -> Result<Self, StoreError> {
        let database = postgres::Database::connect(url, connections, durability).await?;
        Ok(Self::of(Database::Postgres(database)))
    }

    fn of(database: Database) -> Self {
        Self { database, faults: Faults::none(), steady: Steady::default() }
    }

    /// The same store with fault points armed; without the feature `faults` this changes nothing.
    pub fn with_faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// Passes a fault point of whoever works on this store.
    pub(crate) async fn pass(&self, point: &'static str) -> Result<(), StoreError> {
        Ok(self.faults.at(point).await?)
    }

    /// Which database it is, in one word.
    pub fn kind(&self) -> &'static str {
        by_database!(&self.database,
            Database::Sqlite(_) => "sqlite",
            Database::Postgres(_) => "postgres",
        )
    }

    /// What makes this database unsafe to acknowledge from, if anything.
    pub fn unsafe_because(&self) -> Option<&str> {
        by_database!(Database, &self.database, database => database.unsafe_because())
    }

    /// Why the promotion of a standby may lose what was acknowledged, as it was seen a few seconds ago; nothing where nobody
    /// follows this database.
    pub fn failover_risk(&self) -> Option<String> {
        by_database!(&self.database,
            Database::Sqlite(_) => None,
            Database::Postgres(database) => database.failover_risk(),
        )
    }

    /// Whether a commit of ours waits for a standby at this moment; false where nobody says so.
    pub(crate) async fn waits_for_standby(&self) -> bool {
        by_database!(&self.database,
            Database::Sqlite(_) => false,
            Database::Postgres(database) => database.waits_for_standby().await,
        )
    }

    /// Opens a write transaction.
    pub async fn begin(&self) -> Result<Tx, StoreError> {
        self.begin_on(Session::Work).await
    }

    /// As [`Store::begin`], for events that come in: on Postgres on a session that no application's statement has touched.
    pub async fn begin_ingest(&self) -> Result<Tx, StoreError> {
        self.begin_on(Session::Ingest).await
    }

    /// As [`Store::begin`], for statements that have ended their session before: it is one that nobody else uses.
    pub async fn begin_isolated(&self) -> Result<Tx, StoreError> {
        self.begin_on(Session::Isolated).await
    }

    async fn begin_on(&self, session: Session) -> Result<Tx, StoreError> {
        self.faults.at("store.begin").await?;
        let inner = by_database!(&self.database,
            // Its one writer is no session that a statement could end.
            Database::Sqlite(database) => TxInner::Sqlite(database.begin(session).await?),
            Database::Postgres(database) => TxInner::Postgres(Box::new(database.begin(session).await?)),
        );
        Ok(Tx { inner, faults: self.faults.clone(), steady: self.steady.clone(), poisoned: false })
    }

    /// Why no connection could be made the last time, by host; none on SQLite, and none since one could.
    pub fn trouble(&self) -> Option<String> {
        by_database!(&self.database,
            Database::Sqlite(_) => None,
            Database::Postgres(database) => database.trouble(),
        )
    }

    /// Overwrites from now on what this process deletes, so that its bytes are gone from the file once the log has been
    /// moved: on SQLite, at the price of writing every freed page. Postgres has nothing of the kind.
    pub async fn overwrite_deleted(&self) -> Result<(), StoreError> {
        by_database!(&self.database,
            Database::Sqlite(database) => database.overwrite_deleted().await,
            Database::Postgres(_) => Ok(()),
        )
    }

    /// Resolves when the store can no longer write: on SQLite, that a flush failed, the file was
    /// removed or replaced, or the writer broke.
    /// Postgres heals by itself, so there this never ends.
    pub async fn failed(&self) {
        by_database!(&self.database,
            Database::Sqlite(database) => database.failed().await,
            Database::Postgres(_) => std::future::pending().await,
        )
    }

    /// Ends the work of this process with the database; every later call fails.
    pub async fn close(&self) {
        by_database!(&self.database,
            Database::Sqlite(database) => database.close().await,
            Database::Postgres(database) => database.close(),
        )
    }

    /// Brings the schema up to date and says how many steps that took.
    pub async fn migrate(&self) -> Result<usize, StoreError> {
        self.faults.at("store.migrate").await?;
        migrate_with(&self.clone().with_faults(Faults::none()), &self.faults).await
    }

    /// Asks the database whether it answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        #[cfg(feature = "sqlite")]
        #[cfg_attr(not(feature = "postgres"), expect(irrefutable_let_patterns, reason = "there is one kind then"))]
        if let Database::Sqlite(database) = &self.database {
            database.check_files()?;
        }
        self.query(&sql::PING, Vec::new()).await.map(drop)
    }

    async fn query(&self, statement: &Statement, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        let (sql, values) = (statement.in_dialect(self.dialect()), statement.with(values, self.steady.now()));
        by_database!(Database, &self.database, database => database.query(sql, values).await)
    }

    /// The time that a verb is handed.
    fn at(&self, wall: UnixMillis) -> At {
        At { wall, steady: self.steady.now() }
    }
}

/// An open write transaction. Dropping it rolls back.
#[derive(Debug)]
pub struct Tx {
    inner: TxInner,
    faults: Faults,
    steady: Steady,
    /// Set while a step is under way and left so when it fails or its future is dropped: half a step is never committed.
    poisoned: bool,
}

#[derive(Debug)]
enum TxInner {
    #[cfg(feature = "sqlite")]
    Sqlite(sqlite::Tx),
    #[cfg(feature = "postgres")]
    Postgres(Box<postgres::Tx>),
}

impl Tx {
    /// Ends the transaction. Only [`Commit::Committed`] may be acknowledged.
    pub async fn commit(self) -> Commit {
        if self.poisoned {
            self.rollback().await;
            return Commit::Failed(StoreError::Refused("a step of the transaction did not end well".into()));
        }
        if let Err(injected) = self.faults.at("store.commit").await {
            return Commit::from_fault(injected);
        }
        let outcome = match self.inner {
            #[cfg(feature = "sqlite")]
            TxInner::Sqlite(tx) => tx.commit().await,
            #[cfg(feature = "postgres")]
            TxInner::Postgres(tx) => tx.commit().await,
        };
        match self.faults.at("store.committed").await {
            Ok(()) => outcome,
            Err(injected) => Commit::from_fault(injected),
        }
    }

    /// Ends the transaction without its writes. Dropping does the same, but costs Postgres a connection.
    pub async fn rollback(self) {
        match self.inner {
            // The hang-up is the rollback.
            #[cfg(feature = "sqlite")]
            TxInner::Sqlite(tx) => drop(tx),
            #[cfg(feature = "postgres")]
            TxInner::Postgres(tx) => tx.rollback().await,
        }
    }

    /// Runs a statement and says how many rows it touched.
    async fn execute(&mut self, statement: &Statement, values: Vec<Value>) -> Result<u64, StoreError> {
        let values = statement.with(values, self.steady.now());
        Transaction::execute(self, statement.in_dialect(self.dialect()), values).await
    }

    /// Runs a statement that answers with rows.
    async fn query(&mut self, statement: &Statement, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        let values = statement.with(values, self.steady.now());
        Transaction::query(self, statement.in_dialect(self.dialect()), values).await
    }

    /// The time that a verb is handed.
    fn at(&self, wall: UnixMillis) -> At {
        At { wall, steady: self.steady.now() }
    }

    /// Commits, for callers to whom every other answer is an error.
    pub(crate) async fn commit_or_fail(self) -> Result<(), StoreError> {
        match self.commit().await {
            Commit::Committed => Ok(()),
            Commit::Failed(error) | Commit::Unknown(error) => Err(error),
        }
    }
}

/// The store is a pool like an application's own, so that verbs are written once for both.
impl Pool for Store {
    type Tx = Tx;

    async fn begin(&self) -> Result<Tx, StoreError> {
        Self::begin(self).await
    }

    async fn commit(tx: Tx) -> Commit {
        tx.commit().await
    }
}

impl crate::database::sealed::Sealed for Tx {}

impl Transaction for Tx {
    fn dialect(&self) -> Dialect {
        by_database!(&self.inner, TxInner::Sqlite(_) => Dialect::Sqlite, TxInner::Postgres(_) => Dialect::Postgres)
    }

    async fn query(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        let before = std::mem::replace(&mut self.poisoned, true);
        self.faults.at("store.execute").await?;
        let rows = by_database!(TxInner, &mut self.inner, tx => tx.query(sql, values).await?);
        self.poisoned = before;
        Ok(rows)
    }

    async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        let before = std::mem::replace(&mut self.poisoned, true);
        self.faults.at("store.execute").await?;
        let rows = by_database!(TxInner, &mut self.inner, tx => tx.execute(sql, values).await?);
        self.poisoned = before;
        Ok(rows)
    }

    async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        let before = std::mem::replace(&mut self.poisoned, true);
        by_database!(TxInner, &mut self.inner, tx => tx.batch(sql).await?);
        self.poisoned = before;
        Ok(())
    }
}
