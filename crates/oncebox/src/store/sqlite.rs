//! The SQLite driver: one writer thread that owns the only writing connection, and a small pool of readers.
//!
//! A transaction is a conversation with the writer thread: jobs go in, a commit or a hang-up ends it. So nothing that a
//! dropped future does can leave a transaction open, and whoever waits for the writer waits in line.

pub(super) mod backup;
pub(super) mod batch;
pub(super) mod begun;
pub(super) mod checkpoint;
pub(super) mod deliveries;
pub(super) mod effects;
pub(super) mod files;
pub(super) mod inspect;
pub(super) mod multi_row;
pub(super) mod outbox;
pub(super) mod reconcile;
pub(super) mod retention;
pub(super) mod writer;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, params_from_iter};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::{Commit, Durability, Row, Session, StoreError, Value};
pub(super) use crate::database::driver::rusqlite::{classify, read_row, read_rows};
use crate::store::sqlite::begun::BegunFile;
use crate::store::sqlite::checkpoint::{Checkpointer, LOG_PAGES, leave_log_at_close};
use crate::store::sqlite::files::{OpenFiles, make_private, open_private};
use crate::store::sqlite::writer::{Begin, Job, LastJob, Step, write};

/// Who opens the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The one server: it holds the lock file beside the database for as long as it lives.
    Server,
    /// A command that looks or acts beside a server.
    Visitor,
}

const NO_STANDBY: &str = "store.survive is \"failover\", but an SQLite file has no standby; use Postgres, or write survive = \
    \"restart\"";
/// Reading connections: the dashboard and the commands share them.
const READERS_MAX: usize = 4;
/// How long to wait for another process that writes to the same file; a commit is tried twice, and both waits together
/// must end before a sender's patience does.
const BUSY_WAIT: Duration = Duration::from_millis(2500);
/// Prepared statements kept per connection: more than there are.
const STATEMENTS_MAX: usize = 128;
/// Transactions that may wait for the writer; beyond it `begin` itself waits.
const WAITING_MAX: usize = 64;
/// How often a server to which nothing is written looks whether its file is still there.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// What the writer keeps in memory: the inner pages of a ledger of tens of millions, which every new identity passes.
const CACHE_KIB: i64 = 16 * 1024;
/// The first version without the WAL-reset corruption; 3.52.0 was withdrawn.
const VERSION_MIN: i32 = 3_051_003;
const VERSION_WITHDRAWN: i32 = 3_052_000;

#[derive(Clone, Debug)]
pub(super) struct Database {
    writer: mpsc::Sender<Begin>,
    ended: watch::Receiver<()>,
    readers: Arc<Readers>,
    unsafe_because: Option<String>,
    /// The lock file, of the server alone.
    lock: Option<Arc<BegunFile>>,
    /// Watched by the server alone: nobody else acknowledges.
    files: Option<Arc<OpenFiles>>,
}

impl Database {
    pub(super) async fn open(path: &Path, access: Access, durability: Durability) -> Result<Self, StoreError> {
        let path = path.to_owned();
        on_a_blocking_thread(move || Self::open_blocking(&path, access, durability)).await
    }

    fn open_blocking(path: &Path, access: Access, durability: Durability) -> Result<Self, StoreError> {
        let lock = match access {
            Access::Server => {
                let begun = BegunFile::open(lock_beside(path)?);
                Some(Arc::new(begun.map_err(|error| StoreError::Disconnected(error.into()))?))
            }
            Access::Visitor => None,
        };
        let connection = open_writer(path, access)?;
        let unsafe_because = match access {
            Access::Server => durability_risk(&connection)?,
            Access::Visitor => None,
        };
        if durability == Durability::Failover {
            return Err(StoreError::Unsafe(NO_STANDBY.to_owned()));
        }
        if let (Some(danger), Durability::Restart) = (&unsafe_because, durability) {
            return Err(StoreError::Unsafe(danger.clone()));
        }
        let (checkpointer, files) = match access {
            Access::Server => (Some(Checkpointer::start(path)?), Some(Arc::new(OpenFiles::of(path, &connection)?))),
            Access::Visitor => (None, None),
        };
        let watched = files.clone();
        let (writer, begins) = mpsc::channel(WAITING_MAX);
        let (alive, ended) = watch::channel(());
        std::thread::Builder::new()
            .name("oncebox-writer".into())
            .spawn(move || {
                write(connection, checkpointer, watched, begins);
                drop(alive);
            })
            .map_err(|error| StoreError::Disconnected(error.into()))?;
        let readers = Readers { path: path.to_owned(), free: Mutex::default(), slots: Semaphore::new(READERS_MAX) };
        Ok(Self { writer, ended, readers: Arc::new(readers), unsafe_because, lock, files })
    }

    /// True when this process is the file's one server, so that every other one is dead.
    pub(super) fn is_server(&self) -> bool {
        self.lock.is_some()
    }

    /// The record of what the server has begun; a visitor has none.
    pub(super) fn begun(&self) -> Option<&BegunFile> {
        self.lock.as_deref()
    }

    /// A reading connection that never goes back to the pool, for work on a blocking thread.
    pub(super) async fn on_lone_reader<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let readers = self.readers.clone();
        on_a_blocking_thread(move || job(&open_reader(&readers.path)?)).await
    }

    pub(super) fn unsafe_because(&self) -> Option<&str> {
        self.unsafe_because.as_deref()
    }

    /// Has the writer overwrite with zeros whatever it deletes from now on.
    pub(super) async fn overwrite_deleted(&self) -> Result<(), StoreError> {
        let mut tx = self.begin(Session::Work).await?;
        tx.run(|connection| connection.pragma_update(None, "secure_delete", true).map_err(classify)).await
    }

    /// Takes a place in the line; BEGIN happens before the first step.
    pub(super) async fn begin(&self, _: Session) -> Result<Tx, StoreError> {
        let (steps, receiver) = mpsc::channel(1);
        let (refusal, refused) = oneshot::channel();
        self.writer.send(Begin { steps: receiver, refusal }).await.map_err(gone)?;
        Ok(Tx { steps, refused, last: None })
    }

    /// Waits for the end of the writer thread, or until its file is not the one on the disk any more.
    pub(super) async fn failed(&self) {
        while tokio::time::timeout(POLL_EVERY, self.writer.closed()).await.is_err() {
            if self.check_files().is_err() {
                return;
            }
        }
    }

    /// Whether what is written is still found under the path.
    pub(super) fn check_files(&self) -> Result<(), StoreError> {
        self.files.as_ref().map_or(Ok(()), |files| files.check().map_err(StoreError::from))
    }

    /// Moves the log into the file and ends the writer thread, so that the file alone is the database.
    pub(super) async fn close(&self) {
        self.readers.slots.close();
        self.readers.free.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if let Ok(tx) = self.begin(Session::Work).await {
            // A thread that ends by itself does not take it any more.
            let _ = tx.steps.send(Step::Close).await;
        }
        // Nothing is ever sent: it ends with the thread.
        let _ = self.ended.clone().changed().await;
    }

    pub(super) async fn query(&self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        let slot = self.readers.slots.acquire().await.map_err(gone)?;
        let (readers, sql) = (self.readers.clone(), sql.to_owned());
        let rows = on_a_blocking_thread(move || {
            let connection = readers.take()?;
            let rows = read_rows(&connection, &sql, values);
            readers.give_back(connection);
            rows
        })
        .await;
        drop(slot);
        rows
    }
}

/// A transaction on the writer thread. Dropping it hangs up, and the thread rolls back.
///
/// Every question to the thread costs two wake-ups on a busy machine, so nobody waits for BEGIN, and the last job goes
/// with the commit.
pub(super) struct Tx {
    steps: mpsc::Sender<Step>,
    refused: oneshot::Receiver<StoreError>,
    last: Option<LastJob>,
}

impl std::fmt::Debug for Tx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tx")
    }
}

impl Tx {
    /// Runs a job on the writer's connection, inside the transaction.
    pub(super) async fn run<T: Send + 'static>(
        &mut self,
        job: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run_kept().await?;
        self.ask(job).await
    }

    async fn ask<T: Send + 'static>(
        &mut self,
        job: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, wait) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            // Nobody waits only when the caller was dropped, and then the transaction rolls back.
            if !answer.is_closed() {
                let _ = answer.send(job(connection));
            }
        });
        if self.steps.send(Step::Run(job)).await.is_err() {
            return Err(self.why_gone());
        }
        wait.await.unwrap_or_else(|_| Err(self.why_gone()))
    }

    pub(super) async fn keep_for_commit(
        &mut self,
        job: impl FnOnce(&Connection) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), StoreError> {
        self.run_kept().await?;
        self.last = Some(Box::new(job));
        Ok(())
    }

    /// A job that cannot wait for the commit, because something comes after it.
    async fn run_kept(&mut self) -> Result<(), StoreError> {
        match self.last.take() {
            Some(job) => self.ask(job).await,
            None => Ok(()),
        }
    }

    /// The conversation ended before it was asked to: BEGIN was refused, or the thread is gone.
    fn why_gone(&mut self) -> StoreError {
        self.refused.try_recv().unwrap_or_else(gone)
    }

    pub(super) async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        let sql = sql.to_owned();
        self.run(move |connection| {
            let mut statement = connection.prepare_cached(&sql).map_err(classify)?;
            statement.execute(params_from_iter(values)).map(|rows| rows as u64).map_err(classify)
        })
        .await
    }

    pub(super) async fn query(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        let sql = sql.to_owned();
        self.run(move |connection| read_rows(connection, &sql, values)).await
    }

    pub(super) async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        let sql = sql.to_owned();
        self.run(move |connection| connection.execute_batch(&sql).map_err(classify)).await
    }

    pub(super) async fn commit(mut self) -> Commit {
        let (answer, wait) = oneshot::channel();
        if self.steps.send(Step::Commit(self.last.take(), answer)).await.is_err() {
            return Commit::Failed(self.why_gone());
        }
        match (wait.await, self.refused.try_recv()) {
            (Ok(outcome), _) => outcome,
            (Err(_), Ok(refusal)) => Commit::Failed(refusal),
            (Err(error), Err(_)) => Commit::Unknown(gone(error)),
        }
    }
}

#[derive(Debug)]
struct Readers {
    path: PathBuf,
    free: Mutex<Vec<Connection>>,
    slots: Semaphore,
}

impl Readers {
    fn take(&self) -> Result<Connection, StoreError> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.map_or_else(|| open_reader(&self.path), Ok)
    }

    fn give_back(&self, connection: Connection) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }
}

fn lock_beside(path: &Path) -> Result<File, StoreError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let file = open_private(Path::new(&name))
        .map_err(|error| StoreError::Disconnected(format!("cannot open the lock file {name:?}: {error}").into()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse(format!(
            "another oncebox server runs on {}; stop it first, or use Postgres for several nodes",
            path.display()
        ))),
        Err(TryLockError::Error(error)) => Err(StoreError::Disconnected(error.into())),
    }
}

/// A visitor takes the file as it is: its journal mode is not his to change.
pub(super) fn open_writer(path: &Path, access: Access) -> Result<Connection, StoreError> {
    make_private(path);
    let connection = Connection::open(path).map_err(classify)?;
    connection.busy_timeout(BUSY_WAIT).map_err(classify)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Without it the planner reads the value bound to a LIMIT and prepares the statement again when the value changes: more
    // than a millisecond for each claim.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(classify)?;
    if access == Access::Server {
        make_shrinkable(&connection)?;
        connection.pragma_update(None, "journal_mode", "WAL").map_err(classify)?;
    }
    for (pragma, value) in [("synchronous", "FULL"), ("temp_store", "MEMORY")] {
        connection.pragma_update(None, pragma, value).map_err(classify)?;
    }
    // The server's log is moved by its checkpointer.
    let checkpoint_pages = if access == Access::Server { 0 } else { LOG_PAGES };
    connection.pragma_update(None, "wal_autocheckpoint", checkpoint_pages).map_err(classify)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB).map_err(classify)?;
    Ok(connection)
}

/// Only before a file has its first page can it be told to give pages back later; an older one keeps its length.
fn make_shrinkable(connection: &Connection) -> Result<(), StoreError> {
    let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0)).map_err(classify)?;
    if pages == 0 {
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL").map_err(classify)?;
    }
    Ok(())
}

fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(classify)?;
    connection.busy_timeout(BUSY_WAIT).map_err(classify)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.pragma_update(None, "query_only", true).map_err(classify)?;
    leave_log_at_close(&connection).map_err(classify)?;
    // So that a filter means on both databases what it means on Postgres.
    connection.pragma_update(None, "case_sensitive_like", true).map_err(classify)?;
    Ok(connection)
}

/// Reads the settings back: what was asked for is not always what a file system grants.
fn durability_risk(connection: &Connection) -> Result<Option<String>, StoreError> {
    let version = rusqlite::version_number();
    if version < VERSION_MIN || version == VERSION_WITHDRAWN {
        let name = rusqlite::version();
        return Ok(Some(format!("SQLite {name} can corrupt its write-ahead log; use 3.51.3 or newer, not 3.52.0")));
    }
    let journal: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).map_err(classify)?;
    if journal != "wal" {
        return Ok(Some(format!("SQLite journal mode is {journal}, not wal; put the file on a local file system")));
    }
    let synchronous: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0)).map_err(classify)?;
    if synchronous < 2 {
        return Ok(Some("SQLite synchronous is below FULL, so a power cut would lose acknowledged events".into()));
    }
    Ok(None)
}

async fn on_a_blocking_thread<T: Send + 'static>(
    job: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(job).await.map_err(gone)?
}

fn gone(error: impl std::fmt::Display) -> StoreError {
    StoreError::Disconnected(format!("the database thread is gone: {error}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `danger` says about a connection to a file after these pragmas.
    fn danger_after(pragmas: &[(&str, &str)]) -> Option<String> {
        let db = testkit::TestDatabase::fresh(testkit::Backend::Sqlite);
        let connection = open_writer(db.file().unwrap(), Access::Server).unwrap();
        for (pragma, value) in pragmas {
            connection.pragma_update(None, pragma, value).unwrap();
        }
        durability_risk(&connection).unwrap()
    }

    #[test]
    fn settings_that_lose_events_are_found() {
        assert_eq!(danger_after(&[]), None);
        assert_eq!(danger_after(&[("synchronous", "EXTRA")]), None);
        for journal in ["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "OFF"] {
            let found = danger_after(&[("journal_mode", journal)]).unwrap_or_default();
            assert!(
                found.contains(&format!("journal mode is {}, not wal", journal.to_lowercase())),
                "{journal}: {found}"
            );
        }
        for synchronous in ["NORMAL", "OFF"] {
            let found = danger_after(&[("synchronous", synchronous)]).unwrap_or_default();
            assert!(found.contains("synchronous is below FULL"), "{synchronous}: {found}");
        }
        // A database in memory cannot have a log, whatever was asked for.
        let memory = Connection::open_in_memory().unwrap();
        assert!(durability_risk(&memory).unwrap().is_some_and(|found| found.contains("memory")));
    }
}
