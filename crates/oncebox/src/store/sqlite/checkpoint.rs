//! Moves SQLite's log into the database file, out of the way of the acknowledgement.
//!
//! Left alone, SQLite does it inside the COMMIT that made the log long, and whoever waits for that commit waits for the
//! copying and for one more flush. Here a thread of its own copies and flushes while the writer goes on. What was
//! written meanwhile is little; the writer copies that itself, after its answers, because the log begins anew only at a
//! moment with nothing left to copy. That step flushes once more, so under load it is rare: a quiet server keeps a short
//! log, a busy one lets it grow.
//!
//! To die at any point of this costs nothing: the log holds every page until it begins anew, and whoever opens the file
//! after us copies all of it again. A flush that fails is another matter: SQLite takes for copied what it wrote, and
//! would not write it again. So the writer ends with it, as it does with a commit's.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::store::StoreError;
use crate::store::sqlite::classify;
use crate::store::sqlite::writer::Flush;

/// Pages in the log of a quiet server before it begins anew: 16 MiB.
pub(in crate::store) const LOG_PAGES: i64 = 4000;
/// Work for which the writer waited so long belongs to traffic in which nobody notices one flush more.
const QUIET: Duration = Duration::from_millis(100);
/// What the writer of a quiet server copies itself, at most.
const QUIET_REST_PAGES: i64 = 2 * LOG_PAGES;
/// Pages that the thread copies at once. The more of them, the more are copies of the same few.
const COPY_PAGES: i64 = 16 * 1024;
/// Pages in the log of a busy server before it begins anew: 128 MiB.
const LONG_LOG_PAGES: i64 = 32 * 1024;
/// What the writer of a busy server copies itself is at most this part of the log: the longer the log, the less it is
/// worth to have the thread copy once more.
const REST_PART: i64 = 32;
/// A log as long as this (512 MiB), and the thread still copies: the disk copies slower than we write, so the writer
/// waits for it.
const LOG_PAGES_MAX: i64 = 128 * 1024;

/// The writer's end of the copying thread.
#[derive(Debug)]
pub(in crate::store) struct Checkpointer {
    wanted: SyncSender<()>,
    copied: Receiver<Flush>,
    is_copying: bool,
    /// For what the writer copies itself.
    copier: Copier,
    thread: JoinHandle<()>,
    file: KeptFile,
}

/// The database file, to flush it. Closed behind all connections: a process that closes a file loses every lock that it
/// has on it, SQLite's among them.
#[derive(Debug)]
pub(in crate::store) struct KeptFile {
    _file: Arc<File>,
}

/// How much the log holds, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Log {
    pages: i64,
    copied: i64,
}

/// What to do about the log after a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Write on.
    Nothing,
    /// Have the thread copy, and write on.
    CopyBeside,
    /// Copy the rest, so that the log can begin anew.
    CopyHere,
    /// Wait for the thread, which cannot keep up.
    Wait,
}

/// What the writer knows when it looks at the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Moment {
    is_quiet: bool,
    is_copying: bool,
}

impl Log {
    fn next(self, Moment { is_quiet, is_copying }: Moment) -> Next {
        let left = self.pages - self.copied;
        let is_long = self.pages >= LONG_LOG_PAGES;
        let is_rest = (is_quiet && left <= QUIET_REST_PAGES) || (is_long && left * REST_PART <= self.pages);
        if self.pages < LOG_PAGES {
            Next::Nothing
        } else if is_copying {
            if self.pages < LOG_PAGES_MAX { Next::Nothing } else { Next::Wait }
        } else if is_rest {
            Next::CopyHere
        } else if is_quiet || is_long || left >= COPY_PAGES {
            Next::CopyBeside
        } else {
            Next::Nothing
        }
    }
}

impl Checkpointer {
    /// Starts the thread, on a connection of its own.
    pub(in crate::store) fn start(path: &Path) -> Result<Self, StoreError> {
        let connection = Connection::open(path).map_err(classify)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(classify)?;
        leave_log_at_close(&connection).map_err(classify)?;
        let file = File::open(path).map_err(|error| StoreError::Disconnected(error.into()))?;
        let file = Arc::new(file);
        let (wanted, asked) = sync_channel::<()>(1);
        let (done, copied) = sync_channel(1);
        let flushed = file.clone();
        let copy = move || {
            let mut copier = Copier::default();
            while asked.recv().is_ok() {
                if done.send(copier.copy_and_flush(&connection, &flushed)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("oncebox-checkpoint".into())
            .spawn(copy)
            .map_err(|error| StoreError::Disconnected(error.into()))?;
        Ok(Self {
            wanted,
            copied,
            is_copying: false,
            copier: Copier::default(),
            thread,
            file: KeptFile { _file: file },
        })
    }

    /// Looks at the log after a commit, when the answer is gone. The writer had waited so long for work.
    pub(in crate::store) fn after_commit(&mut self, writer: &Connection, waited: Duration) -> Flush {
        if self.is_copying
            && let Ok(flush) = self.copied.try_recv()
        {
            self.is_copying = false;
            if flush == Flush::Failed {
                return flush;
            }
        }
        let Ok(log) = ask(writer, "PRAGMA wal_checkpoint(NOOP)") else { return Flush::Fine };
        match log.next(Moment { is_quiet: waited >= QUIET, is_copying: self.is_copying }) {
            Next::Nothing => Flush::Fine,
            Next::CopyBeside => {
                self.is_copying = self.wanted.try_send(()).is_ok();
                // Only a thread that broke does not take it.
                if self.is_copying { Flush::Fine } else { self.copier.copy(writer) }
            }
            Next::CopyHere => self.copier.copy(writer),
            Next::Wait => {
                self.is_copying = false;
                // It answers, or it broke, and then the next commit copies here.
                self.copied.recv().unwrap_or(Flush::Fine)
            }
        }
    }

    /// Lets the thread finish: nobody else may hold the log when it is moved for good.
    pub(in crate::store) fn stop(self) -> KeptFile {
        let Self { wanted, copied, thread, file, .. } = self;
        drop((wanted, copied));
        if thread.join().is_err() {
            tracing::warn!("the WAL checkpoint thread failed");
        }
        file
    }
}

/// The last connection of a file would move the log when it is closed; one that says this does not.
pub(in crate::store) fn leave_log_at_close(connection: &Connection) -> rusqlite::Result<bool> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
}

/// Copies as much as can be copied without making anybody wait.
#[derive(Debug, Default)]
struct Copier {
    copied: i64,
    is_failing: bool,
}

impl Copier {
    /// SQLite flushes the file only when nothing is left to copy, which under load is never.
    fn copy_and_flush(&mut self, connection: &Connection, file: &File) -> Flush {
        let before = self.copied;
        let flush = self.copy(connection);
        if flush == Flush::Failed || self.copied == before {
            return flush;
        }
        file.sync_data().map_or_else(|error| Flush::failed(&error), |()| Flush::Fine)
    }

    /// What cannot be copied stays in the log, and is tried again after a later commit. It is told once, not after each of
    /// many commits.
    fn copy(&mut self, connection: &Connection) -> Flush {
        let outcome = ask(connection, "PRAGMA wal_checkpoint(PASSIVE)");
        let was_failing = std::mem::replace(&mut self.is_failing, outcome.is_err());
        match outcome {
            Ok(log) => {
                self.copied = log.copied;
                Flush::Fine
            }
            Err(error) => {
                if !was_failing {
                    tracing::warn!("WAL checkpoint failed; the WAL keeps growing: {error}");
                }
                Flush::after(&error)
            }
        }
    }
}

fn ask(connection: &Connection, pragma: &str) -> rusqlite::Result<Log> {
    let mut statement = connection.prepare_cached(pragma)?;
    statement.query_row([], |row| Ok(Log { pages: row.get(1)?, copied: row.get(2)? }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::{Access, open_writer};

    #[test]
    fn what_follows_a_commit() {
        let busy = Moment::default();
        let quiet = Moment { is_quiet: true, ..busy };
        let copying = Moment { is_copying: true, ..busy };
        for (pages, copied, moment, expected) in [
            (10, 0, busy, Next::Nothing),
            // No log at all is told as -1.
            (-1, -1, quiet, Next::Nothing),
            (LOG_PAGES, 0, quiet, Next::CopyHere),
            (LOG_PAGES, 0, busy, Next::Nothing),
            (QUIET_REST_PAGES + 1, 0, quiet, Next::CopyBeside),
            (COPY_PAGES, 0, busy, Next::CopyBeside),
            (COPY_PAGES, 0, copying, Next::Nothing),
            (COPY_PAGES + 900, COPY_PAGES, busy, Next::Nothing),
            (LONG_LOG_PAGES + 1900, LONG_LOG_PAGES, busy, Next::CopyBeside),
            (LONG_LOG_PAGES + 900, LONG_LOG_PAGES, busy, Next::CopyHere),
            (3 * LONG_LOG_PAGES, 3 * LONG_LOG_PAGES - 1900, busy, Next::CopyHere),
            (LOG_PAGES_MAX, 0, copying, Next::Wait),
            // Somebody had read for a long time: what nobody could copy is too much for the writer.
            (LOG_PAGES_MAX, 0, busy, Next::CopyBeside),
            (LOG_PAGES_MAX, 0, quiet, Next::CopyBeside),
        ] {
            assert_eq!(Log { pages, copied }.next(moment), expected, "{pages} {copied} {moment:?}");
        }
    }

    const BUSY: Duration = Duration::ZERO;

    /// A database with one large row, and the writer's way of committing.
    struct Fixture {
        checkpointer: Checkpointer,
        writer: Connection,
        _db: testkit::TestDatabase,
    }

    impl Fixture {
        fn new() -> Self {
            let db = testkit::TestDatabase::fresh(testkit::Backend::Sqlite);
            let path = db.file().unwrap();
            let writer = open_writer(path, Access::Server).unwrap();
            writer.execute_batch("CREATE TABLE large (id INTEGER PRIMARY KEY, body BLOB)").unwrap();
            Self { checkpointer: Checkpointer::start(path).unwrap(), writer, _db: db }
        }

        /// Commits so many bytes and returns what the log holds then.
        fn commit(&mut self, bytes: i64, waited: Duration) -> Log {
            self.writer.execute("REPLACE INTO large VALUES (1, zeroblob(?1))", [bytes]).unwrap();
            assert_eq!(self.checkpointer.after_commit(&self.writer, waited), Flush::Fine);
            ask(&self.writer, "PRAGMA wal_checkpoint(NOOP)").unwrap()
        }

        /// Commits now and then until the log begins anew.
        fn commit_quietly_until_it_begins_anew(&mut self) {
            let short = |log: &Log| log.pages < 100;
            (0..1000)
                .map(|_| {
                    std::thread::sleep(Duration::from_millis(10));
                    self.commit(1, QUIET)
                })
                .find(short)
                .expect("the log begins anew");
        }
    }

    #[test]
    fn a_busy_log_begins_anew_before_it_is_too_long() {
        let mut fixture = Fixture::new();
        let (mut longest, mut last, mut begun_anew) = (0, 0, 0);
        while begun_anew < 2 {
            let log = fixture.commit(4 << 20, BUSY);
            begun_anew += i32::from(log.pages < last);
            longest = longest.max(log.pages);
            last = log.pages;
        }
        assert!((LONG_LOG_PAGES..LOG_PAGES_MAX + LOG_PAGES).contains(&longest), "{longest}");
        fixture.checkpointer.stop();
    }

    #[test]
    fn a_quiet_log_begins_anew_when_it_is_short() {
        let mut fixture = Fixture::new();
        while fixture.commit(1 << 20, BUSY).pages < LOG_PAGES {}
        let log = fixture.commit(1 << 20, QUIET);
        assert_eq!(log.pages, log.copied, "everything is copied at the first quiet commit");
        assert!(fixture.commit(1, BUSY).pages < 100, "and the next one begins the log anew");
        fixture.checkpointer.stop();
    }

    #[test]
    fn a_log_that_grew_long_is_copied_beside_when_it_gets_quiet() {
        let mut fixture = Fixture::new();
        while fixture.commit(1 << 20, BUSY).pages <= QUIET_REST_PAGES {}
        fixture.commit_quietly_until_it_begins_anew();
        fixture.checkpointer.stop();
    }

    #[test]
    fn a_reader_that_stays_does_not_stop_the_writer() {
        let mut fixture = Fixture::new();
        let reader = Connection::open(fixture.writer.path().unwrap()).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM large").unwrap();
        let enough = |log: &Log| log.pages > COPY_PAGES + LOG_PAGES;
        let grown = (0..1000).map(|_| fixture.commit(4 << 20, BUSY)).find(enough).unwrap();
        assert!(grown.copied < grown.pages, "the reader needs the old pages");
        reader.execute_batch("COMMIT").unwrap();
        fixture.commit_quietly_until_it_begins_anew();
        fixture.checkpointer.stop();
    }
}
