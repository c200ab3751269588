//! A copy of an SQLite file while everybody goes on: SQLite's own backup, in steps.
//!
//! The copy is of one moment: a reading transaction is held open meanwhile, so that writers neither wait nor make the
//! backup begin again. The price is that the log cannot be cut short until the copy is through.

use std::path::Path;
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::store::sqlite::{Database, classify};
use crate::store::{Store, StoreError};

/// Pages of one step; between steps others get the disk.
const STEP_PAGES: i32 = 2048;
const PAUSE: Duration = Duration::from_millis(1);
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// How far a copy came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Pages that are there.
    pub pages: u64,
    /// Pages in all.
    pub of: u64,
}

impl Store {
    /// Copies an SQLite database into a file that is not there yet, tells after each step how far it came, and checks the
    /// copy's structure. The file is flushed; its name is the caller's to settle.
    pub async fn back_up(&self, to: &Path, tell: impl FnMut(Copied) + Send + 'static) -> Result<(), StoreError> {
        match &self.database {
            crate::store::Database::Sqlite(database) => database.back_up(to, tell).await,
            #[cfg(feature = "postgres")]
            crate::store::Database::Postgres(_) => {
                Err(StoreError::Refused("Postgres is backed up by its own tools".into()))
            }
        }
    }
}

impl Database {
    async fn back_up(&self, to: &Path, mut tell: impl FnMut(Copied) + Send + 'static) -> Result<(), StoreError> {
        let to = to.to_owned();
        self.on_lone_reader(move |from| {
            copy(from, &to, &mut tell)?;
            check(&to)
        })
        .await
    }
}

fn copy(from: &Connection, to: &Path, tell: &mut impl FnMut(Copied)) -> Result<(), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut target = Connection::open_with_flags(to, flags).map_err(classify)?;
    target.pragma_update(None, "synchronous", "FULL").map_err(classify)?;
    // The first read fixes the moment.
    from.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema").map_err(classify)?;
    {
        let backup = Backup::new(from, &mut target).map_err(classify)?;
        loop {
            let step = backup.step(STEP_PAGES).map_err(classify)?;
            let progress = backup.progress();
            let (of, left) = (progress.pagecount.unsigned_abs().into(), u64::from(progress.remaining.unsigned_abs()));
            tell(Copied { pages: of - left, of });
            match step {
                StepResult::Done => break,
                StepResult::More => std::thread::sleep(PAUSE),
                _ => std::thread::sleep(BUSY_PAUSE),
            }
        }
    }
    from.execute_batch("COMMIT").map_err(classify)?;
    target.close().map_err(|(_, error)| classify(error))
}

fn check(copy: &Path) -> Result<(), StoreError> {
    let connection = Connection::open(copy).map_err(classify)?;
    let verdict: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0)).map_err(classify)?;
    connection.close().map_err(|(_, error)| classify(error))?;
    if verdict == "ok" { Ok(()) } else { Err(StoreError::Refused(format!("the copy is damaged: {verdict}").into())) }
}
