//! One attempt: the handler runs in a task of its own, so that its panic is a failed attempt like any other, while its
//! lease is extended beside it. Whatever happens, the attempt comes to an end within its deadline.

use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use super::context::{Context, End};
use super::lane::Lane;
use crate::database::verb::deliveries;
use crate::database::{Claimed, ENDED, Failure, Fence, Fenced, Pool, StoreError, commit_or_fail};
use crate::delivery::chance::chance;
use crate::delivery::handler_error::HandlerError;
use crate::delivery::metric::{Outcome, counted, took};
use crate::delivery::{Failed, after_failure};

pub(super) async fn run<P: Pool>(lane: Lane<P>, claimed: Claimed) {
    let told = Told { lane: &lane, claimed: claimed.clone() };
    let context = Context::new(lane.shared.clone(), lane.name.clone(), claimed);
    let deadline = lane.registered.options.deadline;
    let since = lane.shared.clock.monotonic();
    let ended = tokio::time::timeout(deadline, handled(&lane, context)).await;
    took(&lane.name, lane.shared.clock.monotonic().saturating_sub(since), 1);
    match ended {
        Ok(End::Done) => told.done(),
        Ok(End::LeaseLost) => told.warn("rolled back: the lease was lost"),
        Ok(End::Ended) => told.fail(&HandlerError::reject(ENDED)).await,
        Ok(End::Failed(error)) => told.fail(&error).await,
        Err(_) => told.fail(&HandlerError::retry(format!("cut off after {deadline:?}"))).await,
    }
}

/// The handler and the mark; dropped, it rolls back.
async fn handled<P: Pool>(lane: &Lane<P>, mut context: Context<P>) -> End {
    let (handler, fence) = (lane.registered.handler.clone(), context.fence);
    let work = AbortOnDropHandle::new(tokio::spawn(async move {
        match handler(&mut context).await {
            Ok(()) => context.finish().await.unwrap_or_else(|error| End::Failed(error.into())),
            Err(_) if context.has_ended_tx().await => End::Ended,
            Err(error) => End::Failed(error),
        }
    }));
    tokio::select! {
        ended = work => match ended {
            Ok(end) => end,
            Err(broke) if broke.is_panic() => End::Failed(HandlerError::retry("the handler panicked")),
            Err(broke) => End::Failed(broke.into()),
        },
        () = heartbeat(lane, fence) => End::LeaseLost,
    }
}

/// Extends the lease while the handler lives; ends when it was lost.
async fn heartbeat<P: Pool>(lane: &Lane<P>, fence: Fence) {
    let lease = lane.registered.options.lease;
    loop {
        tokio::time::sleep(lease / 3).await;
        let now = lane.shared.at();
        // Longer than a third, the answer is of no use; and a handler on SQLite may itself be in the way of it.
        match tokio::time::timeout(lease / 3, deliveries::extend(&lane.shared.pool, fence, lease, now)).await {
            Ok(Ok(None)) => return,
            Ok(Ok(Some(_))) | Err(_) => {}
            Ok(Err(error)) => tracing::debug!(handler = &*lane.name, "a lease was not extended: {}", error.chain()),
        }
    }
}

/// What is said about an attempt when it ends.
struct Told<'l, P: Pool> {
    lane: &'l Lane<P>,
    claimed: Claimed,
}

impl<P: Pool> Told<'_, P> {
    fn done(&self) {
        counted(&self.lane.name, self.claimed.attempt, Outcome::Done);
        let Claimed { source, event_id, attempt, .. } = &self.claimed;
        let key = self.claimed.key.to_string();
        tracing::info!(handler = &*self.lane.name, source, event_id, key, attempt, "done");
    }

    fn warn(&self, message: &str) {
        let Claimed { source, event_id, attempt, .. } = &self.claimed;
        let key = self.claimed.key.to_string();
        tracing::warn!(handler = &*self.lane.name, source, event_id, key, attempt, "{message}");
    }

    async fn fail(&self, error: &HandlerError) {
        let Claimed { fence, attempt, attempts_before, .. } = self.claimed;
        let lane = self.lane;
        let failed = match error {
            HandlerError::Retry(_) => Failed::Transient { retry_after: None },
            HandlerError::Reject(_) => Failed::Permanent,
        };
        let retry = &lane.registered.options.retry;
        let next = after_failure(retry, attempt, attempts_before, failed, chance());
        let error = error.chain();
        counted(&lane.name, attempt, next.into());
        self.warn(&format!("failed, then {next:?}: {error}"));
        let recorded = async {
            let mut tx = lane.shared.pool.begin().await?;
            let failure = Failure { fence, next, error, status: None };
            let fenced = deliveries::fail(&mut tx, &failure, lane.shared.at()).await?;
            commit_or_fail::<P>(tx).await?;
            Ok::<_, StoreError>(fenced)
        };
        match recorded.await {
            Ok(Fenced::Recorded) => {}
            Ok(Fenced::LeaseLost) => self.warn("the failure is not recorded: the lease was lost"),
            Err(error) => self.warn(&format!("the failure ends with the lease: {}", error.chain())),
        }
    }
}

pub(super) async fn give_back<P: Pool>(lane: &Lane<P>, fence: Fence, limit: Duration) {
    let fences = [fence];
    let given = deliveries::give_back(&lane.shared.pool, &fences, Duration::ZERO, lane.shared.at());
    if !matches!(tokio::time::timeout(limit, given).await, Ok(Ok(_))) {
        tracing::warn!(handler = &*lane.name, "a claim could not be given back and expires with its lease");
    }
}
