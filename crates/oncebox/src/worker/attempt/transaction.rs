//! Deliveries whose effects and marks are committed together.
//!
//! All of them in one transaction, with whatever failed written down beside what is done. Where the failure cannot be
//! told apart (order, a deadline, a lost session), the transaction is rolled back whole and tried in smaller
//! parts, down to the one that fails alone: only that one has failed. Whoever lost its lease is left out, and a commit
//! whose result is unknown is settled by what the rows say.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::{Broken, Context, UnitEnd, failure, isolated};
use crate::clock::{Countdown, UnixMillis};
use crate::delivery::Failed;
use crate::event::DeliveryKey;
use crate::lane::circuit::Reached;
use crate::store::{Claimed, Commit, Failure, Failures, Fence, Fenced, Finished, HandlerSql, RanEach, StoreError, Tx};
use crate::worker::handler::{HandlerSpec, Work};
use crate::worker::lane::Pace;
use crate::worker::metric::{self, Outcome};
use crate::worker::rules::{self, Ruling};

/// How often a transaction is tried while the database is busy or away.
const TRIES_MAX: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);
/// The rest after statements that ended their own session: a new one is dear, and the others need the machine, too.
const SESSION_PAUSE: Duration = Duration::from_millis(25);

/// Runs deliveries that were claimed at `since`.
pub(super) async fn run(
    context: &Context,
    spec: &Arc<HandlerSpec>,
    mut claims: Vec<Claimed>,
    since: Duration,
    apart: bool,
) -> UnitEnd {
    rules::sort(spec, &mut claims);
    let (begun, deliveries) = (context.clock.monotonic(), claims.len());
    let parts = VecDeque::from([Arc::from(claims)]);
    let mut unit = Unit { context, spec, since, parts, slow: false, apart, deadly: false, failed: 0 };
    while let Some(part) = unit.parts.pop_front() {
        unit.settle(part).await;
    }
    let quick = context.clock.monotonic().saturating_sub(begun) < spec.lease / 32;
    let pace = match (unit.slow, quick) {
        _ if unit.deadly => Pace::KillsSession,
        (true, _) => Pace::Slow,
        _ if unit.failed * 8 > deliveries => Pace::Rough,
        (false, true) => Pace::Quick,
        (false, false) => Pace::Steady,
    };
    UnitEnd { pace, reached: Reached::Unknown }
}

type Part = Arc<[Claimed]>;

struct Unit<'a> {
    context: &'a Context,
    spec: &'a Arc<HandlerSpec>,
    since: Duration,
    parts: VecDeque<Part>,
    slow: bool,
    /// Runs on a session of its own.
    apart: bool,
    deadly: bool,
    failed: usize,
}

enum Ran {
    /// Committed; what became of each, in their order.
    Committed(Vec<Plan>),
    /// Rolled back, because one of them failed; it is not always known which.
    Failed {
        at: Option<usize>,
        failed: Failed,
        error: String,
    },
    /// Rolled back, because the session was lost while its statements ran; perhaps they ended it.
    SessionLost {
        error: String,
    },
    /// Rolled back, because of what the session was left with: statements from before the application changed what they
    /// read, or a setting that lets nobody write.
    Stale {
        error: String,
    },
    /// Rolled back, because these belong to somebody else by now.
    LeaseLost(Vec<DeliveryKey>),
    /// Rolled back, because the database did not do its part.
    Away(StoreError),
    /// Rolled back at the commit by an answer that may be another one next time; a rule of the application's own may give it
    /// every time.
    NotCommitted(StoreError),
    Unknown(StoreError),
}

/// What becomes of one delivery of the transaction: decided before the effects run, and changed where one fails.
#[derive(Debug)]
enum Plan {
    /// Its effect runs, or has run, and it is marked done.
    Run,
    /// Its effect was undone and its failure is on record.
    Failed(Failure),
    Superseded(&'static str),
    Overdue,
    /// Put back to wait, or not ours any more.
    Left,
}

impl Unit<'_> {
    async fn settle(&mut self, part: Part) {
        let Some(deadline) = self.deadline(part.len()) else {
            self.slow = true;
            return self.context.give_back(&part, "the lease is almost over").await;
        };
        let begun = self.context.clock.monotonic();
        let ran = self.try_part(&part, deadline).await;
        // Several together that come near their deadline would be too slow for it sooner or later.
        let near = self.context.clock.monotonic().saturating_sub(begun) > deadline / 2;
        self.slow |= near && part.len() > 1;
        match ran {
            Ok(Ran::Committed(plans)) => self.note(&part, &plans),
            Ok(Ran::LeaseLost(lost)) => self.without(&part, &lost),
            Ok(Ran::Failed { failed, error, .. }) if part.len() == 1 => self.fail(&part[0], failed, error).await,
            Ok(Ran::Failed { at: Some(at), .. }) => self.split(&part, at, at + 1),
            Ok(Ran::Failed { at: None, .. }) => self.halve(&part),
            Ok(Ran::Stale { error }) if part.len() == 1 => {
                self.fail(&part[0], Failed::Transient { retry_after: None }, error).await;
            }
            Ok(Ran::Stale { .. }) => self.halve(&part),
            Ok(Ran::SessionLost { error }) => self.spare_sessions(&part, error).await,
            Ok(Ran::Unknown(error)) => self.resolve_unknown_commit(&part, &error).await,
            Ok(Ran::Away(error) | Ran::NotCommitted(error)) => {
                tracing::warn!(
                    "{} deliveries could not be committed and are given back: {}",
                    part.len(),
                    error.chain()
                );
                self.context.give_back(&part, "the database did not answer").await;
            }
            Err(broken) if part.len() == 1 => {
                let failed = Failed::Transient { retry_after: None };
                self.fail(&part[0], failed, broken.text()).await;
            }
            Err(_) => self.halve(&part),
        }
    }

    /// How long a part may take; none when the lease is too far gone to begin it.
    fn deadline(&self, deliveries: usize) -> Option<Duration> {
        let passed = self.context.clock.monotonic().saturating_sub(self.since);
        let left = (self.spec.lease * 7 / 8).checked_sub(passed)?;
        let wanted = if deliveries > 1 { self.spec.lease / 8 } else { self.spec.lease / 2 };
        // One alone is given at least a quarter of the lease, or not begun.
        (left >= self.spec.lease / 4).then_some(left.min(wanted))
    }

    async fn try_part(&self, part: &Part, deadline: Duration) -> Result<Ran, Broken> {
        let (mut nth, mut is_second) = (1, false);
        loop {
            let countdown = Countdown::from(deadline);
            // Whoever waits in line has done nothing yet, so no attempt may fail by it.
            let ran = match tokio::time::timeout(deadline / 2, self.begin(is_second)).await {
                Ok(Ok(tx)) => self.run_isolated(tx, part, countdown.left()).await?,
                Ok(Err(error)) => Ran::Away(error),
                Err(elapsed) => return Ok(Ran::Away(StoreError::Busy(elapsed.into()))),
            };
            match ran {
                Ran::Away(error) if error.is_transient() && nth < TRIES_MAX => nth += 1,
                // On a session of its own there is nothing old, so who fails so again has done it by itself.
                Ran::Stale { .. } if !is_second => {
                    is_second = true;
                    continue;
                }
                Ran::NotCommitted(_) if nth < TRIES_MAX => nth += 1,
                Ran::NotCommitted(error) => {
                    let failed = Failed::Transient { retry_after: None };
                    return Ok(Ran::Failed { at: None, failed, error: format!("at the commit: {}", error.said()) });
                }
                ran => return Ok(ran),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn begin(&self, apart: bool) -> Result<Tx, StoreError> {
        let store = &self.context.store;
        let mut tx = if self.apart || apart { store.begin_isolated().await? } else { store.begin().await? };
        tx.turn().await?;
        Ok(tx)
    }

    async fn run_isolated(&self, tx: Tx, part: &Part, deadline: Duration) -> Result<Ran, Broken> {
        let (spec, claims, now) = (self.spec.clone(), part.clone(), self.context.clock.now());
        let work = async move { transaction(tx, &spec, &claims, now, deadline).await };
        // The statements' own deadline comes first: it tells which of them was too slow.
        isolated(deadline + self.spec.lease / 8, work).await
    }

    fn note(&mut self, part: &Part, plans: &[Plan]) {
        for (claim, plan) in part.iter().zip(plans) {
            match plan {
                Plan::Run => metric::ended(claim, Outcome::Done, ""),
                Plan::Failed(failure) => {
                    self.failed += 1;
                    metric::ended(claim, failure.next.into(), &failure.error);
                }
                Plan::Superseded(reason) => metric::ended(claim, Outcome::Superseded, reason),
                Plan::Overdue => metric::ended(claim, Outcome::Dead, OVERDUE),
                Plan::Left => {}
            }
        }
    }

    /// Tries what comes before, the one in the middle, and what comes after, each on its own.
    fn split(&mut self, part: &Part, first: usize, second: usize) {
        for piece in [&part[second..], &part[first..second], &part[..first]] {
            if !piece.is_empty() {
                self.parts.push_front(piece.into());
            }
        }
    }

    fn halve(&mut self, part: &Part) {
        self.split(part, part.len() / 2, part.len() / 2);
    }

    /// From here on each on its own, with a rest after each that ends its session: whoever does it must not do it to
    /// others, nor keep the database busy with new sessions.
    async fn spare_sessions(&mut self, part: &Part, error: String) {
        (self.deadly, self.apart) = (true, true);
        tokio::time::sleep(SESSION_PAUSE).await;
        match &part[..] {
            [alone] => self.fail(alone, Failed::Transient { retry_after: None }, error).await,
            several => several.iter().rev().for_each(|one| self.parts.push_front(Arc::from([one.clone()]))),
        }
    }

    fn without(&mut self, part: &Part, lost: &[DeliveryKey]) {
        let lost: HashSet<&DeliveryKey> = lost.iter().collect();
        let (gone, ours): (Vec<&Claimed>, Vec<&Claimed>) =
            part.iter().partition(|claim| lost.contains(&claim.fence.delivery));
        gone.into_iter().for_each(metric::lost);
        if !ours.is_empty() && ours.len() < part.len() {
            self.parts.push_front(ours.into_iter().cloned().collect());
        }
    }

    /// Believes the rows, not the error: what is not done there was not done.
    async fn resolve_unknown_commit(&mut self, part: &Part, error: &StoreError) {
        tracing::warn!("the result of a commit of {} deliveries is unknown: {}", part.len(), error.chain());
        let mut open = Vec::new();
        for claim in part.iter() {
            match self.context.store.was_finished(claim.fence).await {
                Ok(true) => metric::ended(claim, Outcome::Done, ""),
                Ok(false) => open.push(claim.clone()),
                // The fence keeps it from happening twice; the end of the lease brings it back.
                Err(error) => {
                    let (key, error) = (claim.key, error.chain());
                    tracing::warn!(%key, "could not check whether a commit came through; its lease will expire: {error}");
                }
            }
        }
        if open.len() < part.len() && !open.is_empty() {
            self.parts.push_front(open.into());
        } else if !open.is_empty() {
            self.context.give_back(&open, "a commit did not come through").await;
        }
    }

    async fn fail(&mut self, claim: &Claimed, failed: Failed, error: String) {
        self.failed += 1;
        let failure = failure(self.spec, claim, failed, error, None);
        for _ in 0..TRIES_MAX {
            match self.context.store.fail(std::slice::from_ref(&failure), self.context.clock.now()).await {
                Ok(fenced) if fenced.contains(&Fenced::Recorded) => {
                    return metric::ended(claim, failure.next.into(), &failure.error);
                }
                Ok(_) => return metric::lost(claim),
                Err(error) => tracing::warn!("a failed attempt could not be recorded, retrying: {}", error.chain()),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

pub(super) const OVERDUE: &str = "what it waits for never came";

/// Effects and marks of all of them, in one transaction.
async fn transaction(mut tx: Tx, spec: &HandlerSpec, claims: &[Claimed], now: UnixMillis, deadline: Duration) -> Ran {
    match write(&mut tx, spec, claims, now, deadline).await {
        Ok(plans) => commit(tx, plans).await,
        Err(ran) => {
            tx.rollback().await;
            ran
        }
    }
}

/// Everything that is to be committed: what becomes of each, or why nothing may be.
async fn write(
    tx: &mut Tx,
    spec: &HandlerSpec,
    claims: &[Claimed],
    now: UnixMillis,
    deadline: Duration,
) -> Result<Vec<Plan>, Ran> {
    let mut plans = Vec::with_capacity(claims.len());
    for (at, claim) in claims.iter().enumerate() {
        plans.push(judge(tx, spec, claim, now).await.map_err(|stop| stop.of(at, claim))?);
    }
    if let Work::Sql(sql) = &spec.work {
        run_statements(tx, spec, sql, claims, &mut plans, now, deadline).await?;
    }
    let admitted = || claims.iter().enumerate().filter(|(at, _)| matches!(plans[*at], Plan::Run));
    for (at, claim) in admitted() {
        rules::applied(tx, spec, claim, now).await.map_err(|error| Stop::from(error).of(at, claim))?;
    }
    let done: Vec<Fence> = admitted().map(|(_, claim)| claim.fence).collect();
    if !done.is_empty() {
        match tx.finish(&done, now).await {
            Ok(Finished::All) => {}
            Ok(Finished::LeaseLost(lost)) => return Err(Ran::LeaseLost(lost)),
            Err(error) => return Err(unmarked(error)),
        }
    }
    Ok(plans)
}

/// The effects are there and the marks are refused: whatever ran before them in the transaction has made it so, and would
/// again. Where the database is away, nobody is to blame.
fn unmarked(error: StoreError) -> Ran {
    if error.is_transient() && !error.is_read_only() {
        return Ran::Away(error);
    }
    let is_left_so = error.is_read_only();
    let error = format!("its effect cannot be marked in the same transaction: {}", error.chain());
    if is_left_so {
        return Ran::Stale { error };
    }
    Ran::Failed { at: None, failed: Failed::Transient { retry_after: None }, error }
}

/// Runs the statements of all that are to run, and writes down whichever failed.
async fn run_statements(
    tx: &mut Tx,
    spec: &HandlerSpec,
    sql: &HandlerSql,
    claims: &[Claimed],
    plans: &mut [Plan],
    now: UnixMillis,
    deadline: Duration,
) -> Result<(), Ran> {
    let admitted = claims.iter().enumerate().filter(|(at, _)| matches!(plans[*at], Plan::Run));
    let (places, batch): (Vec<usize>, Vec<&Claimed>) = admitted.unzip();
    // What order wrote for each of them beforehand must go with it.
    let failures = if spec.order.are_none() { Failures::Apart } else { Failures::Together };
    let all_failed = match tx.run_each(sql, &batch, failures, deadline).await {
        Ok(RanEach::Written(failed)) => failed,
        Ok(RanEach::Stale { error }) => return Err(Ran::Stale { error }),
        Ok(RanEach::Stopped { error, session_lost: true, .. }) => return Err(Ran::SessionLost { error }),
        Ok(RanEach::Stopped { at, failed, error, .. }) => {
            return Err(Ran::Failed { at: at.map(|at| places[at]), failed, error });
        }
        Err(error) if error.is_stale() || error.is_read_only() => return Err(Ran::Stale { error: error.chain() }),
        // The database went away, or something beside the statements.
        Err(error) => {
            let failed = Failed::Transient { retry_after: None };
            return Err(Ran::Failed { at: None, failed, error: error.chain() });
        }
    };
    for one in all_failed {
        let (at, claim) = (places[one.index], batch[one.index]);
        let failure = failure(spec, claim, one.failed, one.error, None);
        match tx.fail(&failure, now).await {
            Ok(Fenced::Recorded) => plans[at] = Plan::Failed(failure),
            Ok(Fenced::LeaseLost) => return Err(Ran::LeaseLost(vec![claim.fence.delivery])),
            Err(error) => return Err(unmarked(error)),
        }
    }
    Ok(())
}

async fn commit(tx: Tx, plans: Vec<Plan>) -> Ran {
    match tx.commit().await {
        Commit::Committed => Ran::Committed(plans),
        // A rule of the application's own may refuse at the commit, and then it is one of them that failed.
        Commit::Failed(error) if !error.is_transient() => {
            let error = format!("at the commit: {}", error.said());
            Ran::Failed { at: None, failed: Failed::Transient { retry_after: None }, error }
        }
        Commit::Failed(error) if error.was_answered() => Ran::NotCommitted(error),
        Commit::Failed(error) => Ran::Away(error),
        Commit::Unknown(error) => Ran::Unknown(error),
    }
}

enum Stop {
    Failed(Failed, String),
    Stale(String),
    LeaseLost,
}

impl Stop {
    fn of(self, at: usize, claim: &Claimed) -> Ran {
        match self {
            Self::Failed(failed, error) => Ran::Failed { at: Some(at), failed, error },
            Self::Stale(error) => Ran::Stale { error },
            Self::LeaseLost => Ran::LeaseLost(vec![claim.fence.delivery]),
        }
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        if error.is_stale() || error.is_read_only() {
            return Self::Stale(error.chain());
        }
        Self::Failed(Failed::Transient { retry_after: None }, error.chain())
    }
}

/// What order says about one of them.
async fn judge(tx: &mut Tx, spec: &HandlerSpec, claim: &Claimed, now: UnixMillis) -> Result<Plan, Stop> {
    if spec.order.are_none() {
        return Ok(Plan::Run);
    }
    match rules::judge(tx, spec, claim, now).await? {
        Ruling::Run => Ok(Plan::Run),
        Ruling::Superseded(reason) => {
            let superseded = tx.supersede(claim.fence, reason, now).await?;
            rules::applied(tx, spec, claim, now).await?;
            ended(superseded, Plan::Superseded(reason))
        }
        Ruling::Waiting => Ok(Plan::Left),
        Ruling::Overdue => {
            let failure = failure(spec, claim, Failed::Permanent, OVERDUE.to_owned(), None);
            ended(tx.fail(&failure, now).await?, Plan::Overdue)
        }
        Ruling::LeaseLost => Err(Stop::LeaseLost),
    }
}

fn ended(fenced: Fenced, plan: Plan) -> Result<Plan, Stop> {
    match fenced {
        Fenced::Recorded => Ok(plan),
        Fenced::LeaseLost => Err(Stop::LeaseLost),
    }
}
