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

/// Runs one attempt to its end and writes that down.
pub(super) async fn run<P: Pool>(lane: Lane<P>, claimed: Claimed) {
    let told = Told {
        fence: claimed.fence,
        attempt: claimed.attempt,
        attempts_before: claimed.attempts_before,
        key: claimed.key.to_string(),
        source: claimed.source.clone(),
        event_id: claimed.event_id.clone(),
    };
    let context = Context::new(lane.shared.clone(), lane.name.clone(), claimed);
    let deadline = lane.registered.options.deadline;
    let since = lane.shared.clock.monotonic();
    let ended = tokio::time::timeout(deadline, handled(&lane, context, told.fence)).await;
    took(&lane.name, lane.shared.clock.monotonic().saturating_sub(since), 1);
    match ended {
        Ok(Handled::Ended(End::Done)) => told.done(&lane),
        Ok(Handled::Ended(End::LeaseLost) | Handled::LeaseLost) => told.warn(&lane, "rolled back: the lease was lost"),
        Ok(Handled::Ended(End::Ended)) => told.fail(&lane, &HandlerError::reject(ENDED)).await,
        Ok(Handled::Ended(End::Failed(error))) => told.fail(&lane, &HandlerError::from(error)).await,
        Ok(Handled::Failed(error)) => told.fail(&lane, &error).await,
        Err(_) => told.fail(&lane, &HandlerError::retry(format!("cut off after {deadline:?}"))).await,
    }
}

enum Handled {
    Ended(End),
    Failed(HandlerError),
    LeaseLost,
}

/// The handler and the mark; dropped, it rolls back.
async fn handled<P: Pool>(lane: &Lane<P>, mut context: Context<P>, fence: Fence) -> Handled {
    let handler = lane.registered.handler.clone();
    let work = AbortOnDropHandle::new(tokio::spawn(async move {
        match handler.run(&mut context).await {
            Ok(()) => Handled::Ended(context.finish().await),
            Err(_) if context.has_ended_tx().await => Handled::Ended(End::Ended),
            Err(error) => Handled::Failed(error),
        }
    }));
    tokio::select! {
        ended = work => match ended {
            Ok(handled) => handled,
            Err(broke) if broke.is_panic() => Handled::Failed(HandlerError::retry("the handler panicked")),
            Err(broke) => Handled::Failed(broke.into()),
        },
        () = heartbeat(lane, fence) => Handled::LeaseLost,
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
struct Told {
    fence: Fence,
    attempt: u32,
    attempts_before: u32,
    key: String,
    source: String,
    event_id: String,
}

impl Told {
    fn done<P: Pool>(&self, lane: &Lane<P>) {
        counted(&lane.name, self.attempt, Outcome::Done);
        let Self { key, source, event_id, attempt, .. } = self;
        tracing::info!(handler = &*lane.name, source, event_id, key, attempt, "done");
    }

    fn warn<P: Pool>(&self, lane: &Lane<P>, message: &str) {
        let Self { key, source, event_id, attempt, .. } = self;
        tracing::warn!(handler = &*lane.name, source, event_id, key, attempt, "{message}");
    }

    async fn fail<P: Pool>(&self, lane: &Lane<P>, error: &HandlerError) {
        let failed = match error {
            HandlerError::Retry(_) => Failed::Transient { retry_after: None },
            HandlerError::Reject(_) => Failed::Permanent,
        };
        let retry = &lane.registered.options.retry;
        let next = after_failure(retry, self.attempt, self.attempts_before, failed, chance());
        let (fence, error) = (self.fence, error.chain());
        counted(&lane.name, self.attempt, next.into());
        self.warn(lane, &format!("failed, then {next:?}: {error}"));
        let recorded = async {
            let mut tx = lane.shared.pool.begin().await?;
            let failure = Failure { fence, next, error, status: None };
            let fenced = deliveries::fail(&mut tx, &failure, lane.shared.at()).await?;
            commit_or_fail::<P>(tx).await?;
            Ok::<_, StoreError>(fenced)
        };
        match recorded.await {
            Ok(Fenced::Recorded) => {}
            Ok(Fenced::LeaseLost) => self.warn(lane, "the failure is not recorded: the lease was lost"),
            Err(error) => self.warn(lane, &format!("the failure ends with the lease: {}", error.chain())),
        }
    }
}

/// Puts a claim back in line at a stop.
pub(super) async fn give_back<P: Pool>(lane: &Lane<P>, fence: Fence, limit: Duration) {
    let fences = [fence];
    let given = deliveries::give_back(&lane.shared.pool, &fences, Duration::ZERO, lane.shared.at());
    if !matches!(tokio::time::timeout(limit, given).await, Ok(Ok(_))) {
        tracing::warn!(handler = &*lane.name, "a claim could not be given back and expires with its lease");
    }
}
