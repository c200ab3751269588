//! Leases that ended without a word, and processes that ended with claims in their hands.
//!
//! Every node expires leases, whoever they belong to. A node's own earlier process is known to be dead sooner: on SQLite
//! by the lock file that only one server can hold, on Postgres by a session lock on the process's key. Consumers outside
//! claim without a node, so a restart of ours takes nothing from them.

use crate::clock::UnixMillis;
pub use crate::database::Expired;
use crate::database::steady::Told;
use crate::database::verb::deliveries::{self, SLICE, record_lost};
use crate::event::NodeKey;
use crate::store::{Database, Store, StoreError, Tx, sql};

/// A node's name and the key of this process of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    /// The node's name, the same over restarts. What is behind an `@` is a place that only one process can have at a time.
    pub name: String,
    /// This process.
    pub node: NodeKey,
}

/// What a node has to look after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chores {
    /// A delivery or a message is claimed beyond its lease.
    pub leases_ended: bool,
    /// Other processes ran under this node's name, and may be dead.
    pub has_kin: bool,
}

/// Another process that ran under a node's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kin {
    /// The process.
    pub node: NodeKey,
    /// What it shares with us.
    pub nearness: Nearness,
}

/// What two processes share that run, or ran, under one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearness {
    /// The address that only one process can listen on: the other one is dead, or lives on another machine.
    Place,
    /// No more than the name, as clones do and a container that was made anew: the other one may live.
    Name,
}

impl NodeEntry {
    /// The name without the place behind its `@`.
    fn base(&self) -> &str {
        self.name.split_once('@').map_or(self.name.as_str(), |(base, _)| base)
    }

    fn nearness(&self, other: &Self) -> Option<Nearness> {
        if self.base() != other.base() {
            return None;
        }
        let is_place = self.name.contains('@') && self.name == other.name;
        Some(if is_place { Nearness::Place } else { Nearness::Name })
    }
}

/// A lock by name, for as long as its session lives: of a process by its key, so that others know that it lives.
/// Dropping it ends it.
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

    /// True when no session holds the lock of this process. That alone does not prove it dead: the database drops every
    /// lock when it restarts, and whoever lost its session takes its lock anew a moment later.
    pub async fn proves_gone(&self, node: NodeKey) -> Result<bool, StoreError> {
        #[cfg(feature = "postgres")]
        if let Some(session) = &self.session {
            return crate::store::postgres::is_gone(session, node).await;
        }
        let _ = node;
        Ok(true)
    }
}

impl Store {
    /// Takes a lock by name; none when another session has it, or this process is not the server of an SQLite file.
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
        let mut tx = self.begin_judging().await?;
        let expired = deliveries::expire(&mut tx, self.at(now)).await?;
        tx.commit_or_fail().await?;
        Ok(expired)
    }

    /// Writes this process down, before it claims anything, or that it still lives.
    pub async fn register_node(&self, entry: &NodeEntry, now: UnixMillis) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        tx.register_node(entry, now).await?;
        tx.commit_or_fail().await
    }

    /// What is to be looked after, and with the same question the time.
    pub async fn chores(&self, entry: &NodeEntry, now: UnixMillis) -> Result<Chores, StoreError> {
        let asked = self.steady.asked();
        let base = format!("{}@", entry.base());
        let values = vec![now.into(), entry.node.into(), entry.name.as_str().into(), base.as_str().into()];
        let rows = self.query(&sql::CHORES, values).await?;
        let row = rows.first().ok_or(StoreError::Corrupt { what: "steady clock" })?;
        let chores = Chores { leases_ended: row.int(4)? != 0, has_kin: row.int(5)? > 0 };
        self.steady.compare_with(self, Some(entry.node), asked, Told::read(&rows, self.dialect())?).await?;
        Ok(chores)
    }

    /// The other processes that once ran under this node's name, as far as they can be proved dead.
    pub async fn kin(&self, entry: &NodeEntry) -> Result<Vec<Kin>, StoreError> {
        let mut kin = Vec::new();
        for row in self.query(&sql::OTHER_NODES, vec![entry.node.into()]).await? {
            let other = NodeEntry { node: row.key(0)?, name: row.text(1)? };
            let nearness = match self.kind() {
                // The file has one server, whatever its name.
                "sqlite" => Some(Nearness::Place),
                // A process of an earlier version, which has no lock that could prove anything.
                _ if row.optional_int(2)?.is_none() => None,
                _ => entry.nearness(&other),
            };
            kin.extend(nearness.map(|nearness| Kin { node: other.node, nearness }));
        }
        Ok(kin)
    }

    /// Takes back the deliveries of a process and forgets it. Only for a caller who knows that it is dead, by
    /// [`NodeLock::proves_gone`].
    pub async fn reclaim(&self, dead: NodeKey, now: UnixMillis) -> Result<Vec<Expired>, StoreError> {
        let error = "the process ended before it answered";
        let mut reclaimed = Vec::new();
        loop {
            let mut tx = self.begin_judging().await?;
            let values = vec![now.into(), SLICE.into(), error.into(), dead.into()];
            let rows = tx.query(&sql::RECLAIM, values).await?;
            let last = rows.is_empty();
            reclaimed.extend(record_lost(&mut tx, &rows, error, now).await?);
            if last {
                tx.execute(&sql::DROP_DEAD_NODE, vec![dead.into()]).await?;
            }
            tx.commit_or_fail().await?;
            if last {
                return Ok(reclaimed);
            }
        }
    }
}

impl Tx {
    pub(in crate::store) async fn register_node(
        &mut self,
        entry: &NodeEntry,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        let values = vec![entry.node.into(), entry.name.as_str().into(), now.into()];
        self.execute(&sql::REGISTER_NODE, values).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_place_proves_that_one_process_followed_the_other() {
        let entry = |name: &str| NodeEntry { name: name.to_owned(), node: NodeKey::MIN };
        let check = |ours: &str, other: &str, expected| {
            assert_eq!(entry(ours).nearness(&entry(other)), expected, "{ours} {other}");
        };
        check("web/0.0.0.0:80@1", "web/0.0.0.0:80@1", Some(Nearness::Place));
        check("web/0.0.0.0:80@1", "web/0.0.0.0:80@2", Some(Nearness::Name));
        check("web/0.0.0.0:80@1", "web/0.0.0.0:80", Some(Nearness::Name));
        check("web", "web", Some(Nearness::Name));
        check("web", "web2", None);
        check("web/0.0.0.0:80@1", "web/0.0.0.0:81@1", None);
    }
}
