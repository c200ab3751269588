//! Payloads by the day: partitions made ahead, and old ones dropped whole where little in them is still needed.
//!
//! What cannot be done now (others hold a lock, the role may not) is left for the slices, which need neither: nothing ever
//! fails because a partition is not there.

use super::pass::{Done, Pass, SLICE};
use super::{days, plan};
use crate::event::EventKey;
use crate::store::{Exclusive, Partition, StoreError};

/// What moves while everybody waits must be little: beyond these a partition is emptied in slices instead.
const KEPT_MAX: usize = 1000;
const KEPT_BYTES_MAX: i64 = 8 * 1024 * 1024;
/// Clocks of the database's own transactions: what became due while a look was under way.
const LOOK_MARGIN_MS: i64 = 10_000;

impl Pass<'_> {
    pub(super) async fn partitions(&self, done: &mut Done) -> Result<(), StoreError> {
        make_ahead(self).await?;
        if let Err(error) = self.store.summarize_ledger(self.lock).await {
            tracing::debug!("the ledger's pages were not summed up: {}", error.chain());
        }
        for one in days::old(&self.store.partitions().await?, self.windows, self.now) {
            if self.stopping.requested() {
                break;
            }
            self.drop_old(one, done).await?;
        }
        Ok(())
    }

    async fn drop_old(&self, one: &Partition, done: &mut Done) -> Result<(), StoreError> {
        let looked_at = self.store.database_time(self.clock.now()).await? - LOOK_MARGIN_MS;
        let Some((rows, kept)) = self.look_into(one).await? else { return Ok(()) };
        if self.store.payload_bytes(&kept).await? > KEPT_BYTES_MAX {
            return Ok(());
        }
        match self.store.drop_partition(self.lock, one, &kept, looked_at).await? {
            Exclusive::Done => {
                let kept = kept.len() as u64;
                tracing::info!("dropped {} with {} payloads, {kept} moved because they are needed", one.name, rows);
                self.count(done, "payloads", rows.saturating_sub(kept));
            }
            Exclusive::Later => tracing::info!("{} is in use; it is dropped later", one.name),
            Exclusive::Refused => {
                tracing::warn!("this role may not drop {}; its rows are deleted in batches", one.name)
            }
        }
        Ok(())
    }

    /// Reads the whole partition, its bytes aside, without any lock: how many payloads there are, and which of them are not
    /// over. None where too much is still needed.
    async fn look_into(&self, one: &Partition) -> Result<Option<(u64, Vec<EventKey>)>, StoreError> {
        let (mut after, mut rows, mut kept) = (one.from, 0, Vec::new());
        while !self.stopping.requested() {
            let slice = self.politely(self.store.aged_payloads(after, one.to, SLICE)).await?;
            let (Some(first), Some(last)) = (slice.first(), slice.last()) else {
                return Ok(Some((rows, kept)));
            };
            let open = self.store.open_keys(first.key, last.key).await?;
            let found = plan::payloads(&slice, &open, self.windows, self.now);
            after = last.key;
            rows += slice.len() as u64;
            kept.extend(found.needed.into_iter().chain(found.young));
            if kept.len() > KEPT_MAX {
                break;
            }
        }
        Ok(None)
    }
}

/// Makes what is missing from today on. A day of which something is stored already stays with the rest.
pub(super) async fn make_ahead(pass: &Pass<'_>) -> Result<(), StoreError> {
    let existing = pass.store.partitions().await?;
    for one in days::missing(&existing, pass.windows, pass.started_at) {
        match pass.store.make_partition(pass.lock, &one).await? {
            Exclusive::Done => tracing::info!("made {} for payloads to come", one.name),
            Exclusive::Later => tracing::info!("{} is made later: others are at work", one.name),
            Exclusive::Refused => tracing::debug!("{} was not made; its payloads go to the rest", one.name),
        }
    }
    Ok(())
}
