//! SQLite's writer thread: one transaction after the other, each a conversation, on the only connection that writes.

use std::sync::Arc;
use std::time::Instant;

use rusqlite::{Connection, ffi};
use tokio::sync::{mpsc, oneshot};

use crate::store::sqlite::checkpoint::{Checkpointer, leave_log_at_close};
use crate::store::sqlite::classify;
use crate::store::sqlite::files::OpenFiles;
use crate::store::{Commit, StoreError};

pub(in crate::store) type Job = Box<dyn FnOnce(&Connection) + Send>;
pub(in crate::store) type LastJob = Box<dyn FnOnce(&Connection) -> Result<(), StoreError> + Send>;

/// What the writer is asked to do next.
pub(in crate::store) enum Step {
    Run(Job),
    Commit(Option<LastJob>, oneshot::Sender<Commit>),
    Close,
}

/// A transaction that waits for its turn.
pub(in crate::store) struct Begin {
    pub(in crate::store) steps: mpsc::Receiver<Step>,
    pub(in crate::store) refusal: oneshot::Sender<StoreError>,
}

/// The writer thread: one transaction after the other until every handle is gone, a flush failed, or the file is not the
/// one on the disk any more.
///
/// What a failed flush did not write down the system may have dropped from memory, and a later flush would not bring it
/// back: nothing can be promised any more. Whoever opens the file anew reads what is on the disk.
pub(in crate::store) fn write(
    connection: Connection,
    mut checkpointer: Option<Checkpointer>,
    files: Option<Arc<OpenFiles>>,
    mut begins: mpsc::Receiver<Begin>,
) {
    let end = write_until_the_end(&connection, &mut checkpointer, files.as_deref(), &mut begins);
    // Whoever still waits hears of it now.
    drop(begins);
    let file = checkpointer.map(Checkpointer::stop);
    let is_kept = files.as_ref().is_none_or(|files| files.check().is_ok());
    close(connection, &end, is_kept);
    if let Some(files) = files.filter(|_| !is_kept) {
        files.put_log_back();
    }
    drop(file);
}

enum End {
    Asked,
    HandlesGone,
    /// Nothing that was written is sure to be kept.
    Unkept,
}

fn write_until_the_end(
    connection: &Connection,
    checkpointer: &mut Option<Checkpointer>,
    files: Option<&OpenFiles>,
    begins: &mut mpsc::Receiver<Begin>,
) -> End {
    loop {
        let asked_at = Instant::now();
        let Some(Begin { mut steps, refusal }) = begins.blocking_recv() else { return End::HandlesGone };
        // Nothing is locked before there is something to do.
        let first = match steps.blocking_recv() {
            Some(Step::Close) => return End::Asked,
            Some(first) => first,
            None => continue,
        };
        let waited = asked_at.elapsed();
        let flush = match connection.execute_batch("BEGIN IMMEDIATE") {
            Ok(()) => run_transaction(connection, files, first, steps),
            // The answer's channel closes after this, so whoever waits finds the refusal. The order matters.
            Err(error) => {
                drop((refusal.send(classify(error)), first));
                Flush::Fine
            }
        };
        let checkpointed = checkpointer.as_mut().map(|own| own.after_commit(connection, waited));
        if flush == Flush::Failed || checkpointed == Some(Flush::Failed) {
            return End::Unkept;
        }
    }
}

/// Whether the disk took what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Flush {
    Fine,
    /// Or took it in a file that nobody finds again.
    Failed,
}

impl Flush {
    /// What an error says about it.
    pub(in crate::store) fn after(error: &rusqlite::Error) -> Self {
        match error.sqlite_error().map(|error| error.extended_code) {
            Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC) => Self::failed(error),
            _ => Self::Fine,
        }
    }

    /// The disk did not take it.
    pub(in crate::store) fn failed(error: &dyn std::error::Error) -> Self {
        tracing::error!("fsync failed; nothing is written any more until the server is restarted: {error}");
        Self::Failed
    }
}

fn run_transaction(
    connection: &Connection,
    files: Option<&OpenFiles>,
    first: Step,
    mut steps: mpsc::Receiver<Step>,
) -> Flush {
    let mut step = Some(first);
    let mut flush = Flush::Fine;
    loop {
        match step {
            Some(Step::Run(job)) => job(connection),
            Some(Step::Commit(last, answer)) => {
                let outcome = match last.map_or(Ok(()), |last| last(connection)) {
                    Ok(()) => commit(connection, files, &mut flush),
                    Err(error) => Commit::Failed(error),
                };
                // Nobody waits only when the caller was dropped.
                let _ = answer.send(outcome);
                break;
            }
            Some(Step::Close) | None => break,
        }
        step = steps.blocking_recv();
    }
    roll_back(connection);
    flush
}

fn close(connection: Connection, end: &End, is_kept: bool) {
    let left = match end {
        // What could not be flushed must not be taken for moved, nor the log of another file be removed with ours.
        _ if !is_kept => leave_log_at_close(&connection).map(drop),
        End::Unkept => leave_log_at_close(&connection).map(drop),
        // A full checkpoint fails only while somebody else reads the file, and then the log stays beside it as ever.
        End::Asked => connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())),
        End::HandlesGone => Ok(()),
    };
    if let Err(error) = left {
        tracing::warn!("WAL checkpoint failed: {error}");
    }
    if let Err((_, error)) = connection.close() {
        tracing::warn!("the database did not close well: {error}");
    }
}

fn commit(connection: &Connection, files: Option<&OpenFiles>, flush: &mut Flush) -> Commit {
    let Err(error) = connection.execute_batch("COMMIT") else {
        // Looked at behind the commit: whatever is acknowledged was in the file while it was there.
        return match files.map_or(Ok(()), OpenFiles::check) {
            Ok(()) => Commit::Committed,
            Err(gone) => {
                *flush = Flush::Failed;
                Commit::Unknown(gone.into())
            }
        };
    };
    roll_back(connection);
    *flush = Flush::after(&error);
    // What failed may still have reached the disk: after a crash the log would bring it back.
    let code = error.sqlite_error().map(|error| error.extended_code);
    let is_unclear = code.is_some_and(|code| code & 0xff == ffi::SQLITE_IOERR);
    let error = classify(error);
    if is_unclear { Commit::Unknown(error) } else { Commit::Failed(error) }
}

fn roll_back(connection: &Connection) {
    if !connection.is_autocommit()
        && let Err(error) = connection.execute_batch("ROLLBACK")
    {
        tracing::error!("rolling back failed: {error}");
    }
}
