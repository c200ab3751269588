//! The questions that both the API and the commands ask the store, so that both give the same answers.

pub(crate) mod actions;
pub(crate) mod context;
pub(crate) mod dead;
pub(crate) mod deliveries;
pub(crate) mod destinations;
pub(crate) mod erase;
pub(crate) mod guide;
pub(crate) mod held;
pub(crate) mod names;
pub(crate) mod outbox;
pub(crate) mod overview;
pub(crate) mod queues;
pub(crate) mod reconcile;
pub(crate) mod retention;
mod search;
pub(crate) mod sources;
pub(crate) mod tail;
pub(crate) mod view;

use oncebox::gateway::clock::{Clock, UnixMillis};
use oncebox::gateway::event::{EventKey, Position};
use oncebox::gateway::limits::PAGE_MAX;
use oncebox::gateway::store::{EventFilter, EventRecord, Store, StoreError};
use serde::{Deserialize, Serialize};

use destinations::Destinations;

use crate::query::view::{Beside, EventDetailView, EventView, Items, StatsView};
use crate::when::{CURE, When};

/// Filters as a person writes them.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    /// Exactly this source.
    pub(crate) source: Option<String>,
    /// A type glob.
    pub(crate) r#type: Option<String>,
    /// Exactly this state.
    pub(crate) state: Option<String>,
    /// An age such as `2h`, `7d` or `1h30m`, a time, or a date (UTC).
    pub(crate) since: Option<String>,
    /// An age, a time or a date.
    pub(crate) until: Option<String>,
    /// A part of the id or the type.
    pub(crate) text: Option<String>,
    /// Exactly this id of the sender, or exactly this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    /// A text within the body, byte by byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<String>,
    /// Has a delivery in exactly this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) delivery_state: Option<String>,
    /// Of exactly this handler; only beside `delivery_state`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) handler: Option<String>,
    /// Where the page before ended.
    pub(crate) cursor: Option<String>,
    /// Rows of a page.
    pub(crate) limit: Option<usize>,
}

/// Which page of a list that has no filters.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageQuery {
    /// At most so many.
    #[param(minimum = 1, maximum = 1000)]
    pub(crate) limit: Option<usize>,
    /// Where the page before ended.
    pub(crate) cursor: Option<String>,
}

pub(crate) type Result<T, E = QueryError> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum QueryError {
    /// The question makes no sense.
    #[error("{0}")]
    Bad(String),
    /// What is meant is not there.
    #[error("{0}")]
    Missing(String),
    /// It contradicts what happened before.
    #[error("{0}")]
    Conflict(String),
    /// The database did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub(crate) async fn events(store: &Store, clock: &Clock, query: EventsQuery) -> Result<Items<EventView>> {
    let limit = page_limit(query.limit)?;
    if let Some(text) = query.body.clone() {
        return search::bodies(store, &filter(query, clock.now())?, &text, limit).await;
    }
    if let Some(id) = query.id.clone() {
        return search::by_id(store, &filter(query, clock.now())?, &id, limit).await;
    }
    Ok(Items::of_page(store.events(&filter(query, clock.now())?, limit).await?))
}

/// The events that a person means by a key or by `source/event_id`.
pub(crate) async fn find(store: &Store, name: &str) -> Result<Vec<EventRecord>> {
    if let Ok(key) = name.parse::<EventKey>() {
        return Ok(store.event(key).await?.into_iter().collect());
    }
    // No id of ours holds one, and Postgres cannot even compare with it.
    if name.contains('\0') {
        return Err(QueryError::Bad("a NUL stands in the name of the event".into()));
    }
    let Some((source, event_id)) = name.split_once('/') else {
        return Err(QueryError::Bad(format!("{name:?} is neither a key nor source/event_id")));
    };
    Ok(store.events_named(source, event_id).await?)
}

/// One event with all that belongs to it; the first where an id names several, with the others beside it.
pub(crate) async fn event(store: &Store, name: &str, destinations: &Destinations) -> Result<Option<EventDetailView>> {
    let Some(first) = find(store, name).await?.into_iter().next() else { return Ok(None) };
    let Some(detail) = store.event_detail(first.key).await? else { return Ok(None) };
    let named = match first.event_id.as_str() {
        "" => Vec::new(),
        id => store.events_named(&first.source, id).await?,
    };
    let beside = Beside {
        attempts: store.attempts(first.key).await?,
        messages: outbox::of_event(store, first.key, destinations).await?,
        named,
        remembered: store.is_remembered(first.key).await?,
        windows: store.windows().await?,
    };
    Ok(Some(EventDetailView::new(detail, beside)))
}

pub(crate) async fn stats(
    store: &Store,
    clock: &Clock,
    unverified: Vec<String>,
    destinations: &Destinations,
) -> Result<StatsView> {
    const DAY: i64 = 24 * 60 * 60 * 1000;
    let stats = store.stats(clock.now() - DAY).await?;
    let health = deliveries::health(store, stats.recent.tries.clone()).await?;
    let mut view = StatsView::new(store, stats, health);
    let waiting = view.outbox.iter().filter(|one| one.state == "ready").map(|one| one.destination.as_str());
    view.destinations = destinations.stats(waiting);
    view.retention = retention::windows(store).await?;
    view.retention_stopped = store.retention(clock.now()).await?.stopped.map(|(_, why)| why);
    view.unverified_sources = unverified;
    Ok(view)
}

fn page_limit(asked: Option<usize>) -> Result<usize> {
    let limit = asked.unwrap_or(100);
    let fits = (1..=PAGE_MAX).contains(&limit);
    if fits { Ok(limit) } else { Err(QueryError::Bad(format!("limit must be between 1 and {PAGE_MAX}"))) }
}

/// Cursors are keys of rows, and we make those in one way only.
fn cursor(text: Option<&str>) -> Result<Option<Position>> {
    let read = |text: &str| text.parse::<Position>().ok().filter(Position::is_ours).ok_or_else(not_our_cursor);
    text.map(read).transpose()
}

fn not_our_cursor() -> QueryError {
    QueryError::Bad("the cursor is not one of ours".into())
}

/// A page of a list that is short enough to be at hand as a whole; its cursor is the name of the last row.
pub(crate) fn page_of<T>(items: Vec<T>, query: &PageQuery, name: impl Fn(&T) -> String) -> Result<Items<T>> {
    let limit = page_limit(query.limit.or(Some(PAGE_MAX)))?;
    let start = match query.cursor.as_deref() {
        Some(cursor) => items.iter().position(|item| name(item) == cursor).ok_or_else(not_our_cursor)? + 1,
        None => 0,
    };
    Ok(Items::cut(items.into_iter().skip(start).collect(), limit, name, |item| item))
}

fn check_event_state(state: Option<&str>) -> Result<()> {
    match state {
        None | Some("accepted" | "held" | "conflict") => Ok(()),
        Some(state) => {
            Err(QueryError::Bad(format!("{state:?} is not a state of events; use accepted, held or conflict")))
        }
    }
}

fn filter(query: EventsQuery, now: UnixMillis) -> Result<EventFilter> {
    check_event_state(query.state.as_deref())?;
    if let Some(state) = query.delivery_state.as_deref() {
        deliveries::check_state(state)?;
    } else if query.handler.is_some() {
        return Err(QueryError::Bad("handler needs delivery_state beside it".into()));
    }
    if query.delivery_state.is_some() && query.state.is_some() {
        return Err(QueryError::Bad("state and delivery_state exclude each other".into()));
    }
    let (since, until) = (maybe_moment(query.since, now)?, maybe_moment(query.until, now)?);
    let before = cursor(query.cursor.as_deref())?;
    let EventsQuery { source, r#type: event_type, state, text, delivery_state, handler, .. } = query;
    Ok(EventFilter { source, event_type, state, since, until, text, delivery_state, handler, before })
}

fn maybe_moment(text: Option<String>, now: UnixMillis) -> Result<Option<UnixMillis>> {
    text.map(|text| moment(&text, now)).transpose()
}

fn moment(text: &str, now: UnixMillis) -> Result<UnixMillis> {
    let when = When::parse(text).ok_or_else(|| QueryError::Bad(format!("{text:?} is no point in time: {CURE}")))?;
    Ok(when.moment(now))
}
