//! Claiming deliveries and finishing them.
//!
//! A claim is a short transaction of its own: it counts the attempt and writes who has the delivery and until when, so
//! that a worker which dies loses one attempt and nothing else. Every later write carries the claim's token; whoever
//! no longer has the current one changes nothing.

use std::time::Duration;

use super::{Failure, Row, Store, StoreError, Tx, TxInner, sql};
pub use crate::adapter::{Buried, Claimed, Fence};
use crate::adapter::{Claim, read_claim};
pub(super) use crate::adapter::{count, millis};
use crate::clock::UnixMillis;
use crate::delivery::Next;
use crate::event::EventKey;

/// What to claim for one handler.
#[derive(Clone, Debug)]
pub struct Want {
    /// The handler's name; one that is not registered, or is paused, has nothing to claim.
    pub handler: String,
    /// At most so many.
    pub limit: usize,
    /// How long they may be kept.
    pub lease: Duration,
}

/// The answer to a claim.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// Ours now, oldest due first.
    pub claimed: Vec<Claimed>,
    /// Given up: the attempts are used up, or the payload is gone.
    pub buried: Vec<Buried>,
}

/// What became of a finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished {
    /// All are done once the transaction commits.
    All,
    /// These were claimed by somebody else meanwhile: the whole transaction must roll back.
    LeaseLost(Vec<EventKey>),
}

impl Store {
    /// Claims what is due for these handlers, oldest first, in one transaction. `node` is the worker's process; none for
    /// consumers outside. `now` is the time on SQLite; Postgres has its own.
    pub async fn claim(&self, wants: &[Want], node: Option<EventKey>, now: UnixMillis) -> Result<Claims, StoreError> {
        self.faults.at("deliveries.claim").await?;
        let mut tx = self.begin().await?;
        let rows = tx.claim_rows(wants, node, now).await?;
        let mut claims = Claims::default();
        for row in rows {
            match read_claim(&row)? {
                Claim::Claimed(claimed) => claims.claimed.push(claimed),
                Claim::Buried(buried) => claims.buried.push(buried),
                Claim::Empty(fence, buried) => {
                    let error = "the payload is gone".to_owned();
                    tx.fail(&Failure { fence, next: Next::Dead, error, status: None }, now).await?;
                    claims.buried.push(buried);
                }
            }
        }
        tx.commit_or_fail().await?;
        self.faults.at("deliveries.claimed").await?;
        Ok(claims)
    }

    /// True when the delivery was finished under this very token: settles a commit whose result is unknown.
    pub async fn was_finished(&self, fence: Fence) -> Result<bool, StoreError> {
        let rows = self.query(&sql::SETTLED, vec![fence.delivery.into(), fence.token.into()]).await?;
        Ok(rows.first().map(|row| row.text(0)).transpose()?.is_some_and(|state| state == "done"))
    }
}

impl Tx {
    /// Marks deliveries done together with whatever else this transaction writes.
    pub async fn finish(&mut self, fences: &[Fence], now: UnixMillis) -> Result<Finished, StoreError> {
        let before = std::mem::replace(&mut self.half_done, true);
        self.faults.at("deliveries.finish").await?;
        let mut sorted = fences.to_vec();
        // Sorted, as everything that two nodes may write at once.
        sorted.sort_unstable_by_key(|fence| fence.delivery);
        let done = match &mut self.inner {
            #[cfg(feature = "sqlite")]
            TxInner::Sqlite(tx) => tx.finish(sorted, now).await?,
            #[cfg(feature = "postgres")]
            TxInner::Postgres(tx) => tx.finish(&sorted).await?,
        };
        let _ = now;
        if done.len() == fences.len() {
            self.half_done = before;
            return Ok(Finished::All);
        }
        // Left half done on purpose: effects without their mark must never be committed.
        let lost = fences.iter().map(|fence| fence.delivery).filter(|delivery| !done.contains(delivery));
        Ok(Finished::LeaseLost(lost.collect()))
    }

    async fn claim_rows(
        &mut self,
        wants: &[Want],
        node: Option<EventKey>,
        now: UnixMillis,
    ) -> Result<Vec<Row>, StoreError> {
        let _ = now;
        match &mut self.inner {
            #[cfg(feature = "sqlite")]
            TxInner::Sqlite(tx) => tx.claim_deliveries(wants.to_vec(), node, now).await,
            #[cfg(feature = "postgres")]
            TxInner::Postgres(tx) => tx.claim_deliveries(wants, node).await,
        }
    }
}
