//! One handler's loop: claims as much as it has places for, begins the work, waits for more.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{Id, JoinSet};

use super::{Registered, Shared, attempt};
use crate::database::verb::deliveries;
use crate::database::{Fence, Pool, StoreError};
use crate::shutdown::Shutdown;

/// How long giving a claim back may take at the end.
const LAST_WRITE: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(super) struct Lane<P: Pool> {
    pub(super) shared: Shared<P>,
    pub(super) name: Arc<str>,
    pub(super) registered: Registered<P>,
}

/// What is under way: its tasks, and whose delivery each has.
#[derive(Default)]
struct InFlight {
    tasks: JoinSet<()>,
    fences: HashMap<Id, Fence>,
    /// What is in hand was lost with its worker before, and is tried alone.
    alone: bool,
}

impl<P: Pool> Lane<P> {
    pub(super) async fn run(self, stopping: Shutdown, grace: watch::Receiver<Duration>) {
        let mut hands = InFlight::default();
        while !stopping.requested() {
            let look = self.shared.wake.notified();
            let pause = match self.step(&mut hands, &stopping).await {
                Ok(true) => Duration::ZERO,
                Ok(false) => self.registered.options.poll,
                Err(error) => {
                    tracing::warn!(handler = &*self.name, "claim failed, retrying: {}", error.chain());
                    self.registered.options.poll
                }
            };
            let full = hands.tasks.len() >= self.registered.options.concurrency.max(1);
            tokio::select! {
                () = stopping.wait() => {}
                Some(ended) = hands.tasks.join_next_with_id() => hands.ended(ended),
                () = look, if !full => {}
                () = tokio::time::sleep(pause), if !full => {}
            }
        }
        let grace = *grace.borrow();
        self.stop(hands, grace).await;
    }

    /// Claims what there are places for, and says whether there may be more to claim at once.
    async fn step(&self, hands: &mut InFlight, stopping: &Shutdown) -> Result<bool, StoreError> {
        while let Some(ended) = hands.tasks.try_join_next_with_id() {
            hands.ended(ended);
        }
        let free = self.registered.options.concurrency.max(1).saturating_sub(hands.tasks.len());
        let is_idle = hands.tasks.is_empty();
        if free == 0 || (hands.alone && !is_idle) {
            return Ok(false);
        }
        // On SQLite it waits while an attempt of ours writes; a stop cuts that attempt off, so it must not wait here.
        let tx = tokio::select! {
            tx = self.shared.pool.begin() => tx?,
            () = stopping.wait() => return Ok(false),
        };
        let (lease, now) = (self.registered.options.lease, self.shared.at());
        let claims = deliveries::claim::<P>(tx, &self.name, free, is_idle, lease, now).await?;
        hands.alone = claims.lost && is_idle && !claims.claimed.is_empty();
        for buried in &claims.buried {
            let (key, attempt) = (buried.key.to_string(), buried.attempt);
            tracing::warn!(handler = &*self.name, key, attempt, "a dead letter: the attempts are used up");
        }
        let may_be_more = claims.claimed.len() + claims.buried.len() >= if claims.lost { 1 } else { free };
        for claimed in claims.claimed {
            let fence = claimed.fence;
            let id = hands.tasks.spawn(attempt::run(self.clone(), claimed)).id();
            hands.fences.insert(id, fence);
        }
        Ok(may_be_more)
    }

    async fn stop(self, mut hands: InFlight, grace: Duration) {
        let ends = async {
            while let Some(ended) = hands.tasks.join_next_with_id().await {
                hands.ended(ended);
            }
        };
        if tokio::time::timeout(grace, ends).await.is_ok() {
            return;
        }
        // Rolled back; and what is rolled back is given back.
        hands.tasks.shutdown().await;
        tracing::warn!(handler = &*self.name, "{} deliveries were cut off and are ready again", hands.fences.len());
        for fence in hands.fences.into_values() {
            attempt::give_back(&self, fence, LAST_WRITE).await;
        }
    }
}

impl InFlight {
    fn ended(&mut self, ended: Result<(Id, ()), tokio::task::JoinError>) {
        let id = match ended {
            Ok((id, ())) => id,
            // Ours to repair, and never to stop for: the lease brings its delivery back.
            Err(error) => {
                tracing::error!("an attempt panicked: {error}");
                error.id()
            }
        };
        self.fences.remove(&id);
    }
}
