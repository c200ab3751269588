//! The ends of attempts that were made outside this process: whoever pulls knows a delivery and its token, and nothing
//! of the handler's budget.

use super::deliveries::count;
use super::{Failure, Fence, Fenced, Finished, Store, StoreError, sql};
use crate::clock::UnixMillis;
use crate::delivery::{Failed, Next, after_failure};

/// What became of an attempt that somebody outside reported as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PulledFailure {
    /// Written down, and what happens next.
    Recorded(Next),
    /// Somebody else has the delivery; nothing was written.
    LeaseLost,
}

impl Store {
    /// Marks one delivery done whose effect is somewhere else.
    pub async fn finish_pulled(&self, fence: Fence, now: UnixMillis) -> Result<Fenced, StoreError> {
        let mut tx = self.begin().await?;
        match tx.finish(&[fence], now).await? {
            Finished::All => tx.commit_or_fail().await.map(|()| Fenced::Recorded),
            // A repeated report of what is done already says the same again.
            Finished::LeaseLost(_) if self.was_finished(fence).await? => Ok(Fenced::Recorded),
            Finished::LeaseLost(_) => Ok(Fenced::LeaseLost),
        }
    }

    /// Records an attempt that failed somewhere else; the handler's own policy decides what happens next.
    pub async fn fail_pulled(
        &self,
        fence: Fence,
        error: &str,
        failed: Failed,
        random: u64,
        now: UnixMillis,
    ) -> Result<PulledFailure, StoreError> {
        let rows = self.query(&sql::CLAIM_OF, fence.values([])).await?;
        let Some(row) = rows.first() else { return Ok(PulledFailure::LeaseLost) };
        let (handler, attempt, attempts_before) = (row.text(0)?, count(row.int(1)?), count(row.int(2)?));
        let registered = self.handlers().await?.into_iter().find(|known| known.facts.name == handler);
        let retry = registered.map(|known| known.facts.retry).unwrap_or_default();
        let next = after_failure(&retry, attempt, attempts_before, failed, random);
        let failure = Failure { fence, next, error: error.to_owned(), status: None };
        let outcomes = self.fail(&[failure], now).await?;
        Ok(if outcomes.contains(&Fenced::Recorded) { PulledFailure::Recorded(next) } else { PulledFailure::LeaseLost })
    }
}
