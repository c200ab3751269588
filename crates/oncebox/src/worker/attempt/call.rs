//! One call to somewhere else. The call is made with no transaction open. What order asks for is judged and recorded
//! before it: two of one change that are under way at the same time would both be admitted otherwise, and a call that
//! failed may have reached its target all the same, so that nothing older may follow it.

use std::sync::Arc;

use super::transaction::OVERDUE;
use super::{Broken, Context, UnitEnd, failure, isolated};
use crate::delivery::Failed;
use crate::lane::circuit::Reached;
use crate::lane::completer::{Closed, PAUSE, TRIES_MAX};
use crate::store::{Claimed, Failure, Fenced, Finished, StoreError};
use crate::worker::handler::{CallError, HandlerSpec, Target};
use crate::worker::lane::Pace;
use crate::worker::metric::{self, Outcome};
use crate::worker::rules::{self, Ruling};

/// Makes the call and writes down how it ended.
pub(super) async fn run(
    context: &Context,
    spec: &Arc<HandlerSpec>,
    target: &Arc<dyn Target>,
    claims: Vec<Claimed>,
) -> UnitEnd {
    let mut reached = Reached::Unknown;
    for claim in claims {
        reached = one(context, spec, target, Arc::new(claim)).await;
    }
    UnitEnd { pace: Pace::Steady, reached }
}

async fn one(context: &Context, spec: &HandlerSpec, target: &Arc<dyn Target>, claim: Arc<Claimed>) -> Reached {
    match admitted(context, spec, &claim).await {
        Ok(true) => {}
        Ok(false) => return Reached::Unknown,
        Err(error) => {
            tracing::warn!("a call could not be prepared, retrying: {}", error.chain());
            context.give_back(std::slice::from_ref(&claim), "the database did not answer").await;
            return Reached::Unknown;
        }
    }
    match call(spec, target, &claim).await {
        Ok(()) => {
            succeeded(context, spec, claim).await;
            Reached::Yes
        }
        Err(CallError { error, status, failed, reached }) => {
            close_failed(context, &claim, failure(spec, &claim, failed, error, status)).await;
            reached
        }
    }
}

async fn call(spec: &HandlerSpec, target: &Arc<dyn Target>, claim: &Arc<Claimed>) -> Result<(), CallError> {
    // The target keeps its own deadline; this one is for a target that does not.
    let deadline = (target.deadline() + target.deadline() / 8).min(spec.lease * 7 / 8);
    let work = {
        let (target, claim) = (target.clone(), claim.clone());
        async move { target.call(&claim).await }
    };
    isolated(deadline, work).await.unwrap_or_else(|broken| {
        let reached = if broken == Broken::TimedOut { Reached::No } else { Reached::Unknown };
        let failed = Failed::Transient { retry_after: None };
        Err(CallError { error: broken.text(), status: None, failed, reached })
    })
}

/// True when the call is to be made; otherwise what order decided is written down.
async fn admitted(context: &Context, spec: &HandlerSpec, claim: &Claimed) -> Result<bool, StoreError> {
    if spec.order.are_none() {
        return Ok(true);
    }
    let now = context.clock.now();
    let mut tx = context.store.begin().await?;
    let ruling = rules::judge(&mut tx, spec, claim, now).await?;
    let outcome = match ruling {
        Ruling::Superseded(reason) => match tx.supersede(claim.fence, reason, now).await? {
            Fenced::Recorded => {
                rules::applied(&mut tx, spec, claim, now).await?;
                Some((Outcome::Superseded, reason))
            }
            Fenced::LeaseLost => None,
        },
        Ruling::Overdue => {
            let failure = failure(spec, claim, Failed::Permanent, OVERDUE.to_owned(), None);
            (tx.fail(&failure, now).await? == Fenced::Recorded).then_some((Outcome::Dead, OVERDUE))
        }
        Ruling::Run | Ruling::Waiting | Ruling::LeaseLost => None,
    };
    tx.commit_or_fail().await?;
    if let Some((outcome, reason)) = outcome {
        metric::ended(claim, outcome, reason);
    }
    Ok(ruling == Ruling::Run)
}

async fn succeeded(context: &Context, spec: &HandlerSpec, claim: Arc<Claimed>) {
    let closed = if spec.order.are_none() {
        context.completer.close(claim.clone(), None).await
    } else {
        close_in_order(context, spec, &claim).await
    };
    match closed {
        Closed::Recorded => metric::ended(&claim, Outcome::Done, ""),
        Closed::LeaseLost => metric::lost(&claim),
        Closed::Unwritten => unwritten(&claim),
    }
}

/// Marks a call done together with what order must remember of it.
async fn close_in_order(context: &Context, spec: &HandlerSpec, claim: &Claimed) -> Closed {
    for _ in 0..TRIES_MAX {
        match try_close_in_order(context, spec, claim).await {
            Ok(closed) => return closed,
            Err(error) => tracing::warn!("the result of a call could not be saved, retrying: {}", error.chain()),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Closed::Unwritten
}

async fn try_close_in_order(context: &Context, spec: &HandlerSpec, claim: &Claimed) -> Result<Closed, StoreError> {
    let now = context.clock.now();
    let mut tx = context.store.begin().await?;
    // Whatever it says by now, the call was made; what counts is that it is on record.
    rules::record(&mut tx, spec, claim, now).await?;
    rules::applied(&mut tx, spec, claim, now).await?;
    if let Finished::LeaseLost(_) = tx.finish(&[claim.fence], now).await? {
        tx.rollback().await;
        let finished = context.store.was_finished(claim.fence).await?;
        return Ok(if finished { Closed::Recorded } else { Closed::LeaseLost });
    }
    tx.commit_or_fail().await.map(|()| Closed::Recorded)
}

async fn close_failed(context: &Context, claim: &Arc<Claimed>, failure: Failure) {
    let (next, error) = (failure.next, failure.error.clone());
    match context.completer.close(claim.clone(), Some(failure)).await {
        Closed::Recorded => metric::ended(claim, next.into(), &error),
        Closed::LeaseLost => metric::lost(claim),
        Closed::Unwritten => unwritten(claim),
    }
}

fn unwritten(claim: &Claimed) {
    let Claimed { handler, source, event_id, key, attempt, .. } = claim;
    tracing::error!(handler, source, event_id, %key, attempt, "the result of a call could not be saved; it will be made again under the same key");
}
