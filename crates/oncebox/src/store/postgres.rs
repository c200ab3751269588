//! The Postgres driver: small pools of connections, for ingest, for everything else that writes, and for reading.
//!
//! Leases and due times follow the database's clock, so no time is read here.

pub(super) mod batch;
pub(super) mod connect;
pub(super) mod deliveries;
pub(super) mod durability;
pub(super) mod effects;
pub(super) mod inspect;
pub(super) mod outbox;
pub(super) mod reconcile;
pub(super) mod retention;
pub(super) mod tls;
pub(super) mod transaction;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use deadpool::managed::{PoolError, Timeouts};
use deadpool_postgres::ClientWrapper;
use futures_util::future::join;

use super::sql::postgres as sql;
use super::{Durability, Row, Session, StoreError, Value};
pub(super) use crate::database::driver::tokio_postgres::{as_params, classify, read_row};
use crate::store::postgres::connect::{Link, Pool, Purpose, Sessions};
use crate::store::postgres::durability::Facts;

pub(super) use crate::store::postgres::connect::Object;
pub(super) use crate::store::postgres::transaction::Tx;

/// How long to wait for a connection while all are in use; a sender's own deadline is a few seconds.
const POOL_WAIT: Duration = Duration::from_secs(2);
/// How long one step of a transaction may take before the connection counts as lost.
pub(super) const STEP_WAIT: Duration = Duration::from_secs(10);
/// How long bytes may go unacknowledged before the operating system gives a connection up.
const UNACKNOWLEDGED: Duration = Duration::from_secs(5);
/// The same where a server may be busy with handlers' statements and read nothing meanwhile.
const UNACKNOWLEDGED_STATEMENTS: Duration = Duration::from_secs(30);
/// Reading connections: the admin API and the commands share them.
const READERS_MAX: usize = 4;
/// Connections for statements that end their session.
const APART_MAX: usize = 2;

const POOLER: &str = "the database is reached through a pooler that gives each transaction another session (pgbouncer with \
    pool_mode = transaction), so locks and settings of a session mean nothing; name PostgreSQL itself in store.url, or \
    use pool_mode = session";

#[derive(Clone, Debug)]
pub(super) struct Database {
    ingest: Pool,
    pool: Pool,
    readers: Pool,
    apart: Pool,
    link: Arc<Link>,
    /// What every writing session is set to.
    session: &'static str,
    unsafe_because: Option<String>,
    /// Cleared for good once the server refuses a handler's statements as one block.
    loops: Arc<AtomicBool>,
}

/// How many connections may be open at once, beside a few for reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// For events that come in. No statement of an application ever runs on them.
    pub ingest: usize,
    /// For everything else that writes: handlers, claims, retention, operators' actions.
    pub work: usize,
}

impl Database {
    pub(super) async fn connect(
        url: &str,
        connections: Connections,
        durability: Durability,
    ) -> Result<Self, StoreError> {
        let link = Arc::new(Link::new(url, durability)?);
        let pool = |size: usize, purpose: Purpose| {
            Pool::builder(Sessions::new(link.clone(), purpose))
                .max_size(size.max(1))
                // What takes longer than it should has a time-out of its own, which says what it was.
                .timeouts(Timeouts { wait: Some(POOL_WAIT), create: None, recycle: None })
                .runtime(deadpool_postgres::Runtime::Tokio1)
                .build()
                .map_err(|error| StoreError::Refused(error.into()))
        };
        let (ingest, session) = match durability {
            Durability::Restart | Durability::Failover => (sql::INGEST_SESSION, sql::DURABLE_SESSION),
            Durability::Unsafe => (sql::UNSAFE_INGEST_SESSION, sql::DEADLINE),
        };
        let ours = Purpose { settings: ingest, unacknowledged: UNACKNOWLEDGED, handlers: false };
        let theirs = Purpose { settings: session, unacknowledged: UNACKNOWLEDGED_STATEMENTS, handlers: true };
        let database = Self {
            ingest: pool(connections.ingest, ours)?,
            pool: pool(connections.work, theirs)?,
            apart: pool(APART_MAX, theirs)?,
            readers: pool(READERS_MAX, Purpose { settings: sql::READER, ..ours })?,
            link,
            session,
            unsafe_because: None,
            loops: Arc::new(AtomicBool::new(true)),
        };
        let client = database.pool.get().await.map_err(no_connection)?;
        let other = database.readers.get().await.map_err(no_connection)?;
        let facts = in_time(async { Facts::ask(&client).await.map_err(classify) }).await?;
        // A session of its own keeps its process, and shares it with nobody.
        if facts.backend != client.backend() || other.backend() == client.backend() {
            return Err(StoreError::Unsafe(POOLER.to_owned()));
        }
        Ok(Self { unsafe_because: facts.durability_risk(), ..database })
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(super) fn close(&self) {
        self.ingest.close();
        self.pool.close();
        self.readers.close();
        self.apart.close();
    }

    pub(super) fn unsafe_because(&self) -> Option<&str> {
        self.unsafe_because.as_deref()
    }

    pub(super) fn failover_risk(&self) -> Option<String> {
        self.link.failover_risk()
    }

    pub(super) async fn waits_for_standby(&self) -> bool {
        let asked = within(POOL_WAIT, self.query(sql::WAITS_FOR_STANDBY, Vec::new()));
        asked.await.is_ok_and(|rows| !rows.is_empty())
    }

    /// Why the last connection could not be made; none since one could.
    pub(super) fn trouble(&self) -> Option<String> {
        self.link.trouble()
    }

    /// Takes a lock by name on a session of its own; none when another session has it.
    pub(super) async fn lock_node(&self, name: &str) -> Result<Option<ClientWrapper>, StoreError> {
        let client = Object::take(self.pool.get().await.map_err(no_connection)?).into_client();
        let row = in_time(async { client.query_one(sql::LOCK_NODE, &[&name]).await.map_err(classify) }).await?;
        Ok(row.try_get::<_, bool>(0).map_err(classify)?.then_some(client))
    }

    /// A reading connection that never goes back to the pool.
    pub(super) async fn lone_reader(&self) -> Result<ClientWrapper, StoreError> {
        Ok(Object::take(self.readers.get().await.map_err(no_connection)?).into_client())
    }

    /// Takes a connection; BEGIN travels with the first step. A session that statements ended is no loss to anybody else
    /// on a pool of its own: a new one plans everything anew, and whoever gets it waits for that.
    pub(super) async fn begin(&self, session: Session) -> Result<Tx, StoreError> {
        let pool = match session {
            Session::Work => &self.pool,
            Session::Ingest => &self.ingest,
            Session::Isolated => &self.apart,
        };
        let client = pool.get().await.map_err(no_connection)?;
        Ok(Tx::new(client, self.session, self.link.clone(), self.loops.clone()))
    }

    /// Reads on the readers' own connections, so that a slow report never stands before a commit.
    pub(super) async fn query(&self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        let reader = Reader(Some(self.readers.get().await.map_err(no_connection)?));
        let rows = in_time(async {
            let client = reader.0.as_ref().ok_or_else(|| StoreError::Disconnected("no connection".into()))?;
            let statement = client.prepare_cached(sql).await.map_err(classify)?;
            client.query(&statement, &as_params(&values)).await.map_err(classify)
        })
        .await?;
        reader.give_back();
        rows.iter().map(read_row).collect()
    }
}

/// A reading connection. One whose question was not answered to the end is closed, never pooled: the question may
/// still be running on it.
struct Reader(Option<Object>);

impl Reader {
    fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            drop(Object::take(client));
        }
    }
}

pub(super) async fn in_time<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    within(STEP_WAIT, work).await
}

pub(super) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(limit, work).await {
        Ok(outcome) => outcome,
        Err(elapsed) => Err(StoreError::Disconnected(elapsed.into())),
    }
}

/// Sends a question right behind the settings by which each of its rows is found by an index.
pub(super) async fn by_index(
    client: &Object,
    question: impl Future<Output = Result<Vec<tokio_postgres::Row>, tokio_postgres::Error>>,
) -> Result<Vec<tokio_postgres::Row>, tokio_postgres::Error> {
    let (set, rows) = join(client.batch_execute(sql::BY_INDEX), question).await;
    set.and(rows)
}

pub(super) fn no_connection(error: PoolError<StoreError>) -> StoreError {
    match error {
        PoolError::Backend(error) => error,
        PoolError::Timeout(_) => StoreError::Disconnected("all connections are in use".into()),
        other => StoreError::Disconnected(other.into()),
    }
}

/// Whether no session holds the lock of a process, asked on the session that holds ours.
pub(super) async fn is_gone(session: &ClientWrapper, node: crate::event::NodeKey) -> Result<bool, StoreError> {
    let name = node.to_string();
    let row = in_time(async { session.query_one(sql::NODE_IS_GONE, &[&name]).await.map_err(classify) }).await?;
    row.try_get::<_, bool>(0).map_err(classify)
}
