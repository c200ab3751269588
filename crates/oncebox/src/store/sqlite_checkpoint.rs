//! Moves SQLite's log into the database file, out of the way of the acknowledgement.
//!
//! Left alone, SQLite does it inside the COMMIT that made the log long, and whoever waits for that commit waits for the
//! copying and for one more flush. Here a thread of its own copies while the writer goes on. What was written meanwhile
//! is little; the writer copies that itself, after its answers, because the log begins anew only at a moment with
//! nothing left to copy. That step flushes the file too, so under load it is rare: a quiet server keeps a short log, a
//! busy one lets it grow. To die at any point of this costs nothing: the log holds every page until it begins anew.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::StoreError;
use super::sqlite::classify;

/// Pages in the log of a quiet server before it begins anew: 16 MiB.
pub(super) const LOG_PAGES: i64 = 4000;
/// A commit that comes so long after the one before belongs to traffic in which nobody notices a flush more.
const QUIET: Duration = Duration::from_millis(100);
/// Pages that the thread copies at once. The more of them, the more are copies of the same few.
const COPY_PAGES: i64 = 16 * 1024;
/// Pages in the log of a busy server before it begins anew: 128 MiB.
const LONG_LOG_PAGES: i64 = 32 * 1024;
/// What the writer of a busy server copies itself is at most this part of the log: the longer the log, the less it is
/// worth to have the thread copy once more.
const REST_PART: i64 = 32;
/// A log as long as this (512 MiB) means that the disk copies slower than we write: then the writer waits for it.
const LOG_PAGES_MAX: i64 = 128 * 1024;

/// The writer's end of the copying thread.
#[derive(Debug)]
pub(super) struct Checkpointer {
    wanted: SyncSender<()>,
    copied: Receiver<()>,
    is_copying: bool,
    last_commit: Instant,
    /// For what the writer copies itself.
    copier: Copier,
    thread: JoinHandle<()>,
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
        let is_too_long = self.pages >= LOG_PAGES_MAX;
        if self.pages < LOG_PAGES {
            Next::Nothing
        } else if is_copying {
            if is_too_long { Next::Wait } else { Next::Nothing }
        } else if is_quiet || is_too_long || (is_long && left * REST_PART <= self.pages) {
            Next::CopyHere
        } else if is_long || left >= COPY_PAGES {
            Next::CopyBeside
        } else {
            Next::Nothing
        }
    }
}

impl Checkpointer {
    /// Starts the thread, on a connection of its own.
    pub(super) fn start(path: &Path) -> Result<Self, StoreError> {
        let connection = Connection::open(path).map_err(classify)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(classify)?;
        let (wanted, asked) = sync_channel::<()>(1);
        let (done, copied) = sync_channel(1);
        let copy = move || {
            let mut copier = Copier::default();
            while asked.recv().is_ok() {
                copier.copy(&connection);
                if done.send(()).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("oncebox-checkpoint".into())
            .spawn(copy)
            .map_err(|error| StoreError::Disconnected(error.into()))?;
        let copier = Copier::default();
        Ok(Self { wanted, copied, is_copying: false, last_commit: Instant::now(), copier, thread })
    }

    /// Looks at the log after a commit, when the answer is gone.
    pub(super) fn after_commit(&mut self, writer: &Connection) {
        self.is_copying = self.is_copying && self.copied.try_recv().is_err();
        let is_quiet = std::mem::replace(&mut self.last_commit, Instant::now()).elapsed() >= QUIET;
        let Ok(log) = ask(writer, "PRAGMA wal_checkpoint(NOOP)") else { return };
        match log.next(Moment { is_quiet, is_copying: self.is_copying }) {
            Next::Nothing => {}
            Next::CopyBeside => self.is_copying = self.wanted.try_send(()).is_ok(),
            Next::CopyHere => self.copier.copy(writer),
            Next::Wait => {
                // It answers, or it is gone, and then there is nothing to wait for.
                let _ = self.copied.recv();
                self.is_copying = false;
            }
        }
    }

    /// Lets the thread finish: nobody else may hold the log when it is moved for good.
    pub(super) fn stop(self) {
        let Self { wanted, copied, thread, .. } = self;
        drop((wanted, copied));
        if thread.join().is_err() {
            tracing::warn!("the thread that moves the log into the database file broke");
        }
    }
}

/// Copies as much as can be copied without making anybody wait.
#[derive(Debug, Default)]
struct Copier {
    is_failing: bool,
}

impl Copier {
    /// What fails is tried again after a later commit: every page is still in the log, and is written to the file anew.
    /// It is told once, not after each of many commits.
    fn copy(&mut self, connection: &Connection) {
        let outcome = ask(connection, "PRAGMA wal_checkpoint(PASSIVE)");
        let was_failing = std::mem::replace(&mut self.is_failing, outcome.is_err());
        if let (Err(error), false) = (outcome, was_failing) {
            tracing::warn!("the log could not be moved into the database file, it grows meanwhile: {error}");
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
            (COPY_PAGES, 0, busy, Next::CopyBeside),
            (COPY_PAGES, 0, copying, Next::Nothing),
            (COPY_PAGES + 900, COPY_PAGES, busy, Next::Nothing),
            (LONG_LOG_PAGES + 1900, LONG_LOG_PAGES, busy, Next::CopyBeside),
            (LONG_LOG_PAGES + 900, LONG_LOG_PAGES, busy, Next::CopyHere),
            (3 * LONG_LOG_PAGES, 3 * LONG_LOG_PAGES - 1900, busy, Next::CopyHere),
            (LOG_PAGES_MAX, 0, copying, Next::Wait),
            (LOG_PAGES_MAX, 0, busy, Next::CopyHere),
        ] {
            assert_eq!(Log { pages, copied }.next(moment), expected, "{pages} {copied} {moment:?}");
        }
    }

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
        fn commit(&mut self, bytes: i64) -> Log {
            self.writer.execute("REPLACE INTO large VALUES (1, zeroblob(?1))", [bytes]).unwrap();
            self.checkpointer.after_commit(&self.writer);
            ask(&self.writer, "PRAGMA wal_checkpoint(NOOP)").unwrap()
        }
    }

    #[test]
    fn a_busy_log_begins_anew_before_it_is_too_long() {
        let mut fixture = Fixture::new();
        let (mut longest, mut last, mut begun_anew) = (0, 0, 0);
        while begun_anew < 2 {
            let log = fixture.commit(4 << 20);
            assert!(log.pages < LOG_PAGES_MAX, "{log:?}");
            begun_anew += i32::from(log.pages < last);
            longest = longest.max(log.pages);
            last = log.pages;
        }
        assert!(longest > LOG_PAGES, "{longest}");
        fixture.checkpointer.stop();
    }

    #[test]
    fn a_quiet_log_begins_anew_when_it_is_short() {
        let mut fixture = Fixture::new();
        while fixture.commit(1 << 20).pages < LOG_PAGES {}
        std::thread::sleep(QUIET);
        let log = fixture.commit(1);
        assert_eq!(log.pages, log.copied, "everything is copied at the first quiet commit");
        assert!(fixture.commit(1).pages < 100, "and the next one begins the log anew");
        fixture.checkpointer.stop();
    }

    #[test]
    fn a_reader_that_stays_does_not_stop_the_writer() {
        let mut fixture = Fixture::new();
        let reader = Connection::open(fixture.writer.path().unwrap()).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM large").unwrap();
        let grown = (0..).map(|_| fixture.commit(4 << 20)).find(|log| log.pages > COPY_PAGES + LOG_PAGES).unwrap();
        assert!(grown.copied < grown.pages, "the reader needs the old pages");
        reader.execute_batch("COMMIT").unwrap();
        std::thread::sleep(QUIET);
        fixture.commit(1);
        assert!(fixture.commit(1).pages < 100, "with the reader gone the log begins anew");
        fixture.checkpointer.stop();
    }
}
