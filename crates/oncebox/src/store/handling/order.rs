//! What order leaves in the database: applied versions, applied changes, prerequisites that are done; and what `once`
//! remembers for applications that deduplicate on their own.
//!
//! All of it is decided inside the effect's transaction, so that a mark and its effect are there together or not at
//! all. A row's lock makes two workers of one object take turns; take several in the order of their keys.

use std::time::Duration;

use crate::clock::UnixMillis;
use crate::database::fenced;
use crate::delivery::order::{Revision, finer_key};
use crate::event::{DeliveryKey, Mark};
use crate::store::handling::deliveries::millis;
use crate::store::{Fence, Fenced, StoreError, Tx, sql};

/// How a version compares with what was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Newer, or as new where that is enough; recorded as applied.
    Newer,
    /// Not newer.
    Older,
}

/// Whether a business change is the first of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The first within the window; recorded.
    First,
    /// It was applied already.
    Again,
}

/// Whether what a delivery waits for is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prerequisite {
    /// It is: run.
    Done,
    /// It is not, and the delivery was put back to wait; no attempt was used.
    Waiting,
    /// It is not, and the deadline is over.
    Overdue,
    /// Somebody else has the delivery.
    LeaseLost,
}

/// Where a part of a version is kept.
#[derive(Clone, Copy)]
struct Row<'a> {
    handler: &'a str,
    key: Mark,
    now: UnixMillis,
}

impl Row<'_> {
    /// The row of what is finer than a version: one of its own for each, so that a newer version begins anew.
    fn finer(self, version: i64) -> Self {
        Self { key: finer_key(self.key, version), ..self }
    }
}

impl Tx {
    /// Records a version of an object as applied by a handler, unless a newer one was. `or_equal` lets the same version
    /// run again, for senders whose versions are coarse.
    pub async fn newer(
        &mut self,
        handler: &str,
        order_key: Mark,
        version: impl Into<Revision>,
        or_equal: bool,
        now: UnixMillis,
    ) -> Result<Version, StoreError> {
        let levels: Vec<i64> = version.into().levels().collect();
        let mut row = Row { handler, key: order_key, now };
        for (at, level) in levels.iter().enumerate() {
            if self.raise(row, *level, false).await? {
                self.write_finer(row.finer(*level), &levels[at + 1..]).await?;
                return Ok(Version::Newer);
            }
            let last = at + 1 == levels.len();
            if (last && !or_equal) || !self.raise(row, *level, true).await? {
                return Ok(Version::Older);
            }
            row = row.finer(*level);
        }
        // Equal as far as it goes, so that anything finer is newer. The lock of the first row is held: nobody adds it.
        let finer = self.query(&sql::KNOWN_VERSION, vec![handler.into(), row.key.into()]).await?;
        Ok(if finer.is_empty() { Version::Newer } else { Version::Older })
    }

    async fn raise(&mut self, row: Row<'_>, version: i64, or_equal: bool) -> Result<bool, StoreError> {
        let or_equal = i64::from(or_equal);
        let values = vec![row.handler.into(), row.key.into(), version.into(), row.now.into(), or_equal.into()];
        Ok(self.execute(&sql::NEWER_VERSION, values).await? > 0)
    }

    async fn write_finer(&mut self, mut row: Row<'_>, levels: &[i64]) -> Result<(), StoreError> {
        for level in levels {
            self.raise(row, *level, true).await?;
            row = row.finer(*level);
        }
        Ok(())
    }

    /// Records a business change, unless it was applied within its window under another delivery.
    pub async fn once_per(
        &mut self,
        mark: Mark,
        delivery: DeliveryKey,
        window: Duration,
        now: UnixMillis,
    ) -> Result<Change, StoreError> {
        let values = vec![mark.into(), delivery.into(), now.into(), millis(window).into()];
        let rows = self.execute(&sql::FIRST_CHANGE, values).await?;
        Ok(if rows == 0 { Change::Again } else { Change::First })
    }

    /// Looks for a prerequisite; where it is not done, puts the delivery back until it is, at most for `within`.
    pub async fn wait_for(
        &mut self,
        fence: Fence,
        mark: Mark,
        within: Duration,
        now: UnixMillis,
    ) -> Result<Prerequisite, StoreError> {
        let rows = self.query(&sql::WANT_PREREQUISITE, vec![mark.into(), now.into()]).await?;
        if rows.first().map(|row| row.optional_int(0)).transpose()?.flatten().is_some() {
            return Ok(Prerequisite::Done);
        }
        let values = fence.values([now.into(), mark.into(), millis(within).into()]);
        if fenced(self.execute(&sql::WAIT_FOR, values).await?) == Fenced::Recorded {
            return Ok(Prerequisite::Waiting);
        }
        let ours = self.query(&sql::SETTLED, fence.values([])).await?;
        let claimed = ours.first().map(|row| row.text(0)).transpose()?.is_some_and(|state| state == "claimed");
        Ok(if claimed { Prerequisite::Overdue } else { Prerequisite::LeaseLost })
    }

    /// Records that a prerequisite is done and wakes who waits for it, with the effect that makes it so.
    pub async fn prerequisite_done(&mut self, mark: Mark, now: UnixMillis) -> Result<(), StoreError> {
        self.execute(&sql::PREREQUISITE_DONE, vec![mark.into(), now.into()]).await?;
        self.execute(&sql::WAKE_WAITING, vec![mark.into(), now.into()]).await.map(drop)
    }
}
