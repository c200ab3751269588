//! What was told to whom, what each process counted, and what the database's clock says: the part of alerts that must
//! outlive a process and be the same for all of them.

use crate::clock::UnixMillis;
use crate::event::NodeKey;
use crate::store::report::columns;
use crate::store::{Store, StoreError, Value, sql};

/// Counts of a process that was silent for so long are dropped.
const COUNTS_KEPT_MS: i64 = 3_600_000;

/// A condition that somebody was told about and that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Who was told.
    pub receiver: String,
    /// About what.
    pub condition: String,
    /// Since when it lasts.
    pub since: UnixMillis,
    /// When it was last told.
    pub told_at: UnixMillis,
    /// The number that was last told, where it is known.
    pub value: Option<i64>,
}

/// What a process counted since it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// Which process.
    pub node: NodeKey,
    /// A JSON object of numbers.
    pub counts: String,
    /// How long ago it said so, in milliseconds.
    pub age_ms: i64,
}

columns!(Told: receiver, condition, since, told_at, value);
columns!(NodeReport: node, counts, age_ms);

impl Store {
    /// Everything that was told and is not over.
    pub async fn alerts(&self) -> Result<Vec<Told>, StoreError> {
        self.list(&sql::ALERTS, Vec::new()).await
    }

    /// Writes down that it was told.
    pub async fn alert_told(&self, told: &Told) -> Result<(), StoreError> {
        let (receiver, condition) = (told.receiver.as_str(), told.condition.as_str());
        let (since, told_at) = (told.since.into(), told.told_at.into());
        let values = vec![receiver.into(), condition.into(), since, told_at, told.value.into()];
        self.write(&sql::ALERT_TOLD, values).await.map(drop)
    }

    /// Writes down that it is over.
    pub async fn alert_over(&self, receiver: &str, condition: &str) -> Result<(), StoreError> {
        self.write(&sql::ALERT_OVER, vec![receiver.into(), condition.into()]).await.map(drop)
    }

    /// Shares what this process counted since it began, and forgets processes that went away.
    pub async fn report_counts(&self, node: NodeKey, counts: &str, now: UnixMillis) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        tx.execute(&sql::REPORT_COUNTS, vec![node.into(), now.into(), counts.into()]).await?;
        tx.execute(&sql::DROP_OLD_COUNTS, vec![now.into(), COUNTS_KEPT_MS.into()]).await?;
        tx.commit_or_fail().await
    }

    /// What every process counted since it began.
    pub async fn node_counts(&self, now: UnixMillis) -> Result<Vec<NodeReport>, StoreError> {
        self.list(&sql::NODE_COUNTS, vec![now.into()]).await
    }

    /// The time by the database's own clock; on SQLite it is the one that is handed in.
    pub async fn database_time(&self, now: UnixMillis) -> Result<UnixMillis, StoreError> {
        self.first(&sql::DATABASE_TIME, vec![now.into()]).await?.ok_or(StoreError::Corrupt { what: "time" })
    }

    /// Puts back in line whatever this process still has claimed, deliveries and messages, and says how many those were.
    /// Only for a process in which nothing runs any more.
    pub async fn give_back_all(&self, node: NodeKey, now: UnixMillis) -> Result<u64, StoreError> {
        let values = || -> Vec<Value> { vec![node.into(), now.into()] };
        let mut tx = self.begin().await?;
        let deliveries = tx.execute(&sql::GIVE_BACK_ALL, values()).await?;
        let messages = tx.execute(&sql::GIVE_BACK_ALL_MESSAGES, values()).await?;
        tx.commit_or_fail().await?;
        Ok(deliveries + messages)
    }
}
