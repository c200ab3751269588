//! A batch of effects on Postgres: prepared once, all sent before the first answer is waited for.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use deadpool_postgres::Object;
use futures_util::future::{MaybeDone, maybe_done};
use tokio_postgres::{Error, Statement};

use super::StoreError;
use super::effects::{Blame, Step, StepFailed};
use super::postgres::{Database, Tx, as_params, classify};
use super::sql::postgres as sql;

/// What the answer may take beyond the statements' own deadline.
const GRACE: Duration = Duration::from_secs(2);

impl Tx {
    /// Runs the steps; `apart`: behind a savepoint, so that a failure undoes them and nothing else.
    pub(super) async fn run_steps(
        &mut self,
        steps: &[Step],
        apart: bool,
        deadline: Duration,
    ) -> Result<Result<(), StepFailed>, StoreError> {
        let limit = deadline + GRACE;
        let ran = self.step_within(limit, async |client| Ok(run(client, steps, apart, deadline).await)).await?;
        let Err((index, error)) = ran else { return Ok(Ok(())) };
        let text = describe(&error);
        let blame = match classify(error) {
            StoreError::Disconnected(_) => Blame::Session,
            StoreError::Busy(_) => Blame::Unclear,
            _ => Blame::Event,
        };
        if apart && blame == Blame::Event {
            self.step(async |client| client.batch_execute(sql::UNDO_CHUNK).await).await?;
        }
        Ok(Err(StepFailed::new(index, text, blame)))
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

async fn run(client: &Object, steps: &[Step], apart: bool, deadline: Duration) -> Result<(), (usize, Error)> {
    let (first, last) = (steps.first().map_or(0, |step| step.index), steps.last().map_or(0, |step| step.index));
    let mut statements: HashMap<&str, Statement> = HashMap::new();
    for step in steps {
        if !statements.contains_key(step.sql.as_str()) {
            let statement = client.prepare_cached(&step.sql).await.map_err(|error| (step.index, error))?;
            statements.insert(&step.sql, statement);
        }
    }
    let limit = format!("SET LOCAL statement_timeout = {}", deadline.as_millis().clamp(1, 86_400_000));
    let begin = if apart { format!("{limit};{}", sql::BEGIN_CHUNK) } else { limit };
    let send = async |step: &Step| client.execute(&statements[step.sql.as_str()], &as_params(&step.values)).await;
    let mut begun = pin!(maybe_done(client.batch_execute(&begin)));
    let mut sent: Vec<Pin<Box<MaybeDone<_>>>> = steps.iter().map(|step| Box::pin(maybe_done(send(step)))).collect();
    let mut ended = pin!(maybe_done(async {
        match apart {
            true => client.batch_execute(sql::END_CHUNK).await,
            false => Ok(()),
        }
    }));
    // The first poll sends; the driver keeps the order of the first polls.
    poll_fn(|context| {
        let _ = begun.as_mut().poll(context);
        for one in &mut sent {
            let _ = one.as_mut().poll(context);
        }
        let _ = ended.as_mut().poll(context);
        Poll::Ready(())
    })
    .await;
    begun.as_mut().await;
    if let Some(Err(error)) = begun.as_mut().take_output() {
        return Err((first, error));
    }
    for (step, mut one) in steps.iter().zip(sent) {
        one.as_mut().await;
        if let Some(Err(error)) = one.as_mut().take_output() {
            return Err((step.index, error));
        }
    }
    ended.as_mut().await;
    match ended.as_mut().take_output() {
        Some(Err(error)) => Err((last, error)),
        _ => Ok(()),
    }
}

/// What the server said, with its code; never the statement's values.
fn describe(error: &Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} ({})", said.message(), said.code().code()),
        None => error.to_string(),
    }
}
