//! A batch of effects on SQLite: one job on the writer thread, interrupted at the deadline.

use std::pin::pin;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, params_from_iter};

use super::StoreError;
use super::effects::{Blame, Step, StepFailed};
use super::sql::sqlite as sql;
use super::sqlite::{Database, Tx, classify};

impl Tx {
    /// Runs the steps; `apart`: behind a savepoint, so that a failure undoes them and nothing else.
    pub(super) async fn run_steps(
        &mut self,
        steps: Vec<Step>,
        apart: bool,
        deadline: Duration,
    ) -> Result<Result<(), StepFailed>, StoreError> {
        let interrupt = self.interrupt();
        let mut work =
            pin!(self.run(move |connection| if apart { run_apart(connection, steps) } else { run(connection, steps) }));
        match tokio::time::timeout(deadline, work.as_mut()).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => {
                interrupt.interrupt();
                work.await
            }
        }
    }
}

impl Database {
    /// Prepares each statement on a connection that may only read, and says what is wrong with them.
    pub(super) async fn prepare_each(&self, statements: Vec<String>) -> Result<Vec<String>, StoreError> {
        self.on_lone_reader(move |connection| {
            let mut refused = Vec::new();
            for sql in &statements {
                let Err(error) = connection.prepare(sql) else { continue };
                let text = said(&error);
                match classify(error) {
                    StoreError::Refused(_) => refused.push(text),
                    other => return Err(other),
                }
            }
            Ok(refused)
        })
        .await
    }
}

/// What SQLite said, without the whole statement behind it.
fn said(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}

fn run_apart(connection: &Connection, steps: Vec<Step>) -> Result<Result<(), StepFailed>, StoreError> {
    let chunk = |sql: &str| connection.prepare_cached(sql).and_then(|mut one| one.execute([])).map_err(classify);
    chunk(sql::BEGIN_CHUNK)?;
    let ran = run(connection, steps)?;
    if ran.is_err() {
        // Refused where the failure ended the whole transaction, and then that is what the caller must know.
        chunk(sql::UNDO_CHUNK)?;
    }
    chunk(sql::END_CHUNK)?;
    Ok(ran)
}

fn run(connection: &Connection, steps: Vec<Step>) -> Result<Result<(), StepFailed>, StoreError> {
    for step in steps {
        let Err(error) = run_one(connection, &step) else { continue };
        let (text, blame) = match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => ("the statement took too long".to_owned(), Blame::Unclear),
            _ => (error.to_string(), Blame::Event),
        };
        return match classify(error) {
            // The event cannot be blamed for a full disk.
            lost @ StoreError::Disconnected(_) => Err(lost),
            _ => Ok(Err(StepFailed::new(step.index, text, blame))),
        };
    }
    Ok(Ok(()))
}

fn run_one(connection: &Connection, step: &Step) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(&step.sql)?;
    let mut rows = statement.query(params_from_iter(&step.values))?;
    while rows.next()?.is_some() {}
    Ok(())
}
