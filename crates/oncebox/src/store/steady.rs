//! Keeping the steady time, which leases and due times stand on, for as long as a node runs.

use super::{NodeEntry, Store, StoreError, sql};
use crate::clock::{Clock, UnixMillis};
use crate::database::steady::{Jump, Times, Told};
use crate::database::verb::steady::PoolTimes;
use crate::event::NodeKey;
use crate::limits::LEASES_EVERY;
use crate::shutdown::Shutdown;

impl Times for Store {
    async fn told(&self, wall: UnixMillis) -> Result<Told, StoreError> {
        Told::read(&self.query(&sql::STEADY_CLOCK, vec![wall.into()]).await?, self.dialect())
    }

    async fn settle(&self, jump: Jump, node: Option<NodeKey>) -> Result<bool, StoreError> {
        PoolTimes(self).settle(jump, node).await
    }
}

impl Store {
    /// Begins to keep the steady time, before anything is claimed. Workers compare it from then on; a process that has
    /// none lets [`Store::keep_time`] do it.
    pub async fn begin_time(&self, clock: &Clock) -> Result<(), StoreError> {
        self.steady.begin(self, clock).await
    }

    /// Compares the steady time with our own clock, and settles a jump.
    pub async fn compare_time(&self, node: Option<NodeKey>) -> Result<(), StoreError> {
        self.steady.compare(self, node).await
    }

    /// Keeps the steady time until it is asked to stop, for a process without workers.
    pub async fn keep_time(&self, stopping: &Shutdown) {
        while tokio::time::timeout(LEASES_EVERY, stopping.wait()).await.is_err() {
            if let Err(error) = self.compare_time(None).await {
                tracing::warn!("comparing clocks failed, retrying: {}", error.chain());
            }
        }
    }

    /// Writes down how far the steady time came, and that this node lives.
    pub async fn note_time(&self, node: &NodeEntry, now: UnixMillis) -> Result<(), StoreError> {
        let Some(steady) = self.steady.now() else { return Ok(()) };
        let mut tx = self.begin().await?;
        tx.register_node(node, now).await?;
        tx.execute(&sql::NOTE_STEADY_CLOCK, vec![steady.into()]).await?;
        tx.commit_or_fail().await
    }
}
