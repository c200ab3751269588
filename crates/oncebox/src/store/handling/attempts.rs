//! The ends of an attempt other than done: failed, dead, held, superseded, given back; and a longer lease.

use std::time::Duration;

use crate::clock::UnixMillis;
use crate::database::verb::deliveries;
pub use crate::database::{Failure, Fenced};
use crate::store::{Fence, Store, StoreError, Tx, Value, sql};

impl Store {
    /// Records failed attempts in one transaction, each with its own answer.
    pub async fn fail(&self, failures: &[Failure], now: UnixMillis) -> Result<Vec<Fenced>, StoreError> {
        self.faults.at("deliveries.fail").await?;
        let mut sorted: Vec<(usize, &Failure)> = failures.iter().enumerate().collect();
        sorted.sort_by_key(|(_, failure)| failure.fence.delivery);
        let mut outcomes = vec![Fenced::LeaseLost; failures.len()];
        let mut tx = self.begin().await?;
        for (index, failure) in sorted {
            outcomes[index] = tx.fail(failure, now).await?;
        }
        tx.commit_or_fail().await?;
        Ok(outcomes)
    }

    /// Puts claims back in line without using an attempt: a clean stop, or a circuit that is open for `pause`.
    pub async fn give_back(
        &self,
        fences: &[Fence],
        pause: Duration,
        now: UnixMillis,
    ) -> Result<Vec<Fenced>, StoreError> {
        deliveries::give_back(self, fences, pause, self.at(now)).await
    }

    /// Lets a worker keep a delivery for `lease` from now; none when it was lost.
    pub async fn extend(
        &self,
        fence: Fence,
        lease: Duration,
        now: UnixMillis,
    ) -> Result<Option<UnixMillis>, StoreError> {
        let until = deliveries::extend(self, fence, lease, self.at(now)).await?;
        Ok(until.map(|until| self.steady.wall_of(until)))
    }

    /// Lets whoever pulled a delivery keep it for the handler's own lease from now, or as long as before where that is
    /// longer; none when it was lost.
    pub async fn lengthen(&self, fence: Fence, now: UnixMillis) -> Result<Option<UnixMillis>, StoreError> {
        let mut tx = self.begin().await?;
        let rows = tx.query(&sql::LENGTHEN_LEASE, fence.values([Value::Int(now)])).await?;
        tx.commit_or_fail().await?;
        rows.first().map(|row| Ok(self.steady.wall_of(row.int(0)?))).transpose()
    }
}

impl Tx {
    /// Records a failed attempt.
    pub async fn fail(&mut self, failure: &Failure, now: UnixMillis) -> Result<Fenced, StoreError> {
        let now = self.at(now);
        deliveries::fail(self, failure, now).await
    }

    /// Ends a delivery that must not run, because something newer was applied, in the transaction that decided so.
    pub async fn supersede(&mut self, fence: Fence, reason: &str, now: UnixMillis) -> Result<Fenced, StoreError> {
        let now = self.at(now);
        deliveries::end_attempt(self, fence, ("superseded", "superseded", None), None, reason, now).await
    }
}
