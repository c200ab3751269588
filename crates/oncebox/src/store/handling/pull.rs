//! The ends of attempts that were made outside this process: whoever pulls knows a delivery and its token, and nothing
//! of the handler's budget.

use std::time::Duration;

use crate::clock::UnixMillis;
use crate::delivery::{Failed, Next, after_failure};
use crate::store::handling::deliveries::count;
use crate::store::{Failure, Fence, Fenced, Finished, Store, StoreError, sql};

/// What is known of a delivery that somebody outside has claimed and not reported on yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PulledClaim {
    /// The handler's name.
    pub handler: String,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// The attempts that no longer count.
    pub attempts_before: u32,
    /// How long ago it was claimed.
    pub held_for: Duration,
}

/// What became of an attempt that somebody outside reported as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PulledFailure {
    /// Written down, and what happens next.
    Recorded(Next),
    /// Somebody else has the delivery; nothing was written.
    LeaseLost,
}

impl Store {
    /// What the holder of this token has claimed; none when the lease was lost or the delivery has ended.
    pub async fn pulled_claim(&self, fence: Fence, now: UnixMillis) -> Result<Option<PulledClaim>, StoreError> {
        let rows = self.query(&sql::CLAIM_OF, fence.values([now.into()])).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let held_for = row.optional_int(3)?.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0);
        Ok(Some(PulledClaim {
            handler: row.text(0)?,
            attempt: count(row.int(1)?),
            attempts_before: count(row.int(2)?),
            held_for: Duration::from_millis(held_for),
        }))
    }

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
        let Some(claim) = self.pulled_claim(fence, now).await? else { return Ok(PulledFailure::LeaseLost) };
        let registered = self.handlers().await?.into_iter().find(|known| known.facts.name == claim.handler);
        let retry = registered.map(|known| known.facts.retry).unwrap_or_default();
        let next = after_failure(&retry, claim.attempt, claim.attempts_before, failed, random);
        let failure = Failure { fence, next, error: error.to_owned(), status: None };
        let outcomes = self.fail(&[failure], now).await?;
        Ok(if outcomes.contains(&Fenced::Recorded) { PulledFailure::Recorded(next) } else { PulledFailure::LeaseLost })
    }
}
