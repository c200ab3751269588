//! The Postgres driver: a small pool of connections and transactions that a dropped future cannot leave open.
//!
//! A [`Tx`] takes its connection out of the pool for good unless it ended cleanly, by an answered COMMIT or ROLLBACK: a
//! connection in an unknown state is closed, never handed to the next caller. Leases and due times follow the database's clock, so no time is read here.

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

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use deadpool::managed::{PoolError, Timeouts};
use deadpool_postgres::ClientWrapper;
use futures_util::future::join;

use super::sql::postgres as sql;
use super::{Commit, Durability, Row, Session, StoreError, Value};
pub(super) use crate::database::driver::tokio_postgres::{as_params, classify, read_row};
use crate::database::refused_commit;
use crate::store::postgres::batch::Staged;
use crate::store::postgres::connect::{Link, Pool, Purpose, Sessions};
use crate::store::postgres::durability::Facts;

pub(super) use crate::store::postgres::connect::Object;

/// How long to wait for a connection while all are in use; a sender's own deadline is a few seconds.
const POOL_WAIT: Duration = Duration::from_secs(2);
/// How long one step of a transaction may take before the connection counts as lost.
pub(super) const STEP_WAIT: Duration = Duration::from_secs(10);
/// How long several statements may take: a migration of a large table takes its time. Whoever waits for another node's
/// steps waits as long.
const BATCH_WAIT: Duration = Duration::from_secs(6 * 60 * 60);
/// How long the referee's question may take. Nobody waits that long for a lock there, so it is the link that is silent,
/// and a sender still waits when the batch is tried again on another.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// How long the answer to a ROLLBACK may take: nothing else is under way on its connection.
const END_WAIT: Duration = Duration::from_secs(2);
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
            Durability::Required => (sql::INGEST_SESSION, sql::DURABLE_SESSION),
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
        Ok(Tx {
            client: Some(client),
            session: self.session,
            begun: false,
            failed: false,
            lost: false,
            dirty: false,
            staged: None,
            link: self.link.clone(),
            loops: self.loops.clone(),
        })
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

/// A transaction on a connection of its own.
///
/// Every round trip costs two wake-ups on a busy machine, so what needs no answer travels with what does: BEGIN with
/// the referee's question, the rows of a batch with COMMIT. The driver sends in the order of the first polls.
#[derive(Debug)]
pub(super) struct Tx {
    client: Option<Object>,
    session: &'static str,
    begun: bool,
    failed: bool,
    /// A question was not answered to its end, so nobody knows what the session is doing.
    lost: bool,
    /// A handler's statements may have left something in the session.
    dirty: bool,
    staged: Option<Staged>,
    link: Arc<Link>,
    pub(super) loops: Arc<AtomicBool>,
}

impl Tx {
    pub(super) fn client(&self) -> Result<&Object, StoreError> {
        self.client.as_ref().ok_or_else(|| StoreError::Disconnected("the transaction is over".into()))
    }

    /// Runs the referee's question, which BEGIN may travel with: the statement itself looks whether BEGIN came through,
    /// because without it (cancelled, timed out) the statement would commit by itself.
    pub(super) async fn guarded_step<T>(
        &mut self,
        work: impl AsyncFnOnce(&Object) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        self.send_staged().await?;
        if self.begun {
            return self.ask(work).await;
        }
        let client = self.client()?;
        let outcome = within(FIRST_WAIT, async {
            let (begun, outcome) = join(client.batch_execute(sql::BEGIN), work(client)).await;
            begun.and(outcome).map_err(classify)
        })
        .await;
        self.begun = outcome.is_ok();
        self.give_up_on(&outcome);
        self.note(&outcome);
        outcome
    }

    /// Runs a step within the deadline; after a failure the transaction can only roll back.
    pub(super) async fn step<T>(
        &mut self,
        work: impl AsyncFnOnce(&Object) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        self.send_staged().await?;
        self.ask(work).await
    }

    /// As [`Tx::step`], for work that has a deadline of its own.
    pub(super) async fn step_within<T>(
        &mut self,
        limit: Duration,
        work: impl AsyncFnOnce(&Object) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        self.send_staged().await?;
        self.ask_within(limit, work).await
    }

    async fn ask<T>(
        &mut self,
        work: impl AsyncFnOnce(&Object) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        let outcome = self.ask_within(STEP_WAIT, work).await;
        self.give_up_on(&outcome);
        outcome
    }

    async fn ask_within<T>(
        &mut self,
        limit: Duration,
        work: impl AsyncFnOnce(&Object) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        let client = self.client()?;
        let begun = self.begun;
        let outcome = within(limit, async {
            if !begun {
                client.batch_execute(sql::BEGIN).await.map_err(classify)?;
            }
            work(client).await.map_err(classify)
        })
        .await;
        self.begun = true;
        self.note(&outcome);
        outcome
    }

    /// Tells the others where a question of ours was met by silence.
    fn give_up_on<T>(&self, outcome: &Result<T, StoreError>) {
        if let (Err(error), Some(client)) = (outcome, &self.client) {
            self.link.given_up(client, error);
        }
    }

    /// Closes the session after this transaction, for what came out while others' statements ran.
    pub(super) fn abandon(&mut self, error: &StoreError) {
        (self.failed, self.lost) = (true, true);
        if let Some(client) = &self.client {
            self.link.given_up(client, error);
        }
    }

    fn note<T>(&mut self, outcome: &Result<T, StoreError>) {
        self.failed |= outcome.is_err();
        self.lost |= matches!(outcome, Err(StoreError::Disconnected(_)));
    }

    /// Statements that are not ours, and that may leave traces in the session, follow.
    pub(super) fn mark_dirty(&mut self) {
        self.dirty = true;
    }

    /// Keeps rows for the commit.
    pub(super) async fn stage(&mut self, staged: Staged) -> Result<(), StoreError> {
        self.send_staged().await?;
        self.staged = Some(staged);
        Ok(())
    }

    /// Rows that cannot wait for the commit, because something comes after them.
    async fn send_staged(&mut self) -> Result<(), StoreError> {
        match self.staged.take() {
            Some(staged) => self.ask(async |client| staged.insert(client).await).await,
            None => Ok(()),
        }
    }

    pub(super) async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        self.step(async |client| {
            let statement = client.prepare_cached(sql).await?;
            client.execute(&statement, &as_params(&values)).await
        })
        .await
    }

    pub(super) async fn query(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        let rows = self
            .step(async |client| {
                let statement = client.prepare_cached(sql).await?;
                client.query(&statement, &as_params(&values)).await
            })
            .await?;
        rows.iter().map(read_row).collect()
    }

    pub(super) async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        self.step_within(BATCH_WAIT, async |client| client.batch_execute(sql).await).await
    }

    pub(super) async fn commit(mut self) -> Commit {
        if self.failed {
            // COMMIT would be answered by a quiet ROLLBACK.
            self.rollback().await;
            return Commit::Failed(StoreError::Refused("a statement of the transaction failed".into()));
        }
        if !self.begun
            && let Err(error) = self.send_staged().await
        {
            // Without BEGIN before them the rows would commit one by one.
            return Commit::Failed(error);
        }
        let staged = self.staged.take();
        let client = match self.client() {
            Ok(client) => client,
            Err(error) => return Commit::Failed(error),
        };
        let begun = self.begun;
        client.listen();
        let committed = tokio::time::timeout(STEP_WAIT, async {
            match staged {
                Some(staged) => staged.insert_and_commit(client).await,
                None => client.batch_execute("COMMIT").await,
            }
        });
        match committed.await {
            // Where nothing was sent, the server only wonders what there is to commit.
            Ok(Ok(())) => match client.warning().filter(|_| begun) {
                None => {
                    self.give_back().await;
                    Commit::Committed
                }
                // It is on this server's disk, and perhaps nowhere else: somebody ended the wait for the standby.
                Some(warning) => {
                    let doubt = format!("the server warned while it committed: {warning}");
                    Commit::Unknown(StoreError::Disconnected(doubt.into()))
                }
            },
            Ok(Err(error)) if refused_commit(error.code().map(tokio_postgres::error::SqlState::code)) => {
                self.rollback().await;
                Commit::Failed(classify(error))
            }
            Ok(Err(error)) => {
                let error = classify(error);
                self.link.given_up(client, &error);
                Commit::Unknown(error)
            }
            Err(elapsed) => Commit::Unknown(StoreError::Disconnected(elapsed.into())),
        }
    }
}

impl Tx {
    /// Ends the transaction without its writes. The answer proves that nothing of it is left, so the connection is kept.
    pub(super) async fn rollback(self) {
        if self.lost {
            return;
        }
        let Ok(client) = self.client() else { return };
        // Even where BEGIN seems not to have come through: then this is a warning in the server's log, and no harm.
        let ended = within(END_WAIT, async { client.batch_execute("ROLLBACK").await.map_err(classify) });
        if ended.await.is_ok() {
            self.give_back().await;
        }
    }

    /// Puts the connection back into the pool after a clean end, as clean as it came out.
    async fn give_back(mut self) {
        if self.dirty {
            let Ok(client) = self.client() else { return };
            let cleaned = within(END_WAIT, async {
                let (cleaned, set) =
                    join(client.batch_execute(sql::CLEAN_SESSION), client.batch_execute(self.session)).await;
                cleaned.and(set).map_err(classify)
            });
            if cleaned.await.is_err() {
                return;
            }
        }
        drop(self.client.take());
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            // Out of the pool and closed: the server rolls back whatever was open.
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
