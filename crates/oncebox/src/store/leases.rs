//! Leases that ended without a word, and processes that ended with claims in their hands.
//!
//! Every node expires leases, whoever they belong to. A node's own earlier process is known to be dead sooner: on SQLite
//! by the lock file that only one server can hold, on Postgres by a session lock on the node's name. Consumers outside
//! claim without a node, so a restart of ours takes nothing from them.

use super::{Database, Row, Store, StoreError, Tx, Value, sql};
use crate::clock::UnixMillis;
use crate::event::EventKey;

/// Leases ended in one transaction.
const SLICE: i64 = 500;

/// A delivery taken back from a worker that went silent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired {
    /// The delivery.
    pub delivery: EventKey,
    /// The event's key.
    pub key: EventKey,
    /// The source's name.
    pub source: String,
    /// The sender's id.
    pub event_id: String,
    /// The handler's name.
    pub handler: String,
    /// The attempt that was lost.
    pub attempt: i64,
    /// True when it was the last one.
    pub dead: bool,
}

/// A node's name and the key of this process of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    /// The node's name, the same over restarts.
    pub name: String,
    /// This process.
    pub node: EventKey,
}

/// Proof that no other process runs under a node's name. Dropping it ends the proof.
#[derive(Debug)]
pub struct NodeLock {
    #[cfg(feature = "postgres")]
    session: Option<deadpool_postgres::ClientWrapper>,
}

impl NodeLock {
    /// False once the session that held the lock is gone; take it anew then.
    pub fn is_held(&self) -> bool {
        #[cfg(feature = "postgres")]
        return self.session.as_ref().is_none_or(|session| !session.is_closed());
        #[cfg(not(feature = "postgres"))]
        true
    }
}

impl Store {
    /// Proves that every earlier process of this name is dead; none when that cannot be known.
    pub async fn lock_node(&self, name: &str) -> Result<Option<NodeLock>, StoreError> {
        // The SQLite file has one server, whatever its name.
        let _ = name;
        match &self.database {
            #[cfg(feature = "sqlite")]
            Database::Sqlite(database) => Ok(database.is_server().then_some(NodeLock {
                #[cfg(feature = "postgres")]
                session: None,
            })),
            #[cfg(feature = "postgres")]
            Database::Postgres(database) => {
                let session = database.lock_node(name).await?;
                Ok(session.map(|session| NodeLock { session: Some(session) }))
            }
        }
    }

    /// True when a delivery or a message is claimed beyond its lease.
    pub async fn leases_ended(&self, now: UnixMillis) -> Result<bool, StoreError> {
        Ok(!self.query(&sql::LEASES_ENDED, vec![now.into()]).await?.is_empty())
    }

    /// Takes back what is claimed beyond its lease: at most 500, so call it again until it returns fewer.
    pub async fn expire_leases(&self, now: UnixMillis) -> Result<Vec<Expired>, StoreError> {
        let mut tx = self.begin().await?;
        let error = "the lease ended without an answer";
        let rows = tx.query(&sql::EXPIRE_LEASES, vec![now.into(), SLICE.into(), error.into()]).await?;
        let expired = tx.record_lost(&rows, error, now).await?;
        tx.commit_or_fail().await?;
        Ok(expired)
    }

    /// Writes this process down, before it claims anything, or that it still lives.
    pub async fn register_node(&self, entry: &NodeEntry, now: UnixMillis) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let values = vec![entry.node.into(), entry.name.as_str().into(), now.into()];
        tx.execute(&sql::REGISTER_NODE, values).await?;
        tx.commit_or_fail().await
    }

    /// Takes back the claims of earlier processes of this name. Only for a caller who knows that they are dead: it holds
    /// the SQLite file as its server, or the lock of [`Store::lock_node`].
    pub async fn reclaim(&self, entry: &NodeEntry, now: UnixMillis) -> Result<Vec<Expired>, StoreError> {
        let (error, name) = ("the process ended before it answered", entry.name.as_str());
        let mut reclaimed = Vec::new();
        loop {
            let mut tx = self.begin().await?;
            let values = vec![now.into(), SLICE.into(), error.into(), name.into(), entry.node.into()];
            let rows = tx.query(&sql::RECLAIM, values).await?;
            let last = rows.is_empty();
            reclaimed.extend(tx.record_lost(&rows, error, now).await?);
            if last {
                tx.execute(&sql::DROP_DEAD_NODES, vec![name.into(), entry.node.into()]).await?;
            }
            tx.commit_or_fail().await?;
            if last {
                return Ok(reclaimed);
            }
        }
    }
}

impl Tx {
    async fn record_lost(&mut self, rows: &[Row], error: &str, now: UnixMillis) -> Result<Vec<Expired>, StoreError> {
        let mut expired = Vec::with_capacity(rows.len());
        for row in rows {
            let node: Value = row.optional_key(5)?.into();
            let started: Value = row.optional_int(6)?.into();
            let values = vec![row.key(0)?.into(), row.int(4)?.into(), node, started, now.into(), error.into()];
            self.execute(&sql::LOST_ATTEMPT, values).await?;
            expired.push(Expired {
                delivery: row.key(0)?,
                key: row.key(1)?,
                handler: row.text(2)?,
                // An event is never removed before its deliveries; its line in the log is no reason to fail.
                source: row.optional_text(7)?.unwrap_or_default(),
                event_id: row.optional_text(8)?.unwrap_or_default(),
                attempt: row.int(4)?,
                dead: row.text(3)? == "dead",
            });
        }
        Ok(expired)
    }
}
