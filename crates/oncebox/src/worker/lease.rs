//! Brings back what nobody works on any more: leases that ended, and at once the claims of processes of this node's own
//! name, but only of those that are proved dead. With the same question it compares the database's clock with our own.
//!
//! Every node does this, and doing it twice or at the same time changes nothing more than once.

use std::collections::HashMap;
use std::time::Duration;

use super::metric;
use crate::clock::Clock;
use crate::event::NodeKey;
use crate::limits::{GONE_FOR, LEASES_EVERY, TIME_NOTED_EVERY};
use crate::shutdown::Shutdown;
use crate::store::{Expired, ExpiredMessage, Kin, Nearness, NodeEntry, NodeLock, Store, StoreError};
use crate::wake::Wake;

const PAUSE: Duration = Duration::from_secs(1);
/// How soon to ask again for the proof that the predecessor is dead: its session may end a moment after it.
const PROOF_EVERY: Duration = Duration::from_millis(300);
const PROOFS: u32 = 10;

/// What looks after leases.
#[derive(Debug)]
pub(super) struct Leases {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) wake: Wake,
    pub(super) node: NodeEntry,
}

/// What shows others that we live, and what it showed us of them.
#[derive(Debug, Default)]
pub(super) struct Proof {
    /// The lock of this process; it must be kept while we live.
    lock: Option<NodeLock>,
    /// Since when no session holds the lock of a process that may live, as far as one session of ours has seen.
    gone_since: HashMap<NodeKey, Duration>,
    /// Whether the predecessor may end at any moment.
    expects_end: bool,
    noted: Duration,
}

impl Leases {
    /// Writes this process down and takes back what its dead predecessor had.
    pub(super) async fn begin(&self) -> Result<Proof, StoreError> {
        self.store.begin_time(&self.clock).await?;
        let mut proof = Proof::default();
        // Before the first claim: whoever has claims and no lock is taken for dead.
        self.hold(&mut proof).await?;
        self.store.note_time(&self.node, self.clock.now()).await?;
        proof.noted = self.clock.monotonic();
        self.reclaim(&mut proof).await?;
        Ok(proof)
    }

    /// Gives ended leases back until it is asked to stop.
    pub(super) async fn run(self, mut proof: Proof, stopping: Shutdown) {
        let mut looks = 0_u32;
        loop {
            let pause = if proof.expects_end && looks < PROOFS { PROOF_EVERY } else { LEASES_EVERY };
            tokio::select! {
                () = stopping.wait() => break,
                () = tokio::time::sleep(pause) => looks = looks.saturating_add(1),
            }
            if let Err(error) = self.step(&mut proof).await {
                tracing::warn!("checking for expired leases failed, retrying: {}", error.chain());
                tokio::time::sleep(PAUSE).await;
            }
        }
        // So that a clock that goes back while nobody runs is seen.
        if let Err(error) = self.store.note_time(&self.node, self.clock.now()).await {
            tracing::debug!("the time of the end was not written down: {}", error.chain());
        }
    }

    async fn step(&self, proof: &mut Proof) -> Result<(), StoreError> {
        self.hold(proof).await?;
        let chores = self.store.chores(&self.node, self.clock.now()).await?;
        if chores.has_kin {
            self.reclaim(proof).await?;
        }
        let mut ended = chores.leases_ended;
        while ended {
            let expired = self.store.expire_leases(self.clock.now()).await?;
            self.note(&expired);
            let messages = self.store.expire_messages(self.clock.now()).await?;
            self.note_messages(&messages);
            // None came where another node has them under way.
            ended = !(expired.is_empty() && messages.is_empty()) && self.store.leases_ended(self.clock.now()).await?;
        }
        // On SQLite claims write the time down, and nobody else needs to know that we live.
        let is_shared = self.store.kind() != "sqlite";
        if is_shared && self.clock.monotonic().saturating_sub(proof.noted) >= TIME_NOTED_EVERY {
            self.store.note_time(&self.node, self.clock.now()).await?;
            proof.noted = self.clock.monotonic();
        }
        Ok(())
    }

    /// Takes our own lock, or takes it anew where it was lost with its session.
    async fn hold(&self, proof: &mut Proof) -> Result<(), StoreError> {
        if proof.lock.as_ref().is_some_and(NodeLock::is_held) {
            return Ok(());
        }
        // What cut our session may have cut the others', too: what was seen before proves nothing any more.
        proof.gone_since.clear();
        proof.lock = None;
        proof.lock = self.store.lock_node(&self.node.node.to_string()).await?;
        Ok(())
    }

    /// Takes the claims of processes of our name that are proved dead.
    async fn reclaim(&self, proof: &mut Proof) -> Result<(), StoreError> {
        let Some(lock) = &proof.lock else { return Ok(()) };
        let (mut gone_since, mut expects_end) = (HashMap::new(), false);
        for Kin { node, nearness } in self.store.kin(&self.node).await? {
            let gone = match lock.proves_gone(node).await {
                Ok(gone) => gone,
                Err(error) => {
                    // The session may be of no use any more, and a new one begins to count anew.
                    proof.lock = None;
                    return Err(error);
                }
            };
            let now = self.clock.monotonic();
            let since = proof.gone_since.get(&node).copied().unwrap_or(now);
            match nearness {
                Nearness::Place if !gone => expects_end = true,
                Nearness::Name if gone && now.saturating_sub(since) < GONE_FOR => drop(gone_since.insert(node, since)),
                Nearness::Place | Nearness::Name if gone => {
                    self.note_messages(&self.store.reclaim_messages(node, self.clock.now()).await?);
                    self.note(&self.store.reclaim(node, self.clock.now()).await?);
                }
                Nearness::Place | Nearness::Name => {}
            }
        }
        proof.gone_since = gone_since;
        proof.expects_end = expects_end;
        Ok(())
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
