//! Running a handler's SQL inside the transaction that will mark its deliveries done.
//!
//! A batch is sent in chunks, each without waiting between its events and each behind a savepoint of its own. Where one
//! event fails, its chunk alone is undone and runs again without it: so a failing event costs a few neighbours time and
//! nobody their effect, and a good batch hardly notices. What may not be the event's own fault (a deadline, a deadlock, a
//! lost session) stops the batch, and the caller tries in smaller parts.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::Countdown;
use crate::delivery::Failed;
use crate::limits::CHUNK_DELIVERIES_MAX;
use crate::store::Dialect;
use crate::store::handling::handler_sql::{HandlerSql, NotText, Prepared};
use crate::store::{Claimed, Database, Store, StoreError, Tx, TxInner, Value};

/// What became of a batch of effects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RanEach {
    /// All are written but these, which left nothing behind.
    Written(Vec<EffectFailed>),
    /// Something stopped the batch; the transaction must roll back.
    Stopped {
        /// The event at which it did, where that is known.
        at: Option<usize>,
        /// Whether another try may help.
        failed: Failed,
        /// Why, for people.
        error: String,
        /// The connection was lost.
        session_lost: bool,
    },
    /// What the session had prepared is gone or out of date; on another one they may run. The transaction must roll back.
    Stale {
        /// What the database said.
        error: String,
    },
}

/// An event whose statements failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectFailed {
    /// Its place in the batch.
    pub index: usize,
    /// Whether another try may help.
    pub failed: Failed,
    /// Why, for people.
    pub error: String,
}

/// Whether an event that fails leaves the others of its batch their effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failures {
    /// Undone alone.
    Apart,
    /// The whole transaction is undone: something outside the statements was written for each of them.
    Together,
}

impl Store {
    /// Whose SQL the handlers of this store are written in.
    pub fn dialect(&self) -> Dialect {
        by_database!(&self.database,
            Database::Sqlite(_) => Dialect::Sqlite,
            Database::Postgres(_) => Dialect::Postgres,
        )
    }

    /// What the database says against a handler's statements: syntax, and names that are not there. Nothing is run.
    pub async fn prepare_handler(&self, sql: &HandlerSql) -> Result<Vec<String>, StoreError> {
        let statements: Vec<String> = sql.preparable().map(str::to_owned).collect();
        by_database!(&self.database,
            Database::Sqlite(database) => database.prepare_each(statements).await,
            Database::Postgres(database) => database.prepare_each(&statements).await,
        )
    }
}

impl Tx {
    /// Waits until it is this transaction's turn, where only one can write at a time: a deadline that is set after this
    /// counts the work and not the line before it.
    pub async fn turn(&mut self) -> Result<(), StoreError> {
        by_database!(&mut self.inner,
            TxInner::Sqlite(tx) => tx.turn().await,
            TxInner::Postgres(_) => Ok(()),
        )
    }

    /// Runs a handler's statements for each of the claimed deliveries, in their order, all within `deadline`.
    pub async fn run_each(
        &mut self,
        sql: &HandlerSql,
        batch: &[&Claimed],
        failures: Failures,
        deadline: Duration,
    ) -> Result<RanEach, StoreError> {
        let before = std::mem::replace(&mut self.poisoned, true);
        self.faults.at("deliveries.effect").await?;
        batch.iter().try_for_each(|one| self.faults.at_event("deliveries.effect", &one.event_id))?;
        #[cfg(feature = "postgres")]
        if let (true, TxInner::Postgres(tx)) = (sql.leaves_traces, &mut self.inner) {
            tx.mark_dirty();
        }
        let ran = self.run_chunks(sql, batch, failures, &Countdown::from(deadline)).await?;
        if matches!(ran, RanEach::Written(_)) {
            self.poisoned = before;
        }
        // Left half done otherwise, on purpose: half an effect is never committed.
        Ok(ran)
    }

    async fn run_chunks(
        &mut self,
        sql: &HandlerSql,
        batch: &[&Claimed],
        failures: Failures,
        countdown: &Countdown,
    ) -> Result<RanEach, StoreError> {
        // One alone needs no savepoint: there is nobody to be spared.
        let apart = failures == Failures::Apart && batch.len() > 1;
        #[cfg(feature = "postgres")]
        if let (true, Some(looped), TxInner::Postgres(tx)) = (apart, &sql.looped, &mut self.inner) {
            match tx.run_loop(looped, batch, countdown.left()).await? {
                Some(Ok(failed)) => return Ok(RanEach::Written(failed)),
                Some(Err(stop)) => return Ok(stop.into_stopped()),
                None => {}
            }
        }
        let mut left: VecDeque<usize> = (0..batch.len()).collect();
        let mut size = if apart { CHUNK_DELIVERIES_MAX } else { batch.len() };
        let mut all_failed = Vec::new();
        while !left.is_empty() {
            let chunk: Vec<usize> = left.iter().copied().take(size).collect();
            let Err(stop) = self.run_chunk(sql, batch, &chunk, apart, countdown).await? else {
                left.drain(..chunk.len());
                size = (size * 2).min(CHUNK_DELIVERIES_MAX);
                continue;
            };
            let failed = match stop.into_failed() {
                Ok(failed) if apart => failed,
                Ok(EffectFailed { index, failed, error }) => {
                    return Ok(RanEach::Stopped { at: Some(index), failed, error, session_lost: false });
                }
                Err(stopped) => return Ok(stopped),
            };
            // Those before it are known to be good; whether those after it are must show.
            size = chunk.iter().position(|index| *index == failed.index).unwrap_or(0).max(1);
            left.retain(|index| *index != failed.index);
            all_failed.push(failed);
        }
        Ok(RanEach::Written(all_failed))
    }

    async fn run_chunk(
        &mut self,
        sql: &HandlerSql,
        batch: &[&Claimed],
        chunk: &[usize],
        apart: bool,
        countdown: &Countdown,
    ) -> Result<Result<(), StepFailed>, StoreError> {
        let steps = match Step::all(sql, batch, chunk) {
            Ok(steps) => steps,
            Err(failed) => return Ok(Err(failed)),
        };
        let limit = countdown.left().max(Duration::from_millis(1));
        match &mut self.inner {
            #[cfg(feature = "sqlite")]
            TxInner::Sqlite(tx) => tx.run_steps(steps, apart, limit).await,
            #[cfg(feature = "postgres")]
            TxInner::Postgres(tx) if sql.leaves_traces => tx.run_steps(&own_role_again(steps), apart, limit).await,
            #[cfg(feature = "postgres")]
            TxInner::Postgres(tx) => tx.run_steps(&steps, apart, limit).await,
        }
    }
}

pub(in crate::store) struct Step {
    pub(in crate::store) index: usize,
    pub(in crate::store) sql: String,
    pub(in crate::store) values: Vec<Value>,
}

/// Puts the session's own role back after each event: neither the next event's statements nor our mark may run as
/// whoever the last one chose to be.
#[cfg(feature = "postgres")]
fn own_role_again(steps: Vec<Step>) -> Vec<Step> {
    let mut all = Vec::with_capacity(steps.len() * 2);
    for step in steps {
        let before = all.last().map(|before: &Step| before.index);
        all.extend(before.filter(|before| *before != step.index).map(Step::own_role));
        all.push(step);
    }
    all.extend(all.last().map(|last| Step::own_role(last.index)));
    all
}

/// What stopped a chunk, and who is to blame.
#[derive(Debug)]
pub(in crate::store) struct StepFailed {
    index: Option<usize>,
    failed: Failed,
    error: String,
    blame: Blame,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Blame {
    /// Its statements were refused, and would be again.
    Event,
    /// It took too long, or was in somebody's way: alone it may do better.
    Unclear,
    /// The connection was lost meanwhile.
    Session,
    /// The session does not have what was prepared on it any more.
    Plans,
}

impl StepFailed {
    pub(in crate::store) fn new(index: usize, error: String, blame: Blame) -> Self {
        Self { index: Some(index), ..Self::somewhere(error, blame) }
    }

    /// Where it is not known at which event.
    pub(in crate::store) fn somewhere(error: String, blame: Blame) -> Self {
        Self { index: None, failed: Failed::Transient { retry_after: None }, error, blame }
    }

    fn no_text(index: usize, error: NotText) -> Self {
        Self { failed: Failed::Permanent, ..Self::new(index, error.to_string(), Blame::Event) }
    }

    /// The event's own failure, or else what stops the whole batch.
    fn into_failed(self) -> Result<EffectFailed, RanEach> {
        match self {
            Self { index: Some(index), failed, error, blame: Blame::Event } => {
                Ok(EffectFailed { index, failed, error })
            }
            other => Err(other.into_stopped()),
        }
    }

    fn into_stopped(self) -> RanEach {
        let Self { index, failed, error, blame } = self;
        if blame == Blame::Plans {
            return RanEach::Stale { error };
        }
        RanEach::Stopped { at: index, failed, error, session_lost: blame == Blame::Session }
    }
}

impl Step {
    fn all(sql: &HandlerSql, batch: &[&Claimed], chunk: &[usize]) -> Result<Vec<Self>, StepFailed> {
        let mut steps = Vec::with_capacity(chunk.len() * sql.statements.len());
        for index in chunk.iter().copied() {
            for statement in &sql.statements {
                let step = Self::new(index, statement, batch[index]);
                steps.push(step.map_err(|error| StepFailed::no_text(index, error))?);
            }
        }
        Ok(steps)
    }

    #[cfg(feature = "postgres")]
    fn own_role(index: usize) -> Self {
        Self { index, sql: "SET LOCAL ROLE NONE".to_owned(), values: Vec::new() }
    }

    fn new(index: usize, statement: &Prepared, claimed: &Claimed) -> Result<Self, NotText> {
        Ok(Self { index, sql: statement.text.clone(), values: statement.values(claimed)? })
    }
}
