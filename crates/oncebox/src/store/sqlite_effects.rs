//! A batch of effects on SQLite: one job on the writer thread, interrupted at the deadline.

use std::pin::pin;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, params_from_iter};

use super::StoreError;
use super::effects::{Step, StepFailed};
use super::sqlite::{Database, Tx, classify};

impl Tx {
    pub(super) async fn run_steps(
        &mut self,
        steps: Vec<Step>,
        deadline: Duration,
    ) -> Result<Result<(), StepFailed>, StoreError> {
        let interrupt = self.interrupt();
        let mut work = pin!(self.run(move |connection| run(connection, steps)));
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

fn run(connection: &Connection, steps: Vec<Step>) -> Result<Result<(), StepFailed>, StoreError> {
    for step in steps {
        let Err(error) = run_one(connection, &step) else { continue };
        let text = match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => "the statement took too long".to_owned(),
            _ => error.to_string(),
        };
        return match classify(error) {
            // The event cannot be blamed for a full disk.
            lost @ StoreError::Disconnected(_) => Err(lost),
            _ => Ok(Err((step.index, text))),
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
