//! The ends of an attempt other than done: failed, dead, held, superseded, given back; and a longer lease.

use std::time::Duration;

pub use crate::database::Fenced;
pub(in crate::store) use crate::database::{fenced, kept};
use crate::store::handling::deliveries::millis;
use crate::store::{Fence, Store, StoreError, Tx, Value, sql};

use crate::clock::UnixMillis;
use crate::delivery::Next;

/// A failed attempt and what was decided about it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Whose it is.
    pub fence: Fence,
    /// What happens next.
    pub next: Next,
    /// Why it failed, for people.
    pub error: String,
    /// The target's answer, where there was one.
    pub status: Option<u16>,
}

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
        let mut tx = self.begin().await?;
        let mut outcomes = Vec::with_capacity(fences.len());
        for fence in fences {
            let values = fence.values([Value::Int(now), Value::Int(millis(pause))]);
            outcomes.push(fenced(tx.execute(&sql::GIVE_BACK, values).await?));
        }
        tx.commit_or_fail().await?;
        Ok(outcomes)
    }

    /// Lets a worker keep a delivery for `lease` from now; none when it was lost.
    pub async fn extend(
        &self,
        fence: Fence,
        lease: Duration,
        now: UnixMillis,
    ) -> Result<Option<UnixMillis>, StoreError> {
        let mut tx = self.begin().await?;
        let values = fence.values([Value::Int(now), Value::Int(millis(lease))]);
        let rows = tx.query(&sql::EXTEND_LEASE, values).await?;
        tx.commit_or_fail().await?;
        rows.first().map(|row| Ok(self.steady.wall_of(row.int(0)?))).transpose()
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
        let (state, outcome, pause) = match failure.next {
            Next::Retry { after } => ("ready", "failed", Some(millis(after))),
            Next::Dead => ("dead", "dead", None),
            Next::Held => ("held", "held", None),
        };
        self.end_attempt(failure.fence, End { state, outcome, pause }, &failure.error, failure.status, now).await
    }

    /// Ends a delivery that must not run, because something newer was applied, in the transaction that decided so.
    pub async fn supersede(&mut self, fence: Fence, reason: &str, now: UnixMillis) -> Result<Fenced, StoreError> {
        self.end_attempt(fence, End { state: "superseded", outcome: "superseded", pause: None }, reason, None, now)
            .await
    }

    async fn end_attempt(
        &mut self,
        fence: Fence,
        end: End,
        error: &str,
        status: Option<u16>,
        now: UnixMillis,
    ) -> Result<Fenced, StoreError> {
        let error = kept(error);
        let status = status.map(i64::from);
        let attempt = fence.values([now.into(), end.outcome.into(), status.into(), error.as_str().into()]);
        if self.execute(&sql::RECORD_ATTEMPT, attempt).await? == 0 {
            return Ok(Fenced::LeaseLost);
        }
        let delivery = fence.values([now.into(), end.state.into(), end.pause.into(), error.as_str().into()]);
        self.execute(&sql::END_ATTEMPT, delivery).await.map(fenced)
    }
}

struct End {
    state: &'static str,
    outcome: &'static str,
    pause: Option<i64>,
}
