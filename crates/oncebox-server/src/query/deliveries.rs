//! Lists of deliveries, and pausing a handler.

use oncebox::Clock;
use oncebox::gateway::delivery::DELIVERY_STATES;
use oncebox::gateway::store::{DeliveryFilter, FirstTries, Store};
use serde::{Deserialize, Serialize};

use super::actions::asked_by;
use super::{QueryError, Result, cursor, maybe_moment, page_limit};
use crate::query::view::{DeliveryLineView, HandlerHealth, Items};

/// Filters as a person writes them.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeliveriesQuery {
    /// Exactly this state.
    pub(crate) state: Option<String>,
    /// Exactly this handler.
    pub(crate) handler: Option<String>,
    /// Exactly this source.
    pub(crate) source: Option<String>,
    /// A type glob.
    pub(crate) r#type: Option<String>,
    /// A time, or an age such as `2h`.
    pub(crate) since: Option<String>,
    /// An age, a time or a date.
    pub(crate) until: Option<String>,
    /// Exactly this event.
    pub(crate) key: Option<String>,
    /// Where the page before ended.
    pub(crate) cursor: Option<String>,
    /// Rows of a page.
    pub(crate) limit: Option<usize>,
}

/// Who pauses or resumes; the body may be left out.
#[derive(Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct PauseRequest {
    /// For the audit log.
    pub(crate) who: Option<String>,
}

pub(crate) async fn deliveries(
    store: &Store,
    clock: &Clock,
    query: DeliveriesQuery,
) -> Result<Items<DeliveryLineView>> {
    let limit = page_limit(query.limit)?;
    query.state.as_deref().map_or(Ok(()), check_state)?;
    let now = clock.now();
    let (since, until) = (maybe_moment(query.since, now)?, maybe_moment(query.until, now)?);
    let key = query.key.as_deref().map(str::parse).transpose();
    let key = key.map_err(|_error| QueryError::Bad("key is not the key of an event".into()))?;
    let before = cursor(query.cursor.as_deref())?;
    let DeliveriesQuery { state, handler, source, r#type: event_type, .. } = query;
    let filter = DeliveryFilter { state, handler, source, event_type, since, until, key, before };
    Ok(Items::of_page(store.deliveries(&filter, limit).await?))
}

pub(super) fn check_state(state: &str) -> Result<()> {
    if DELIVERY_STATES.contains(&state) {
        return Ok(());
    }
    let known = DELIVERY_STATES.join(", ");
    Err(QueryError::Bad(format!("{state:?} is not a state of deliveries; use one of {known}")))
}

/// Stops or resumes a handler; false where no server ever had it.
pub(crate) async fn pause(store: &Store, clock: &Clock, (handler, paused): (&str, bool), who: String) -> Result<bool> {
    let asked = asked_by(who, clock);
    let known = store.pause_handler_as(&asked, handler, paused).await?;
    if known {
        let done = if paused { "paused" } else { "resumed" };
        tracing::info!(handler, who = asked.who, "handler {done}");
    }
    Ok(known)
}

/// Whether each handler is paused, and how its first attempts went; those that were removed from the config, too.
pub(super) async fn health(store: &Store, mut tries: Vec<FirstTries>) -> Result<Vec<HandlerHealth>> {
    let mut health = Vec::new();
    for record in store.handlers().await? {
        let name = record.facts.name;
        let place = tries.iter().position(|one| one.handler == name);
        let (tried, failed) = place.map(|place| tries.remove(place)).map_or((0, 0), |one| (one.tried, one.failed));
        health.push(HandlerHealth::new(name, record.paused, tried, failed));
    }
    health.extend(tries.into_iter().map(|one| HandlerHealth::new(one.handler, false, one.tried, one.failed)));
    Ok(health)
}
