//! A fresh database for one test, and a way to look into it past the library.
//!
//! It is dropped with the test, or kept and named when the test fails. Looking is done on a connection of its own
//! and blocks, so that it works in tests with and without a runtime.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tempfile::TempDir;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::postgres::Cluster;

/// Tables that change by themselves, whatever is stored.
const HOUSEKEEPING: [&str; 5] = ["migrations", "repeatables", "retention_runs", "ledger_sizes", "ledger_history"];

const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// The two databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A file.
    Sqlite,
    /// A database of the test cluster.
    Postgres,
}

impl Backend {
    /// Both, for tests that loop.
    pub const ALL: [Self; 2] = [Self::Sqlite, Self::Postgres];
}

/// An empty database of one test.
pub struct TestDatabase {
    place: Place,
    url: String,
}

enum Place {
    Sqlite { dir: Option<TempDir>, file: PathBuf },
    Postgres { admin_url: String, name: String },
}

impl TestDatabase {
    /// An empty database that nobody else uses.
    pub fn fresh(backend: Backend) -> Self {
        match backend {
            Backend::Sqlite => Self::fresh_file(),
            Backend::Postgres => Self::fresh_on(Cluster::shared()),
        }
    }

    /// An empty database on a cluster of the test's own.
    pub fn fresh_on(cluster: &Cluster) -> Self {
        let (admin_url, name) = (cluster.url("postgres"), unique_name());
        postgres_query(&admin_url, &format!("create database {name} template template0"));
        Self { url: cluster.url(&name), place: Place::Postgres { admin_url, name } }
    }

    fn fresh_file() -> Self {
        let dir = tempfile::Builder::new().prefix("oncebox-test-").tempdir().expect("a temporary folder can be made");
        let file = dir.path().join("oncebox.db");
        Self { url: format!("sqlite:{}", file.display()), place: Place::Sqlite { dir: Some(dir), file } }
    }

    /// Which of the two it is.
    pub fn backend(&self) -> Backend {
        match self.place {
            Place::Sqlite { .. } => Backend::Sqlite,
            Place::Postgres { .. } => Backend::Postgres,
        }
    }

    /// Its URL, as a config has it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The SQLite file; none on Postgres.
    pub fn file(&self) -> Option<&Path> {
        match &self.place {
            Place::Sqlite { file, .. } => Some(file),
            Place::Postgres { .. } => None,
        }
    }

    /// The full name of a table or view of ours: `oncebox.events` or `oncebox_events`.
    pub fn table(&self, name: &str) -> String {
        match self.backend() {
            Backend::Sqlite => format!("oncebox_{name}"),
            Backend::Postgres => format!("oncebox.{name}"),
        }
    }

    /// Counts the rows of a table or view, given by its full name.
    pub fn count(&self, table: &str) -> i64 {
        let rows = self.query(&format!("select count(*) from {table}"));
        rows[0][0].parse().expect("a count is a number")
    }

    /// Every row as text: NULL is empty, bytes are `\x` and hex on both databases.
    pub fn query(&self, sql: &str) -> Vec<Vec<String>> {
        match &self.place {
            Place::Sqlite { file, .. } => sqlite_query(file, sql),
            Place::Postgres { .. } => postgres_query(&self.url, sql),
        }
    }

    /// Runs one or more statements.
    pub fn execute(&self, sql: &str) {
        match &self.place {
            Place::Sqlite { file, .. } => {
                let connection = Connection::open(file).expect("the database opens");
                connection.busy_timeout(BUSY_TIMEOUT).expect("a timeout can be set");
                connection.execute_batch(sql).unwrap_or_else(|error| panic!("{error} in: {sql}"));
            }
            Place::Postgres { .. } => drop(postgres_query(&self.url, sql)),
        }
    }

    /// Does something while nobody else can write: to this table on Postgres, to the whole file on SQLite.
    pub fn while_locked<T>(&self, table: &str, act: impl FnOnce() -> T) -> T {
        let Place::Sqlite { file, .. } = &self.place else {
            return thread::scope(|scope| {
                let (locked, is_locked) = mpsc::channel();
                let (release, released) = mpsc::channel();
                let sql = format!("begin; lock table {table} in exclusive mode");
                scope.spawn(move || hold_postgres(&self.url, &sql, &locked, &released));
                is_locked.recv().expect("the lock is free");
                let result = act();
                drop::<mpsc::Sender<()>>(release);
                result
            });
        };
        let connection = Connection::open(file).expect("the database opens");
        connection.busy_timeout(BUSY_TIMEOUT).expect("a timeout can be set");
        connection.execute_batch("begin immediate").expect("the lock is free");
        let result = act();
        connection.execute_batch("rollback").expect("it ends");
        result
    }

    /// Rows in each table of ours by its bare name, those of housekeeping left out: compare before and after to show
    /// that nothing was stored.
    pub fn row_counts(&self) -> BTreeMap<String, i64> {
        let tables = match &self.place {
            Place::Sqlite { file, .. } if !file.exists() => Vec::new(),
            Place::Sqlite { .. } => self.query(
                "select substr(name, 9) from sqlite_master where type = 'table' and name like 'oncebox\\_%' escape '\\'",
            ),
            Place::Postgres { .. } => self.query(
                "select relname from pg_class where relnamespace = to_regnamespace('oncebox') \
                 and relkind in ('r', 'p') and not relispartition",
            ),
        };
        let names =
            tables.into_iter().map(|mut row| row.remove(0)).filter(|name| !HOUSEKEEPING.contains(&name.as_str()));
        names.map(|name| (name.clone(), self.count(&self.table(&name)))).collect()
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if thread::panicking() {
            if let Place::Sqlite { dir, .. } = &mut self.place {
                dir.take().map(TempDir::keep);
            }
            eprintln!("the database is kept: {} (on Postgres as long as its server lives)", self.url);
        } else if let Place::Postgres { admin_url, name } = &self.place {
            // The server may be one that the test has stopped; its data goes with it.
            let _ = postgres_try_query(admin_url, &format!("drop database if exists {name} with (force)"));
        }
    }
}

/// Writes each test once and runs it on both databases, as `name::sqlite` and `name::postgres`.
///
/// ```
/// testkit::contract! {
///     async fn a_new_database_is_empty(db: testkit::TestDatabase) {
///         assert!(db.row_counts().is_empty());
///     }
/// }
/// ```
#[macro_export]
macro_rules! contract {
    ($($(#[$attribute:meta])* async fn $name:ident($db:ident: $type:ty) $(-> $result:ty)? $body:block)+) => {$(
        $(#[$attribute])*
        async fn $name($db: $type) $(-> $result)? $body

        mod $name {
            #[test]
            fn sqlite() -> impl ::std::process::Termination {
                $crate::database::run($crate::Backend::Sqlite, super::$name)
            }

            #[test]
            fn postgres() -> impl ::std::process::Termination {
                $crate::database::run($crate::Backend::Postgres, super::$name)
            }
        }
    )+};
}

/// Runs an async test with a fresh database on a runtime of two workers; what [`contract!`](crate::contract) calls.
pub fn run<T, F: Future<Output = T>>(backend: Backend, test: impl FnOnce(TestDatabase) -> F) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be built").block_on(test(TestDatabase::fresh(backend)))
}

/// Runs statements on a Postgres given by URL and returns the rows as text.
pub fn postgres_query(url: &str, sql: &str) -> Vec<Vec<String>> {
    postgres_try_query(url, sql).unwrap_or_else(|error| panic!("{error:?} in: {sql}"))
}

/// As [`postgres_query`], for a server that may be down.
pub fn postgres_try_query(url: &str, sql: &str) -> Result<Vec<Vec<String>>, tokio_postgres::Error> {
    // A thread of its own, because a runtime cannot be entered twice and the caller may be inside one.
    thread::scope(|scope| scope.spawn(|| block_on_postgres(url, sql)).join().expect("the query thread ends well"))
}

fn block_on_postgres(url: &str, sql: &str) -> Result<Vec<Vec<String>>, tokio_postgres::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be built");
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let connection = tokio::spawn(connection);
        let messages = client.simple_query(sql).await?;
        drop(client);
        // Waiting for the goodbye frees the server's slot before the next query asks for one.
        let _ = connection.await;
        Ok(messages.iter().filter_map(row_as_text).collect())
    })
}

/// Runs statements and keeps the session until nobody holds the other end of `released`.
fn hold_postgres(url: &str, sql: &str, done: &mpsc::Sender<()>, released: &mpsc::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be built");
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the server answers");
        let connection = tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{error:?} in: {sql}"));
        done.send(()).expect("somebody waits");
        let _ = released.recv();
        drop(client);
        let _ = connection.await;
    });
}

pub(crate) fn row_as_text(message: &SimpleQueryMessage) -> Option<Vec<String>> {
    let SimpleQueryMessage::Row(row) = message else { return None };
    Some((0..row.len()).map(|column| row.get(column).unwrap_or_default().to_owned()).collect())
}

fn sqlite_query(file: &Path, sql: &str) -> Vec<Vec<String>> {
    sqlite_try_query(file, sql).unwrap_or_else(|error| panic!("{error} in: {sql}"))
}

/// A reader that may not write and meets the log's header half written says `READONLY`: it looks again.
fn sqlite_try_query(file: &Path, sql: &str) -> rusqlite::Result<Vec<Vec<String>>> {
    let started = Instant::now();
    loop {
        match sqlite_try_query_once(file, sql) {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::ReadOnly) && started.elapsed() < BUSY_TIMEOUT =>
            {
                thread::sleep(Duration::from_millis(1));
            }
            outcome => return outcome,
        }
    }
}

fn sqlite_try_query_once(file: &Path, sql: &str) -> rusqlite::Result<Vec<Vec<String>>> {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let mut statement = connection.prepare(sql)?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    let mut table = Vec::new();
    while let Some(row) = rows.next()? {
        table.push((0..columns).map(|column| row.get_ref(column).map(as_text)).collect::<Result<_, _>>()?);
    }
    Ok(table)
}

fn as_text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(bytes) => format!("\\x{}", data_encoding::HEXLOWER.encode(bytes)),
    }
}

fn unique_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let since_1970 = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_micros());
    format!("t_{}_{}_{since_1970}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::contract! {
        async fn values_come_back_as_text(db: TestDatabase) {
            let bytes = if db.backend() == Backend::Sqlite { "blob" } else { "bytea" };
            db.execute(&format!("create table t (a integer, b text, c {bytes}); insert into t values (7, 'x', null)"));
            let literal = if db.backend() == Backend::Sqlite { "x'0aff'" } else { "'\\x0aff'" };
            db.execute(&format!("insert into t values (null, 'it''s', {literal})"));
            assert_eq!(db.count("t"), 2);
            assert_eq!(db.query("select * from t order by b desc"), [["7", "x", ""], ["", "it's", "\\x0aff"]]);
        }

        async fn only_our_tables_are_counted(db: TestDatabase) {
            assert!(db.row_counts().is_empty());
            if db.backend() == Backend::Postgres {
                db.execute("create schema oncebox");
            }
            for name in ["events", "migrations"] {
                db.execute(&format!("create table {} (n integer)", db.table(name)));
            }
            db.execute("create table oncebox2 (n integer)");
            db.execute(&format!("insert into {} values (1)", db.table("events")));
            assert_eq!(db.row_counts(), BTreeMap::from([("events".to_owned(), 1)]));
        }
    }

    #[test]
    fn a_database_is_gone_after_its_test() {
        let db = TestDatabase::fresh(Backend::Sqlite);
        db.execute("create table t (n integer)");
        let file = db.file().expect("SQLite has a file").to_owned();
        drop(db);
        assert!(!file.exists());

        let db = TestDatabase::fresh(Backend::Postgres);
        let Place::Postgres { admin_url, name } = &db.place else { panic!("this is Postgres") };
        let exists = format!("select 1 from pg_database where datname = '{name}'");
        let admin_url = admin_url.clone();
        assert_eq!(postgres_query(&admin_url, &exists).len(), 1);
        drop(db);
        assert!(postgres_query(&admin_url, &exists).is_empty());
    }
}
