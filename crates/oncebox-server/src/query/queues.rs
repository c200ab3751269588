//! What waits: handlers and destinations with their depths.

use std::collections::BTreeSet;

use oncebox::gateway::limits::{DEPTH_MAX, PAGE_EXAMINED_MAX};
use oncebox::gateway::store::{HandlerRecord, StoreStats, Waiting};

use super::Result;
use super::context::QueryContext;
use crate::query::view::{DepthView, DestinationView, HandlerView, time};

/// The handlers that any server ever had; those of the config are marked.
pub(crate) async fn handlers(context: &QueryContext) -> Result<Vec<HandlerView>> {
    let stats = StoreStats {
        recent: context.store.recent(None, None, PAGE_EXAMINED_MAX).await?,
        depths: context.store.depths(DEPTH_MAX).await?,
        ..StoreStats::default()
    };
    handlers_of(context, &stats).await
}

/// The destinations of the config, and those that somebody wrote messages to.
pub(crate) async fn destinations(context: &QueryContext) -> Result<Vec<DestinationView>> {
    let stats = StoreStats {
        message_depths: context.store.message_depths(DEPTH_MAX).await?,
        messages: context.store.recent_messages(PAGE_EXAMINED_MAX).await?,
        ..StoreStats::default()
    };
    Ok(destinations_of(context, &stats))
}

/// The same from numbers that are at hand.
pub(super) async fn handlers_of(context: &QueryContext, stats: &StoreStats) -> Result<Vec<HandlerView>> {
    let known = context.store.handlers().await?;
    let mut names: BTreeSet<String> = known.iter().map(|record| record.facts.name.clone()).collect();
    names.extend(stats.depths.iter().map(|depth| depth.name.clone()));
    names.extend(stats.recent.deliveries.iter().map(|one| one.name.clone()));
    let view = |name: String| {
        let record = known.iter().find(|record| record.facts.name == name);
        handler(context, stats, name, record)
    };
    Ok(names.into_iter().map(view).collect())
}

/// The same from numbers that are at hand.
pub(super) fn destinations_of(context: &QueryContext, stats: &StoreStats) -> Vec<DestinationView> {
    let mut names: BTreeSet<String> = context.setup.destinations.iter().cloned().collect();
    names.extend(stats.message_depths.iter().map(|depth| depth.name.clone()));
    names.extend(stats.messages.iter().map(|one| one.name.clone()));
    let view = |name: String| {
        let counted = |state: &str| {
            let found = stats.messages.iter().find(|one| one.name == name && one.state == state);
            found.map_or(0, |one| one.count)
        };
        DestinationView {
            configured: context.setup.destinations.contains(&name),
            ready: depth(&stats.message_depths, &name, "ready").or(counted("ready")),
            claimed: depth(&stats.message_depths, &name, "claimed"),
            dead: depth(&stats.message_depths, &name, "dead"),
            sent: counted("sent"),
            oldest_due_at: oldest(&stats.message_depths, &name),
            destination: name,
        }
    };
    names.into_iter().map(view).collect()
}

fn handler(context: &QueryContext, stats: &StoreStats, name: String, record: Option<&HandlerRecord>) -> HandlerView {
    let done = |state: &str| {
        let found = stats.recent.deliveries.iter().find(|one| one.name == name && one.state == state);
        found.map_or(0, |one| one.count)
    };
    let tries = stats.recent.tries.iter().find(|one| one.handler == name);
    let (first_tries, first_tries_failed) = tries.map_or((0, 0), |one| (one.tried, one.failed));
    HandlerView {
        configured: context.setup.routes.handlers().any(|one| one == name),
        paused: record.is_some_and(|record| record.paused),
        attempts: record.map(|record| record.facts.retry.attempts.into()),
        lease_seconds: record.map(|record| record.facts.lease.as_secs()),
        ready: depth(&stats.depths, &name, "ready"),
        claimed: depth(&stats.depths, &name, "claimed"),
        dead: depth(&stats.depths, &name, "dead"),
        held: depth(&stats.depths, &name, "held"),
        oldest_due_at: oldest(&stats.depths, &name),
        done: done("done"),
        superseded: done("superseded"),
        first_tries,
        first_tries_failed,
        handler: name,
    }
}

fn depth(depths: &[Waiting], name: &str, state: &str) -> DepthView {
    let found = depths.iter().find(|depth| depth.name == name && depth.state == state);
    found.map_or(DepthView::default(), |depth| DepthView { count: depth.count, more: depth.more })
}

fn oldest(depths: &[Waiting], name: &str) -> Option<String> {
    depths.iter().find(|depth| depth.name == name && depth.state == "ready")?.oldest_due_at.map(time)
}
