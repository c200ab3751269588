//! Lists of outbox messages, and one of them; and dead letters of both kinds in one list.

use oncebox::gateway::clock::{Clock, UnixMillis};
use oncebox::gateway::event::{EventKey, MessageKey};
use oncebox::gateway::message::MESSAGE_STATES;
use oncebox::gateway::store::{MessageFilter, Store};
use serde::{Deserialize, Serialize};

use super::deliveries::{DeliveriesQuery, deliveries};
use super::destinations::Destinations;
use super::{QueryError, Result, cursor, find, maybe_moment, page_limit};
use crate::query::view::{DeadLetterView, Items, MessageDetailView, MessageView};

const OF_EVENT_MAX: usize = 100;

/// Filters as a person writes them.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutboxQuery {
    /// Exactly this state.
    pub(crate) state: Option<String>,
    /// Exactly this destination.
    pub(crate) destination: Option<String>,
    /// Written by this handler.
    pub(crate) handler: Option<String>,
    /// A time, or an age such as `2h`.
    pub(crate) since: Option<String>,
    /// An age, a time or a date.
    pub(crate) until: Option<String>,
    /// Written for this event: its key, or `source/event_id`.
    pub(crate) key: Option<String>,
    /// Where the page before ended.
    pub(crate) cursor: Option<String>,
    /// Rows of a page.
    pub(crate) limit: Option<usize>,
}

pub(crate) async fn messages(
    store: &Store,
    clock: &Clock,
    query: OutboxQuery,
    destinations: &Destinations,
) -> Result<Items<MessageView>> {
    let limit = page_limit(query.limit)?;
    let key = match &query.key {
        Some(name) => Some(event_key(store, name).await?),
        None => None,
    };
    let page = store.messages(&MessageFilter { key, ..filter(query, clock.now())? }, limit).await?;
    Ok(Items::mapped(page, |line| MessageView::new(line, destinations)))
}

/// The messages that were written for an event, newest first.
pub(crate) async fn of_event(store: &Store, key: EventKey, destinations: &Destinations) -> Result<Vec<MessageView>> {
    let lines = store.messages_of(key, OF_EVENT_MAX).await?;
    Ok(lines.into_iter().map(|line| MessageView::new(line, destinations)).collect())
}

pub(crate) async fn message(store: &Store, id: &str, destinations: &Destinations) -> Result<Option<MessageDetailView>> {
    let id: MessageKey = id.parse().map_err(|_error| QueryError::Bad(format!("{id:?} is not the id of a message")))?;
    Ok(store.message(id).await?.map(|detail| MessageDetailView::new(detail, destinations)))
}

/// The event that a key or `source/event_id` names; a key that nobody has any more still names its messages.
async fn event_key(store: &Store, name: &str) -> Result<EventKey> {
    if let Ok(key) = name.parse() {
        return Ok(key);
    }
    let found = find(store, name).await?.into_iter().next();
    found.map(|event| event.key).ok_or_else(|| QueryError::Missing(format!("there is no event {name:?}")))
}

/// A page of dead letters, deliveries and messages, newest first. Messages have neither source nor type, so a filter by
/// those leaves them out.
pub(crate) async fn dead_letters(
    store: &Store,
    clock: &Clock,
    query: DeliveriesQuery,
) -> Result<Items<DeadLetterView>> {
    if query.state.as_deref().is_some_and(|state| state != "dead") {
        return Err(QueryError::Bad("dead letters are dead; for other states ask for deliveries or the outbox".into()));
    }
    let query = DeliveriesQuery { state: Some("dead".to_owned()), ..query };
    let limit = page_limit(query.limit)?;
    let mut letters: Vec<DeadLetterView> = Vec::new();
    let (mut edge, mut searched_until) = (None, None);
    if query.source.is_none() && query.r#type.is_none() {
        let DeliveriesQuery { state, handler, since, until, key, cursor, limit, .. } = query.clone();
        let asked = OutboxQuery { state, handler, since, until, key, cursor, limit, destination: None };
        // Dead ones wait for nobody, so nothing is to be said about their destinations.
        let page = messages(store, clock, asked, &Destinations::default()).await?;
        (edge, searched_until) = (page.next_cursor, page.searched_until);
        letters.extend(page.items.into_iter().map(DeadLetterView::Message));
    }
    let page = deliveries(store, clock, query).await?;
    // Both kinds are named by keys that begin with their time and are compared as texts. The page ends where the first
    // of the two lists ends.
    let edge = edge.max(page.next_cursor);
    let searched_until = searched_until.max(page.searched_until);
    letters.extend(page.items.into_iter().map(DeadLetterView::Delivery));
    letters.retain(|letter| edge.as_deref().is_none_or(|edge| letter.name() >= edge));
    letters.sort_by(|a, b| b.name().cmp(a.name()));
    if letters.len() <= limit {
        return Ok(Items { items: letters, next_cursor: edge, searched_until });
    }
    letters.truncate(limit);
    let next_cursor = letters.last().map(|last| last.name().to_owned());
    Ok(Items { items: letters, next_cursor, searched_until: None })
}

fn filter(query: OutboxQuery, now: UnixMillis) -> Result<MessageFilter> {
    if let Some(state) = query.state.as_deref()
        && !MESSAGE_STATES.contains(&state)
    {
        let known = MESSAGE_STATES.join(", ");
        return Err(QueryError::Bad(format!("{state:?} is not a state of messages; use one of {known}")));
    }
    let (since, until) = (maybe_moment(query.since, now)?, maybe_moment(query.until, now)?);
    let before = cursor(query.cursor.as_deref())?;
    let OutboxQuery { state, destination, handler, .. } = query;
    Ok(MessageFilter { state, destination, handler, since, until, key: None, before })
}
