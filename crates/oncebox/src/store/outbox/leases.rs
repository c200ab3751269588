//! What every node must know about destinations, and the messages of relays that went silent.

use crate::clock::UnixMillis;
use crate::event::{MessageKey, NodeKey, NodeKind};
use crate::store::handling::deliveries::count;
use crate::store::{Row, Store, StoreError, Tx, sql};

const SLICE: i64 = 500;

/// What the database must know about a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationFacts {
    /// Its name.
    pub name: String,
    /// Attempts before a message is dead.
    pub attempts: u32,
    /// Whether messages of one key go out one after the other.
    pub ordered: bool,
}

/// A message whose relay went silent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredMessage {
    /// The message.
    pub id: MessageKey,
    /// The destination's name.
    pub destination: String,
    /// The attempt that ended without an answer.
    pub attempt: u32,
    /// Whether it was the last one.
    pub dead: bool,
    /// Whether it had begun, and used an attempt.
    pub used: bool,
}

impl Store {
    /// Makes destinations known, or known anew after a change of the config. Without it nothing goes to them.
    pub async fn register_destinations(&self, destinations: &[DestinationFacts]) -> Result<(), StoreError> {
        let mut sorted: Vec<&DestinationFacts> = destinations.iter().collect();
        sorted.sort_by_key(|facts| &facts.name);
        let mut tx = self.begin().await?;
        for facts in sorted {
            let attempts = i64::from(facts.attempts.max(1));
            let values = vec![facts.name.as_str().into(), attempts.into(), i64::from(facts.ordered).into()];
            tx.execute(&sql::REGISTER_DESTINATION, values).await?;
        }
        tx.commit_or_fail().await
    }

    /// The names of all destinations that any node ever served.
    pub async fn destinations(&self) -> Result<Vec<String>, StoreError> {
        self.query(&sql::DESTINATIONS, Vec::new()).await?.iter().map(|row| row.text(0)).collect()
    }

    /// Takes back messages that are claimed beyond their lease: at most 500, so call it again until there are none.
    pub async fn expire_messages(&self, now: UnixMillis) -> Result<Vec<ExpiredMessage>, StoreError> {
        let mut tx = self.begin_judging().await?;
        let error = "the lease ended without an answer";
        let rows = tx.query(&sql::EXPIRE_MESSAGES, vec![now.into(), SLICE.into(), error.into()]).await?;
        let expired = tx.record_lost_messages(&rows, error, now).await?;
        tx.commit_or_fail().await?;
        Ok(expired)
    }

    /// Takes back the messages of a process, under the same proof as [`Store::reclaim`], and before it: that one forgets
    /// the process.
    pub async fn reclaim_messages(&self, dead: NodeKey, now: UnixMillis) -> Result<Vec<ExpiredMessage>, StoreError> {
        let error = "the process ended before it answered";
        let mut reclaimed = Vec::new();
        loop {
            let mut tx = self.begin_judging().await?;
            let values = vec![now.into(), SLICE.into(), error.into(), dead.into()];
            let rows = tx.query(&sql::RECLAIM_MESSAGES, values).await?;
            reclaimed.extend(tx.record_lost_messages(&rows, error, now).await?);
            tx.commit_or_fail().await?;
            if rows.is_empty() {
                return Ok(reclaimed);
            }
        }
    }
}

impl Tx {
    async fn record_lost_messages(
        &mut self,
        rows: &[Row],
        error: &str,
        now: UnixMillis,
    ) -> Result<Vec<ExpiredMessage>, StoreError> {
        let mut expired = Vec::with_capacity(rows.len());
        for row in rows {
            let (id, attempt) = (row.key(0)?, row.int(3)?);
            let (node, started) = (row.optional_key::<NodeKind>(4)?, row.optional_int(5)?);
            let values = vec![id.into(), attempt.into(), node.into(), started.into(), now.into(), error.into()];
            let used = row.text(6)? == error;
            if used {
                self.execute(&sql::LOST_MESSAGE_ATTEMPT, values).await?;
            }
            let dead = row.text(2)? == "dead";
            expired.push(ExpiredMessage { id, destination: row.text(1)?, attempt: count(attempt), dead, used });
        }
        Ok(expired)
    }
}
