//! Lists of outbox messages, and one of them; and dead letters of both kinds in one list.

use oncebox::clock::{Clock, UnixMillis};
use oncebox::event::EventKey;
use oncebox::message::MessageState;
use oncebox::store::{MessageFilter, Store};
use serde::{Deserialize, Serialize};

use super::deliveries::{DeliveriesQuery, deliveries};
use super::{QueryError, cursor, moment, page_limit};
use crate::view::{DeadLetterView, Items, MessageDetailView, MessageView};

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
    /// A time, or an age.
    pub(crate) until: Option<String>,
    /// Written for this event.
    pub(crate) key: Option<String>,
    /// Where the page before ended.
    pub(crate) cursor: Option<String>,
    /// Rows of a page.
    pub(crate) limit: Option<usize>,
}

/// A page of messages, newest first.
pub(crate) async fn messages(
    store: &Store,
    clock: &Clock,
    query: OutboxQuery,
) -> Result<Items<MessageView>, QueryError> {
    let limit = page_limit(query.limit)?;
    let page = store.messages(&filter(query, clock.now())?, limit).await?;
    Ok(Items::of_page(page))
}

/// One message with its attempts and the latest answer.
pub(crate) async fn message(store: &Store, id: &str) -> Result<Option<MessageDetailView>, QueryError> {
    let id: EventKey = id.parse().map_err(|_error| QueryError::Bad(format!("{id:?} is not the id of a message")))?;
    Ok(store.message(id).await?.map(Into::into))
}

/// A page of dead letters, deliveries and messages, newest first. Messages have neither source nor type, so a filter by
/// those leaves them out.
pub(crate) async fn dead_letters(
    store: &Store,
    clock: &Clock,
    query: DeliveriesQuery,
) -> Result<Items<DeadLetterView>, QueryError> {
    let query = DeliveriesQuery { state: Some("dead".to_owned()), ..query };
    let limit = page_limit(query.limit)?;
    let mut letters: Vec<DeadLetterView> = Vec::new();
    let (mut edge, mut searched_until) = (None, None);
    if query.source.is_none() && query.r#type.is_none() {
        let asked = query.clone();
        let asked = OutboxQuery {
            state: asked.state,
            destination: None,
            handler: asked.handler,
            since: asked.since,
            until: asked.until,
            key: asked.key,
            cursor: asked.cursor,
            limit: asked.limit,
        };
        let page = messages(store, clock, asked).await?;
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

fn filter(query: OutboxQuery, now: UnixMillis) -> Result<MessageFilter, QueryError> {
    if let Some(state) = query.state.as_deref()
        && MessageState::parse(state).is_none()
    {
        let known = MessageState::ALL.map(MessageState::as_str).join(", ");
        return Err(QueryError::Bad(format!("{state:?} is not a state of messages; use one of {known}")));
    }
    let key = query.key.as_deref().map(str::parse).transpose();
    Ok(MessageFilter {
        state: query.state,
        destination: query.destination,
        handler: query.handler,
        since: query.since.map(|text| moment(&text, now)).transpose()?,
        until: query.until.map(|text| moment(&text, now)).transpose()?,
        key: key.map_err(|_error| QueryError::Bad("key is not the key of an event".into()))?,
        before: cursor(query.cursor.as_deref())?,
    })
}
