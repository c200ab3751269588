//! Order, decided in the transaction of the effect: whether a delivery runs, is superseded, waits, or gives up; and what
//! its effect leaves behind for others to be judged by.

use crate::clock::UnixMillis;
use crate::delivery::order::{Revision, change_mark, order_key, prerequisite_mark};
use crate::event::Mark;
use crate::store::{Change, Claimed, Prerequisite, StoreError, Tx, Version};
use crate::worker::handler::{HandlerSpec, Latest, OncePer, Otherwise, WaitFor};

/// What order says about a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ruling {
    /// It runs.
    Run,
    /// It must not run any more.
    Superseded(&'static str),
    /// It was put back until its prerequisite is done.
    Waiting,
    /// Its prerequisite never came.
    Overdue,
    /// Somebody else has it.
    LeaseLost,
}

/// Judges a delivery, and records it as applied in case it runs: rolled back with it if it fails.
pub(super) async fn judge(
    tx: &mut Tx,
    spec: &HandlerSpec,
    claim: &Claimed,
    now: UnixMillis,
) -> Result<Ruling, StoreError> {
    if let Some(rule) = &spec.order.wait_for {
        let ruling = wait(tx, rule, claim, now).await?;
        if ruling != Ruling::Run {
            return Ok(ruling);
        }
    }
    record(tx, spec, claim, now).await
}

/// Records a delivery as applied, unless what is on record says that it must not be any more.
pub(super) async fn record(
    tx: &mut Tx,
    spec: &HandlerSpec,
    claim: &Claimed,
    now: UnixMillis,
) -> Result<Ruling, StoreError> {
    if let Some(rule) = &spec.order.once_per
        && let Some(mark) = change(rule, claim)
        && tx.once_per(mark, claim.fence.delivery, rule.window, now).await? == Change::Again
    {
        return Ok(Ruling::Superseded("the same change was applied under another id"));
    }
    if let Some(rule) = &spec.order.latest
        && let Some((key, version)) = object(rule, claim)
        && tx.newer(&claim.handler, key, version, true, now).await? == Version::Older
    {
        return Ok(Ruling::Superseded("a newer version was applied"));
    }
    Ok(Ruling::Run)
}

/// Records what others may wait for: with the effect that makes it so, or with the mark that something as new was applied
/// in its place.
pub(super) async fn applied(
    tx: &mut Tx,
    spec: &HandlerSpec,
    claim: &Claimed,
    now: UnixMillis,
) -> Result<(), StoreError> {
    let Some(rule) = spec.order.wait_for.as_ref().filter(|rule| rule.event_type == claim.event_type) else {
        return Ok(());
    };
    match rule.on.read(&claim.body) {
        Some(value) => tx.prerequisite_done(prerequisite_mark(&claim.handler, &rule.event_type, &value), now).await,
        None => Ok(()),
    }
}

/// Those that share a mark stand side by side and all marks stand in order, so that two nodes never wait for each other
/// crosswise; within a mark the older one comes first.
pub(super) fn sort(spec: &HandlerSpec, claims: &mut [Claimed]) {
    if !spec.order.are_none() {
        claims.sort_by_cached_key(|claim| (first_mark(spec, claim), claim.key));
    }
}

fn first_mark(spec: &HandlerSpec, claim: &Claimed) -> Option<Mark> {
    let change = spec.order.once_per.as_ref().and_then(|rule| change(rule, claim));
    change.or_else(|| spec.order.latest.as_ref().and_then(|rule| object(rule, claim)).map(|(key, _)| key))
}

async fn wait(tx: &mut Tx, rule: &WaitFor, claim: &Claimed, now: UnixMillis) -> Result<Ruling, StoreError> {
    // What others wait for does not wait for itself.
    if claim.event_type == rule.event_type {
        return Ok(Ruling::Run);
    }
    let Some(value) = rule.key.read(&claim.body) else { return Ok(Ruling::Run) };
    let mark = prerequisite_mark(&claim.handler, &rule.event_type, &value);
    Ok(match tx.wait_for(claim.fence, mark, rule.within, now).await? {
        Prerequisite::Done => Ruling::Run,
        Prerequisite::Waiting => Ruling::Waiting,
        Prerequisite::Overdue if rule.otherwise == Otherwise::Run => Ruling::Run,
        Prerequisite::Overdue => Ruling::Overdue,
        Prerequisite::LeaseLost => Ruling::LeaseLost,
    })
}

fn change(rule: &OncePer, claim: &Claimed) -> Option<Mark> {
    change_mark(&claim.handler, &rule.fields, &claim.body)
}

fn object(rule: &Latest, claim: &Claimed) -> Option<(Mark, Revision)> {
    Some((order_key(&rule.key.read(&claim.body)?), Revision::read(&rule.version, &claim.body)?))
}
