//! The Postgres driver: a small pool of connections and transactions that a dropped future cannot leave open.
//!
//! A [`Tx`] takes its connection out of the pool for good unless it ended cleanly, by an answered COMMIT or ROLLBACK: a
//! connection in an unknown state is closed, never handed to the next caller. Leases and due times follow the database's clock, so no time is read here.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Timeouts,
};
use futures_util::future::join;
use tokio_postgres::Config;

use super::postgres_batch::Staged;
use super::postgres_danger::{LastGood, danger};
use super::sql::postgres as sql;
use super::{Commit, Durability, Row, StoreError, Value, postgres_tls};
use crate::adapter::refused_commit;
pub(super) use crate::adapter::tokio_postgres::{as_params, classify, read_row};

/// How long to wait for a connection; a sender's own deadline is a few seconds.
const CONNECT_WAIT: Duration = Duration::from_secs(2);
/// How long one step of a transaction may take before the connection counts as lost.
pub(super) const STEP_WAIT: Duration = Duration::from_secs(10);
/// How long the answer to a ROLLBACK may take: nothing else is under way on its connection.
const END_WAIT: Duration = Duration::from_secs(2);
/// Reading connections: the admin API and the commands share them.
const READERS_MAX: usize = 4;
/// Connections for statements that end their session.
const APART_MAX: usize = 2;

#[derive(Clone, Debug)]
pub(super) struct Database {
    pool: Pool,
    readers: Pool,
    apart: Pool,
    /// What every writing session is set to.
    session: &'static str,
    unsafe_because: Option<String>,
    /// Cleared for good once the server refuses a handler's statements as one block.
    loops: Arc<AtomicBool>,
}

impl Database {
    pub(super) async fn connect(url: &str, connections: usize, durability: Durability) -> Result<Self, StoreError> {
        let (url, proof) = postgres_tls::read_mode(url);
        let mut config: Config = url.parse().map_err(|error| StoreError::Refused(Box::new(BadUrl(error))))?;
        config.connect_timeout(CONNECT_WAIT).application_name("oncebox");
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let last_good = Arc::new(LastGood::now());
        let pool = |connections, settings: &'static str| {
            let last_good = last_good.clone();
            let manager = Manager::from_config(config.clone(), postgres_tls::connector(&proof)?, recycling.clone());
            Pool::builder(manager)
                .max_size(connections)
                .timeouts(Timeouts {
                    wait: Some(CONNECT_WAIT),
                    create: Some(CONNECT_WAIT),
                    recycle: Some(CONNECT_WAIT),
                })
                .runtime(deadpool_postgres::Runtime::Tokio1)
                // On every connection, not only at start: a role's or database's settings can change under us.
                .post_create(Hook::async_fn(move |client, _| {
                    Box::pin(async move {
                        let danger = danger(client).await.map_err(HookError::Backend)?;
                        if let (Some(danger), Durability::Required) = (danger, durability) {
                            return Err(HookError::message(danger));
                        }
                        client.batch_execute(settings).await.map_err(HookError::Backend)
                    })
                }))
                .post_recycle(Hook::async_fn(move |client, _| {
                    let last_good = last_good.clone();
                    Box::pin(async move {
                        match (durability, last_good.danger(client).await.map_err(HookError::Backend)?) {
                            (Durability::Required, Some(danger)) => Err(HookError::message(danger)),
                            _ => Ok(()),
                        }
                    })
                }))
                .build()
                .map_err(|error| StoreError::Refused(error.into()))
        };
        let readers = pool(READERS_MAX, sql::READER)?;
        let session = match durability {
            Durability::Required => sql::DURABLE_SESSION,
            Durability::Unsafe => sql::DEADLINE,
        };
        let (pool, apart) = (pool(connections, session)?, pool(APART_MAX, session)?);
        let client = pool.get().await.map_err(no_connection)?;
        let unsafe_because = danger(&client).await.map_err(classify)?;
        Ok(Self { pool, readers, apart, session, unsafe_because, loops: Arc::new(AtomicBool::new(true)) })
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(super) fn close(&self) {
        self.pool.close();
        self.readers.close();
        self.apart.close();
    }

    pub(super) fn unsafe_because(&self) -> Option<&str> {
        self.unsafe_because.as_deref()
    }

    /// Takes a lock by name on a session of its own; none when another session has it.
    pub(super) async fn lock_node(&self, name: &str) -> Result<Option<ClientWrapper>, StoreError> {
        let client = Object::take(self.pool.get().await.map_err(no_connection)?);
        let row = in_time(async { client.query_one(sql::LOCK_NODE, &[&name]).await.map_err(classify) }).await?;
        Ok(row.try_get::<_, bool>(0).map_err(classify)?.then_some(client))
    }

    /// A reading connection that never goes back to the pool.
    pub(super) async fn lone_reader(&self) -> Result<ClientWrapper, StoreError> {
        Ok(Object::take(self.readers.get().await.map_err(no_connection)?))
    }

    /// Takes a connection; BEGIN travels with the first step.
    pub(super) async fn begin(&self) -> Result<Tx, StoreError> {
        self.begin_on(&self.pool).await
    }

    /// As [`Database::begin`], on a session that is no loss to anybody else: a new one plans everything anew, and whoever
    /// gets it from the pool waits for that.
    pub(super) async fn begin_apart(&self) -> Result<Tx, StoreError> {
        self.begin_on(&self.apart).await
    }

    async fn begin_on(&self, pool: &Pool) -> Result<Tx, StoreError> {
        let client = pool.get().await.map_err(no_connection)?;
        Ok(Tx {
            client: Some(client),
            session: self.session,
            begun: false,
            failed: false,
            lost: false,
            soiled: false,
            staged: None,
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
    soiled: bool,
    staged: Option<Staged>,
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
        let outcome = in_time(async {
            let (begun, outcome) = join(client.batch_execute(sql::BEGIN), work(client)).await;
            begun.and(outcome).map_err(classify)
        })
        .await;
        self.begun = outcome.is_ok();
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
        self.ask_within(STEP_WAIT, work).await
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

    fn note<T>(&mut self, outcome: &Result<T, StoreError>) {
        self.failed |= outcome.is_err();
        self.lost |= matches!(outcome, Err(StoreError::Disconnected(_)));
    }

    /// Statements that are not ours, and that may leave traces in the session, follow.
    pub(super) fn soil(&mut self) {
        self.soiled = true;
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
        let committed = tokio::time::timeout(STEP_WAIT, async {
            match staged {
                Some(staged) => staged.insert_and_commit(client).await,
                None => client.batch_execute("COMMIT").await,
            }
        });
        match committed.await {
            Ok(Ok(())) => {
                self.give_back().await;
                Commit::Committed
            }
            Ok(Err(error)) if refused_commit(error.code().map(tokio_postgres::error::SqlState::code)) => {
                self.rollback().await;
                Commit::Failed(classify(error))
            }
            Ok(Err(error)) => Commit::Unknown(classify(error)),
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
        if self.soiled {
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

pub(super) fn no_connection(error: PoolError) -> StoreError {
    match error {
        PoolError::PostCreateHook(HookError::Message(danger)) => StoreError::Unsafe(danger.into_owned()),
        PoolError::Backend(error) => classify(error),
        other => StoreError::Disconnected(other.into()),
    }
}

/// A URL that could not be read; the URL itself may hold a password and is not shown.
#[derive(Debug, thiserror::Error)]
#[error("the database URL cannot be read")]
struct BadUrl(#[source] tokio_postgres::Error);

/// Whether no session holds the lock of a process, asked on the session that holds ours.
pub(super) async fn is_gone(session: &ClientWrapper, node: crate::event::EventKey) -> Result<bool, StoreError> {
    let name = node.to_string();
    let row = in_time(async { session.query_one(sql::NODE_IS_GONE, &[&name]).await.map_err(classify) }).await?;
    row.try_get::<_, bool>(0).map_err(classify)
}
