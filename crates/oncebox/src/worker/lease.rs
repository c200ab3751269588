//! Brings back what nobody works on any more: leases that ended, and at the start the claims of this node's own earlier
//! process, at once, but only when that one is proved dead.
//!
//! Every node does this, and doing it twice or at the same time changes nothing more than once.

use std::time::Duration;

use super::metric;
use crate::clock::Clock;
use crate::limits::LEASES_EVERY;
use crate::shutdown::Shutdown;
use crate::store::{Expired, ExpiredMessage, NodeEntry, NodeLock, Store, StoreError};
use crate::wake::Wake;

const PAUSE: Duration = Duration::from_secs(1);
/// How soon to ask again for the proof that the predecessor is dead: its session may end a moment after it.
const PROOF_EVERY: Duration = Duration::from_millis(300);

/// What looks after leases.
#[derive(Debug)]
pub(super) struct Leases {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) wake: Wake,
    pub(super) node: NodeEntry,
}

impl Leases {
    /// Writes this process down and takes back what its dead predecessor had. The lock must be kept while we live.
    pub(super) async fn begin(&self) -> Result<Option<NodeLock>, StoreError> {
        self.store.register_node(&self.node, self.clock.now()).await?;
        self.prove().await
    }

    /// Gives ended leases back until it is asked to stop.
    pub(super) async fn run(self, mut lock: Option<NodeLock>, stopping: Shutdown) {
        let mut looks = 0_u32;
        loop {
            let pause = if lock.is_none() && looks < 10 { PROOF_EVERY } else { LEASES_EVERY };
            tokio::select! {
                () = stopping.wait() => return,
                () = tokio::time::sleep(pause) => looks += 1,
            }
            if let Err(error) = self.step(&mut lock).await {
                tracing::warn!("ended leases wait for the database: {}", error.chain());
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn step(&self, lock: &mut Option<NodeLock>) -> Result<(), StoreError> {
        match lock {
            None => *lock = self.prove().await?,
            // Lost with its session. Only the proof is renewed: what was claimed since we began is ours.
            Some(held) if !held.is_held() => *lock = self.store.lock_node(&self.node.name).await?,
            Some(_) => {}
        }
        while self.store.leases_ended(self.clock.now()).await? {
            let expired = self.store.expire_leases(self.clock.now()).await?;
            self.note(&expired);
            let messages = self.store.expire_messages(self.clock.now()).await?;
            self.note_messages(&messages);
            if expired.is_empty() && messages.is_empty() {
                // Another node has them under way.
                break;
            }
        }
        Ok(())
    }

    /// The proof that nobody else works under our name, and with it what our predecessors left.
    async fn prove(&self) -> Result<Option<NodeLock>, StoreError> {
        let lock = self.store.lock_node(&self.node.name).await?;
        if lock.is_some() {
            self.note_messages(&self.store.reclaim_messages(&self.node, self.clock.now()).await?);
            self.note(&self.store.reclaim(&self.node, self.clock.now()).await?);
        }
        Ok(lock)
    }

    fn note(&self, expired: &[Expired]) {
        expired.iter().for_each(metric::expired);
        let ready: Vec<std::sync::Arc<str>> =
            expired.iter().filter(|one| !one.dead).map(|one| one.handler.as_str().into()).collect();
        self.wake.handlers(&ready);
    }

    /// The relay shares this node's lease on life, so its messages come back the same way.
    fn note_messages(&self, expired: &[ExpiredMessage]) {
        expired.iter().for_each(metric::expired_message);
        let ready: Vec<std::sync::Arc<str>> =
            expired.iter().filter(|one| !one.dead).map(|one| one.destination.as_str().into()).collect();
        self.wake.destinations(&ready);
    }
}
