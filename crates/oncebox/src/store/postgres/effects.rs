//! A batch of effects on Postgres: prepared once, all sent before the first answer is waited for.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{MaybeDone, join4, maybe_done};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Statement};

use crate::delivery::Failed;
use crate::store::handling::effects::{Blame, EffectFailed, Step, StepFailed};
use crate::store::handling::handler_block::Loop;
use crate::store::postgres::{Database, Object, Tx, as_params, classify};
use crate::store::sql::postgres as sql;
use crate::store::{Claimed, StoreError};

/// What the answer may take beyond the statements' own deadline.
const GRACE: Duration = Duration::from_secs(2);

impl Tx {
    /// Runs the steps; `apart`: behind a savepoint, so that a failure undoes them and nothing else.
    pub(in crate::store) async fn run_steps(
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
            error if error.is_stale() || error.is_read_only() => self.out_of_date(&error),
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

impl Tx {
    /// Runs a handler's statements for a whole batch as one block, each failure apart, and says which failed; none where
    /// this way is not open to them.
    pub(in crate::store) async fn run_loop(
        &mut self,
        looped: &Loop,
        batch: &[&Claimed],
        deadline: Duration,
    ) -> Result<Option<Result<Vec<EffectFailed>, StepFailed>>, StoreError> {
        let Some(values) = self.loops.load(Ordering::Relaxed).then(|| looped.values(batch)).flatten() else {
            return Ok(None);
        };
        let limit = deadline + GRACE;
        let ran =
            self.step_within(limit, async |client| Ok(run_block(client, looped, &values, deadline).await)).await?;
        let error = match ran {
            Ok(said) => return read_failed(&said, batch.len()).map(|failed| Some(Ok(failed))),
            Err(error) => error,
        };
        let text = describe(&error);
        let blame = match classify(error) {
            error if error.is_stale() || error.is_read_only() => self.out_of_date(&error),
            StoreError::Disconnected(_) => Blame::Session,
            StoreError::Busy(_) => Blame::Unclear,
            // What an event does wrong is caught inside, so it is the block that is refused.
            _ => {
                tracing::warn!("statements are sent one by one from now on, because a block was refused: {text}");
                self.loops.store(false, Ordering::Relaxed);
                Blame::Unclear
            }
        };
        Ok(Some(Err(StepFailed::somewhere(text, blame))))
    }
}

impl Tx {
    /// The application has changed what its statements were prepared against, or has left its session read-only: no session
    /// of before is used again.
    fn out_of_date(&mut self, error: &StoreError) -> Blame {
        tracing::info!("handlers get new sessions: {}", error.chain());
        self.abandon(error);
        Blame::Plans
    }
}

async fn run_block(
    client: &Object,
    looped: &Loop,
    values: &[String],
    deadline: Duration,
) -> Result<Vec<String>, Error> {
    let hand_over = client.prepare_cached(&looped.hand_over).await?;
    let failed = client.prepare_cached(sql::EACH_FAILED).await?;
    let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
    let limit = limit_of(deadline);
    // The driver sends in the order of the first polls; nothing runs after what failed.
    let (limited, handed, ran, said) = join4(
        client.batch_execute(&limit),
        client.query_one(&hand_over, &values),
        client.batch_execute(&looped.block),
        client.query_one(&failed, &[]),
    )
    .await;
    limited?;
    handed?;
    ran?;
    said?.try_get(0)
}

/// Three texts for each that failed: its number from 1, the code and the message. Nothing is guessed: an event that is
/// missing here counts as written.
fn read_failed(said: &[String], events: usize) -> Result<Vec<EffectFailed>, StoreError> {
    let corrupt = || StoreError::Corrupt { what: "answer of a block" };
    let read = |three: &[String]| {
        let [number, code, message] = three else { return Err(corrupt()) };
        let index = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let index = index.filter(|index| *index < events).ok_or_else(corrupt)?;
        let failed = Failed::Transient { retry_after: None };
        Ok(EffectFailed { index, failed, error: format!("{message} ({code})") })
    };
    said.chunks(3).map(read).collect()
}

fn limit_of(deadline: Duration) -> String {
    format!("SET LOCAL statement_timeout = {}", deadline.as_millis().clamp(1, 86_400_000))
}

impl Database {
    /// Prepares each statement on a connection that is closed afterwards, and says what is wrong with them.
    pub(in crate::store) async fn prepare_each(&self, statements: &[String]) -> Result<Vec<String>, StoreError> {
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
    let limit = limit_of(deadline);
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
