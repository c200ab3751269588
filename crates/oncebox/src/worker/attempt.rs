//! One unit of work: a call, or deliveries that share a transaction. Whatever the handler does, a unit comes to an end
//! within the lease, and its panic is a failed attempt like any other.

mod call;
mod transaction;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::completer::Completer;
use super::lane::{InHand, Pace};
use super::metric;
use crate::clock::Clock;
use crate::delivery::chance::chance;
use crate::delivery::{Failed, after_failure};
use crate::lane::begun::Beginnings;
use crate::lane::circuit::Reached;
use crate::store::{BegunClaim, Claimed, Failure, Fence, Role, Store};
use crate::trace::{TARGET, Traceparent};
use crate::worker::handler::{HandlerSpec, Work};

/// What every unit needs.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) store: Store,
    pub(super) clock: Clock,
    pub(super) completer: Completer,
    pub(super) begun: Beginnings,
}

/// What a unit tells its lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnitEnd {
    pub(super) pace: Pace,
    pub(super) reached: Reached,
}

/// Runs one unit to its end; `apart`: on a session of its own.
pub(super) async fn run(context: Context, spec: Arc<HandlerSpec>, unit: Vec<InHand>, apart: bool) -> UnitEnd {
    let since = unit.first().map(|one| one.since).unwrap_or_default();
    let begun = context.clock.monotonic();
    let claims: Vec<Claimed> = unit.into_iter().map(|one| one.claim).collect();
    let count = claims.len();
    // One for each delivery, because each belongs to a trace of its own.
    let spans: Vec<tracing::Span> = claims.iter().map(span).collect();
    // What waited too long is not begun: it might end after its lease.
    if begun.saturating_sub(since) > spec.lease / 4 {
        context.give_back(&claims, "they waited too long for their turn").await;
        return UnitEnd { pace: Pace::Slow, reached: Reached::Unknown };
    }
    let role = if count > 1 { Role::Together } else { Role::Alone };
    let fences = claims.iter().map(|claim| BegunClaim::new(claim.fence.delivery, claim.fence.token)).collect();
    let Some(under_way) = context.begun.begin(role, fences).await else {
        context.give_back(&claims, "their beginning could not be written down").await;
        return UnitEnd { pace: Pace::Steady, reached: Reached::Unknown };
    };
    let end = match &spec.work {
        Work::Call(target) => {
            let span = spans.first().cloned().unwrap_or_else(tracing::Span::none);
            call::run(&context, &spec, target, claims).instrument(span).await
        }
        Work::Sql(_) => transaction::run(&context, &spec, claims, since, apart).await,
        Work::Pull => UnitEnd { pace: Pace::Steady, reached: Reached::Unknown },
    };
    drop(under_way);
    metric::took(&spec.name, context.clock.monotonic().saturating_sub(begun), count);
    end
}

fn span(claim: &Claimed) -> tracing::Span {
    let Claimed { handler, source, event_id, key, attempt, headers, .. } = claim;
    tracing::info_span!(
        target: TARGET, "attempt", traceparent = Traceparent::stored(headers).map(tracing::field::display),
        handler, source, event_id, %key, attempt, outcome = tracing::field::Empty,
    )
}

impl Context {
    async fn give_back(&self, claims: &[Claimed], why: &str) {
        self.put_back(claims.iter().map(|claim| claim.fence).collect(), Duration::ZERO, why).await;
    }

    /// Puts claims back in line without using an attempt; where that fails, the end of the lease does it.
    pub(super) async fn put_back(&self, fences: Vec<Fence>, pause: Duration, why: &str) {
        if fences.is_empty() {
            return;
        }
        if let Err(error) = self.store.give_back(&fences, pause, self.clock.now()).await {
            tracing::warn!(
                "{} claims could not be given back ({why}) and expire with their lease: {}",
                fences.len(),
                error.chain()
            );
        }
    }
}

/// Runs work on a task of its own, so that its panic ends that task alone; none when it panicked. The work is given up
/// when the deadline is over, or with the caller.
async fn isolated<T: Send + 'static>(
    deadline: Duration,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Broken> {
    let task = AbortOnDropHandle::new(tokio::spawn(work.in_current_span()));
    match tokio::time::timeout(deadline, task).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Broken::Panicked(panic_text(error))),
        Err(_) => Err(Broken::TimedOut),
    }
}

/// Why isolated work has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Broken {
    Panicked(String),
    TimedOut,
}

impl Broken {
    fn text(&self) -> String {
        match self {
            Self::Panicked(text) => format!("the handler panicked: {text}"),
            Self::TimedOut => "the handler took too long".to_owned(),
        }
    }
}

fn panic_text(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "the task was cancelled".to_owned() };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no reason given".to_owned())
}

fn failure(spec: &HandlerSpec, claim: &Claimed, failed: Failed, error: String, status: Option<u16>) -> Failure {
    let next = after_failure(&spec.retry, claim.attempt, claim.attempts_before, failed, chance());
    Failure { fence: claim.fence, next, error, status }
}
