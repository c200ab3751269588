//! Where log lines go: standard error. The lines of events that came in are written together, a few milliseconds late: a
//! system call for each of them took as long as answering it. Every other line is written at once, behind those that wait.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// The part of the library that writes a line for each event.
const ARRIVALS: &str = "oncebox::ingest::metric";
/// How long a line may wait.
const LATE_MAX: Duration = Duration::from_millis(5);
/// As much as waits before it is written, however short the wait was.
const WAITING_BYTES_MAX: usize = 64 * 1024;

/// Makes writers of lines. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct LineWriter {
    waiting: Arc<Mutex<Vec<u8>>>,
    /// Told when the first line begins to wait.
    late: SyncSender<()>,
}

/// Writes what waits when the program ends.
#[derive(Debug)]
#[must_use = "lines that wait are written when it is dropped"]
pub(crate) struct LastLines(LineWriter);

impl LineWriter {
    /// Starts the thread that writes what waited long enough; it ends with the last writer.
    pub(crate) fn start() -> io::Result<(Self, LastLines)> {
        let (late, told) = sync_channel(1);
        let writer = Self { waiting: Arc::default(), late };
        let waiting = writer.waiting.clone();
        std::thread::Builder::new().name("oncebox-log".into()).spawn(move || write_late(&waiting, &told))?;
        Ok((writer.clone(), LastLines(writer)))
    }
}

fn write_late(waiting: &Mutex<Vec<u8>>, told: &Receiver<()>) {
    while told.recv().is_ok() {
        std::thread::sleep(LATE_MAX);
        write_all(&mut waiting.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Nobody is there to be told that the log cannot be written.
fn write_all(waiting: &mut Vec<u8>) {
    let _ = io::stderr().write_all(waiting);
    waiting.clear();
}

impl Drop for LastLines {
    fn drop(&mut self) {
        write_all(&mut self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[derive(Debug)]
pub(crate) struct Line<'a> {
    to: &'a LineWriter,
    may_wait: bool,
}

impl<'a> MakeWriter<'a> for LineWriter {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { to: self, may_wait: false }
    }

    fn make_writer_for(&'a self, line: &Metadata<'_>) -> Line<'a> {
        Line { to: self, may_wait: *line.level() == Level::INFO && line.target() == ARRIVALS }
    }
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut waiting = self.to.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = waiting.is_empty();
        waiting.extend_from_slice(bytes);
        if !self.may_wait || waiting.len() > WAITING_BYTES_MAX {
            write_all(&mut waiting);
        } else if is_first {
            // Full when the thread is about to write anyway.
            let _ = self.to.late.try_send(());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
