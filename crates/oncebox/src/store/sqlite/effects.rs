//! A batch of effects on SQLite: one job on the writer thread, which ends it at the deadline.

use std::time::Duration;

use rusqlite::{Connection, ErrorCode, params_from_iter};

use crate::clock::Countdown;
use crate::store::StoreError;
use crate::store::handling::effects::{Blame, Step, StepFailed};
use crate::store::sql::sqlite as sql;
use crate::store::sqlite::{Database, Tx, classify};

/// How many steps of SQLite's machine pass between two looks at the deadline: some tenths of a millisecond.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

impl Tx {
    /// Waits until the writer thread has come to this transaction.
    pub(in crate::store) async fn turn(&mut self) -> Result<(), StoreError> {
        self.run(|_| Ok(())).await
    }

    /// Runs the steps; `apart`: behind a savepoint, so that a failure undoes them and nothing else.
    ///
    /// The deadline is watched by the writer thread itself, from the moment it begins: whoever waits may be gone by
    /// then, and a signal from outside could hit another transaction.
    pub(in crate::store) async fn run_steps(
        &mut self,
        steps: Vec<Step>,
        apart: bool,
        deadline: Duration,
    ) -> Result<Result<(), StepFailed>, StoreError> {
        self.run(
            move |connection| {
                if apart { run_apart(connection, steps, deadline) } else { run_in_time(connection, steps, deadline) }
            },
        )
        .await
    }
}

impl Database {
    /// Prepares each statement on a connection that may only read, and says what is wrong with them.
    pub(in crate::store) async fn prepare_each(&self, statements: Vec<String>) -> Result<Vec<String>, StoreError> {
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

fn run_apart(
    connection: &Connection,
    steps: Vec<Step>,
    deadline: Duration,
) -> Result<Result<(), StepFailed>, StoreError> {
    let chunk = |sql: &str| connection.prepare_cached(sql).and_then(|mut one| one.execute([])).map_err(classify);
    chunk(sql::BEGIN_CHUNK)?;
    let ran = run_in_time(connection, steps, deadline)?;
    if ran.is_err() {
        // Refused where the failure ended the whole transaction, and then that is what the caller must know.
        chunk(sql::UNDO_CHUNK)?;
    }
    chunk(sql::END_CHUNK)?;
    Ok(ran)
}

fn run_in_time(
    connection: &Connection,
    steps: Vec<Step>,
    deadline: Duration,
) -> Result<Result<(), StepFailed>, StoreError> {
    let countdown = Countdown::from(deadline);
    let is_over = move || countdown.left().is_zero();
    connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(is_over)).map_err(classify)?;
    let ran = run(connection, steps);
    connection.progress_handler(0, None::<fn() -> bool>).map_err(classify)?;
    ran
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
