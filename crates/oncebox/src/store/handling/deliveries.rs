//! Claiming deliveries and finishing them.
//!
//! A claim is a short transaction of its own: it counts the attempt and writes who has the delivery and until when, so
//! that a worker which dies loses one attempt and nothing else. Every later write carries the claim's token; whoever
//! no longer has the current one changes nothing.

use std::collections::HashSet;
use std::time::Duration;

use crate::clock::UnixMillis;
use crate::database::verb::deliveries::PAYLOAD_GONE;
pub use crate::database::{Buried, Claimed, Fence};
use crate::database::{Claim, read_claim};
pub(in crate::store) use crate::database::{count, millis};
use crate::delivery::Next;
use crate::event::{DeliveryKey, NodeKey};
use crate::limits::LOST_TOGETHER_MAX;
use crate::store::{Failure, Row, Store, StoreError, Tx, TxInner, sql};

/// What to claim for one handler.
#[derive(Clone, Debug)]
pub struct Want {
    /// The handler's name; one that is not registered, or is paused, has nothing to claim.
    pub handler: String,
    /// At most so many.
    pub limit: usize,
    /// No further one once their bodies have so many bytes together; the first comes however large it is.
    pub bytes: usize,
    /// How long they may be kept.
    pub lease: Duration,
    /// Whether order keys matter ([`Store::has_order_keys`]): then what is looked at has a bound, however many wait behind
    /// one key. Such a want is best alone in its claim.
    pub in_order: bool,
    /// Whether headers and body are wanted. Where they are not, they come empty, and it does not matter whether they are
    /// still there.
    pub payload: bool,
}

/// The answer to a claim.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// Ours now, oldest due first.
    pub claimed: Vec<Claimed>,
    /// Given up: the attempts are used up, or the payload is gone.
    pub buried: Vec<Buried>,
    /// Handlers of which more is due than fits into the bytes.
    pub cut_off: HashSet<String>,
}

/// The rows of a claim as they came, and the handlers of which more is due than fits into the bytes.
#[derive(Debug, Default)]
pub(in crate::store) struct ClaimedRows {
    pub(in crate::store) rows: Vec<Row>,
    pub(in crate::store) cut_off: HashSet<String>,
}

/// What became of a finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished {
    /// All are done once the transaction commits.
    All,
    /// These were claimed by somebody else meanwhile: the whole transaction must roll back.
    LeaseLost(Vec<DeliveryKey>),
}

/// Which deliveries a claim may take, by the attempts that were lost with their worker: one of those may be what took
/// the worker with it, and whatever is claimed together is lost together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum LossFilter {
    /// One was lost.
    Lost,
    /// None was lost.
    Sound,
    /// One was lost, and the next is not the last.
    LostOnce,
    /// More than that.
    Suspect,
}

impl Store {
    /// Claims what is due for these handlers, oldest first, in one transaction. `node` is the worker's process, which
    /// must ask for what was lost by [`Store::claim_lost`]; none for consumers outside, who get one of those alone before
    /// anything else. `now` is the time on SQLite; Postgres has its own.
    pub async fn claim(&self, wants: &[Want], node: Option<NodeKey>, now: UnixMillis) -> Result<Claims, StoreError> {
        let alone = |want: &Want| (LossFilter::Lost, vec![Want { limit: 1, ..want.clone() }]);
        let lost = wants.iter().filter(|_| node.is_none()).map(alone);
        let rounds: Vec<_> = lost.chain([(LossFilter::Sound, wants.to_vec())]).collect();
        self.claim_first(&rounds, node, now).await
    }

    /// Claims what was lost with its worker before: a few of those that were lost once, or else one alone. Whoever has
    /// them in hand should claim no others of their kind, so that the one that kills takes no innocents along.
    pub async fn claim_lost(&self, want: &Want, node: NodeKey, now: UnixMillis) -> Result<Claims, StoreError> {
        let rounds = [(LossFilter::LostOnce, LOST_TOGETHER_MAX), (LossFilter::Suspect, 1)]
            .map(|(care, most)| (care, vec![Want { limit: want.limit.min(most), ..want.clone() }]));
        self.claim_first(&rounds, Some(node), now).await
    }

    /// Claims what the first of these finds anything for.
    async fn claim_first(
        &self,
        rounds: &[(LossFilter, Vec<Want>)],
        node: Option<NodeKey>,
        now: UnixMillis,
    ) -> Result<Claims, StoreError> {
        self.faults.at("deliveries.claim").await?;
        let mut tx = self.begin().await?;
        let mut claimed = ClaimedRows::default();
        for (care, wants) in rounds {
            claimed = match tx.claim_rows(wants, node, *care, now).await {
                Ok(claimed) => claimed,
                // Two nodes within one order key are no reason to lose the connection.
                Err(error) => {
                    tx.rollback().await;
                    return Err(error);
                }
            };
            if !claimed.rows.is_empty() {
                break;
            }
        }
        let claims = tx.read_claims(claimed, now).await?;
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
        let before = std::mem::replace(&mut self.poisoned, true);
        self.faults.at("deliveries.finish").await?;
        let mut sorted = fences.to_vec();
        // Sorted, as everything that two nodes may write at once.
        sorted.sort_unstable_by_key(|fence| fence.delivery);
        let done = by_database!(&mut self.inner,
            TxInner::Sqlite(tx) => tx.finish(sorted, now).await?,
            TxInner::Postgres(tx) => tx.finish(&sorted).await?,
        );
        let _ = now;
        if done.len() == fences.len() {
            self.poisoned = before;
            return Ok(Finished::All);
        }
        // Left half done on purpose: effects without their mark must never be committed.
        let lost = fences.iter().map(|fence| fence.delivery).filter(|delivery| !done.contains(delivery));
        Ok(Finished::LeaseLost(lost.collect()))
    }

    /// Sorts what was claimed; what cannot be handed out is given up.
    async fn read_claims(&mut self, claimed: ClaimedRows, now: UnixMillis) -> Result<Claims, StoreError> {
        let mut claims = Claims { cut_off: claimed.cut_off, ..Claims::default() };
        for row in claimed.rows {
            match read_claim(row)? {
                Claim::Claimed(mut claimed) => {
                    claimed.lease_until = self.steady.wall_of(claimed.lease_until);
                    claims.claimed.push(claimed);
                }
                Claim::Buried(buried) => claims.buried.push(buried),
                Claim::Empty(fence, buried) => {
                    let error = PAYLOAD_GONE.to_owned();
                    self.fail(&Failure { fence, next: Next::Dead, error, status: None }, now).await?;
                    claims.buried.push(buried);
                }
            }
        }
        Ok(claims)
    }

    async fn claim_rows(
        &mut self,
        wants: &[Want],
        node: Option<NodeKey>,
        care: LossFilter,
        now: UnixMillis,
    ) -> Result<ClaimedRows, StoreError> {
        let (_, steady) = (now, self.steady.now());
        by_database!(&mut self.inner,
            TxInner::Sqlite(tx) => tx.claim_deliveries(wants.to_vec(), node, care, (now, steady.unwrap_or(now))).await,
            TxInner::Postgres(tx) => tx.claim_deliveries(wants, node, care, steady).await,
        )
    }
}
