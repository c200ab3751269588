//! A connection of rusqlite on a thread of its own: transactions that async code can hold.
//!
//! A transaction is a conversation with the thread: jobs go in, a commit or a hang-up ends it. So nothing that a dropped
//! future does can leave one open, and whoever waits for the connection waits in line.

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::database::driver::rusqlite::{classify, read_rows, run};
use crate::database::{Commit, Dialect, Pool, Row, StoreError, Transaction, Value};

/// Transactions that may wait for the connection; beyond it `begin` itself waits.
const WAITING_MAX: usize = 64;

/// A database file behind one connection of the application's own. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Database(mpsc::Sender<Begin>);

/// An open transaction of a [`Database`]; dropping it rolls back.
#[derive(Debug)]
pub struct Tx(mpsc::Sender<Job>);

type Begin = oneshot::Sender<Result<Tx, StoreError>>;

enum Job {
    Run(Box<dyn FnOnce(&Connection) + Send>),
    Commit(oneshot::Sender<Commit>),
}

impl Database {
    /// Takes a connection and keeps it on a thread that ends with the last clone.
    pub fn new(connection: Connection) -> Result<Self, StoreError> {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let thread = std::thread::Builder::new().name("oncebox-rusqlite".to_owned());
        thread.spawn(move || serve(&connection, receiver)).map_err(|error| StoreError::Disconnected(error.into()))?;
        Ok(Self(sender))
    }
}

impl Tx {
    /// Runs code on the connection, inside the transaction.
    pub async fn run<R: Send + 'static>(
        &mut self,
        job: impl FnOnce(&Connection) -> rusqlite::Result<R> + Send + 'static,
    ) -> Result<R, StoreError> {
        self.ask(move |connection| job(connection).map_err(classify)).await
    }

    async fn ask<R: Send + 'static>(
        &mut self,
        job: impl FnOnce(&Connection) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let (reply, answer) = oneshot::channel();
        // Whoever asked may have gone; then the transaction has, too.
        let job = Job::Run(Box::new(move |connection| drop(reply.send(job(connection)))));
        self.0.send(job).await.map_err(|_closed| gone())?;
        answer.await.map_err(|_closed| gone())?
    }
}

impl Pool for Database {
    type Tx = Tx;

    async fn begin(&self) -> Result<Tx, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.0.send(reply).await.map_err(|_closed| gone())?;
        answer.await.map_err(|_closed| gone())?
    }

    async fn commit(tx: Tx) -> Commit {
        let (reply, answer) = oneshot::channel();
        if tx.0.send(Job::Commit(reply)).await.is_err() {
            return Commit::Failed(gone());
        }
        answer.await.unwrap_or_else(|_closed| Commit::Unknown(gone()))
    }
}

impl crate::database::sealed::Sealed for Tx {}

impl Transaction for Tx {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    async fn query(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        let sql = sql.to_owned();
        self.ask(move |connection| read_rows(connection, &sql, values)).await
    }

    async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        let sql = sql.to_owned();
        self.ask(move |connection| run(connection, &sql, values)).await
    }

    async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        let sql = sql.to_owned();
        self.ask(move |connection| connection.execute_batch(&sql).map_err(classify)).await
    }
}

/// The thread: one transaction after the other.
fn serve(connection: &Connection, mut begins: mpsc::Receiver<Begin>) {
    while let Some(begin) = begins.blocking_recv() {
        if begin.is_closed() {
            continue;
        }
        if let Err(error) = connection.execute_batch("BEGIN IMMEDIATE") {
            drop(begin.send(Err(classify(error))));
            continue;
        }
        let (jobs, receiver) = mpsc::channel(1);
        if begin.send(Ok(Tx(jobs))).is_ok() {
            run_transaction(connection, receiver);
        }
        if !connection.is_autocommit() {
            // Also what a failed commit leaves open; a connection that cannot roll back refuses the next BEGIN.
            let _ = connection.execute_batch("ROLLBACK");
        }
    }
}

fn run_transaction(connection: &Connection, mut jobs: mpsc::Receiver<Job>) {
    while let Some(job) = jobs.blocking_recv() {
        match job {
            Job::Run(job) => job(connection),
            Job::Commit(reply) => {
                drop(reply.send(commit(connection)));
                return;
            }
        }
    }
}

fn commit(connection: &Connection) -> Commit {
    if connection.is_autocommit() {
        return Commit::Failed(StoreError::Refused("the transaction was ended by the work that it was for".into()));
    }
    match connection.execute_batch("COMMIT").map_err(classify) {
        Ok(()) => Commit::Committed,
        Err(error @ (StoreError::Busy(_) | StoreError::Refused(_))) => Commit::Failed(error),
        // A failed flush leaves it open what is on disk.
        Err(error) => Commit::Unknown(error),
    }
}

fn gone() -> StoreError {
    StoreError::Disconnected("the database thread is gone".into())
}
