//! Running a handler's SQL inside the transaction that will mark its deliveries done.
//!
//! A batch is sent without waiting between events. Where one fails, its transaction can only roll back: the caller
//! records that failure, and runs the others again without it. So a failing event costs its neighbours time, never
//! their effect, and a good batch needs no savepoints.

use std::time::Duration;

use super::Dialect;
use super::handler_sql::{HandlerSql, NotText, Prepared};
use super::{Claimed, Database, Store, StoreError, Tx, TxInner, Value};
use crate::delivery::Failed;

/// What became of a batch of effects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ran {
    /// All are written, to be finished and committed.
    All,
    /// The event at this place of the batch failed; the transaction must roll back.
    Failed {
        /// Its place in the batch.
        index: usize,
        /// Whether another try may help.
        failed: Failed,
        /// Why, for people.
        error: String,
    },
}

impl Store {
    /// Whose SQL the handlers of this store are written in.
    pub fn dialect(&self) -> Dialect {
        match &self.database {
            #[cfg(feature = "sqlite")]
            Database::Sqlite(_) => Dialect::Sqlite,
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => Dialect::Postgres,
        }
    }

    /// What the database says against a handler's statements: syntax, and names that are not there. Nothing is run.
    pub async fn prepare_handler(&self, sql: &HandlerSql) -> Result<Vec<String>, StoreError> {
        let statements: Vec<String> = sql.preparable().map(str::to_owned).collect();
        match &self.database {
            #[cfg(feature = "sqlite")]
            Database::Sqlite(database) => database.prepare_each(statements).await,
            #[cfg(feature = "postgres")]
            Database::Postgres(database) => database.prepare_each(&statements).await,
        }
    }
}

impl Tx {
    pub(super) fn dialect(&self) -> Dialect {
        match &self.inner {
            #[cfg(feature = "sqlite")]
            TxInner::Sqlite(_) => Dialect::Sqlite,
            #[cfg(feature = "postgres")]
            TxInner::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Runs a handler's statements for each of the claimed deliveries, in their order, all within `deadline`.
    pub async fn run_handler(
        &mut self,
        sql: &HandlerSql,
        batch: &[Claimed],
        deadline: Duration,
    ) -> Result<Ran, StoreError> {
        let before = std::mem::replace(&mut self.half_done, true);
        self.faults.at("deliveries.effect").await?;
        batch.iter().try_for_each(|one| self.faults.at_event("deliveries.effect", &one.event_id))?;
        let steps = match Step::all(sql, batch) {
            Ok(steps) => steps,
            Err((index, error)) => {
                return Ok(Ran::Failed { index, failed: Failed::Permanent, error: error.to_string() });
            }
        };
        let outcome = match &mut self.inner {
            #[cfg(feature = "sqlite")]
            TxInner::Sqlite(tx) => tx.run_steps(steps, deadline).await?,
            #[cfg(feature = "postgres")]
            TxInner::Postgres(tx) => {
                if sql.leaves_traces {
                    tx.soil();
                }
                tx.run_steps(&steps, deadline).await?
            }
        };
        match outcome {
            Ok(()) => {
                self.half_done = before;
                Ok(Ran::All)
            }
            // Left half done on purpose: half an effect is never committed.
            Err((index, error)) => Ok(Ran::Failed { index, failed: Failed::Transient { retry_after: None }, error }),
        }
    }
}

/// One statement for one event.
pub(super) struct Step {
    pub(super) index: usize,
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

/// The place of the event that failed, and why.
pub(super) type StepFailed = (usize, String);

impl Step {
    fn all(sql: &HandlerSql, batch: &[Claimed]) -> Result<Vec<Self>, (usize, NotText)> {
        let mut steps = Vec::with_capacity(batch.len() * sql.statements.len());
        for (index, claimed) in batch.iter().enumerate() {
            for statement in &sql.statements {
                steps.push(Self::new(index, statement, claimed).map_err(|error| (index, error))?);
            }
        }
        Ok(steps)
    }

    fn new(index: usize, statement: &Prepared, claimed: &Claimed) -> Result<Self, NotText> {
        Ok(Self { index, sql: statement.text.clone(), values: statement.values(claimed)? })
    }
}
