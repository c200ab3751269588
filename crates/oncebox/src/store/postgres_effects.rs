//! A batch of effects on Postgres: prepared once, all sent before the first answer is waited for.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use deadpool_postgres::Object;
use futures_util::future::{MaybeDone, maybe_done};
use tokio_postgres::{Error, Statement};

use super::StoreError;
use super::effects::{Step, StepFailed};
use super::postgres::{Database, Tx, as_params, classify};

/// What the answer may take beyond the statements' own deadline.
const GRACE: Duration = Duration::from_secs(2);

impl Tx {
    pub(super) async fn run_steps(
        &mut self,
        steps: &[Step],
        deadline: Duration,
    ) -> Result<Result<(), StepFailed>, StoreError> {
        let ran = self.step_within(deadline + GRACE, async |client| Ok(run(client, steps, deadline).await)).await?;
        match ran {
            Ok(()) => Ok(Ok(())),
            Err((index, error)) => {
                let text = describe(&error);
                match classify(error) {
                    // The event cannot be blamed for a lost connection.
                    lost @ StoreError::Disconnected(_) => Err(lost),
                    _ => Ok(Err((index, text))),
                }
            }
        }
    }
}

impl Database {
    /// Prepares each statement on a connection that is closed afterwards, and says what is wrong with them.
    pub(super) async fn prepare_each(&self, statements: &[String]) -> Result<Vec<String>, StoreError> {
        let client = self.lone_reader().await?;
        let mut refused = Vec::new();
        for sql in statements {
            match client.prepare(sql).await {
                Ok(_) => {}
                Err(error) if error.as_db_error().is_some() => refused.push(describe(&error)),
                Err(error) => return Err(classify(error)),
            }
        }
        Ok(refused)
    }
}

async fn run(client: &Object, steps: &[Step], deadline: Duration) -> Result<(), (usize, Error)> {
    let first = steps.first().map_or(0, |step| step.index);
    let limit = format!("SET LOCAL statement_timeout = {}", deadline.as_millis().clamp(1, 86_400_000));
    client.batch_execute(&limit).await.map_err(|error| (first, error))?;
    let mut statements: HashMap<&str, Statement> = HashMap::new();
    for step in steps {
        if !statements.contains_key(step.sql.as_str()) {
            let statement = client.prepare_cached(&step.sql).await.map_err(|error| (step.index, error))?;
            statements.insert(&step.sql, statement);
        }
    }
    let send = async |step: &Step| client.execute(&statements[step.sql.as_str()], &as_params(&step.values)).await;
    let mut sent: Vec<Pin<Box<MaybeDone<_>>>> = steps.iter().map(|step| Box::pin(maybe_done(send(step)))).collect();
    // The first poll sends; the driver keeps the order of the first polls.
    poll_fn(|context| {
        for one in &mut sent {
            let _ = one.as_mut().poll(context);
        }
        Poll::Ready(())
    })
    .await;
    for (step, mut one) in steps.iter().zip(sent) {
        one.as_mut().await;
        if let Some(Err(error)) = one.as_mut().take_output() {
            return Err((step.index, error));
        }
    }
    Ok(())
}

/// What the server said, with its code; never the statement's values.
fn describe(error: &Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} ({})", said.message(), said.code().code()),
        None => error.to_string(),
    }
}
