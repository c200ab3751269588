//! Looking for one id, or for a text within bodies.
//!
//! An id is found through the ledger. Bodies have no index: they are read newest first, a bounded number of rows and
//! bytes for a page, and the cursor goes on from there.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use oncebox::gateway::delivery::routing::Glob;
use oncebox::gateway::event::EventKey;
use oncebox::gateway::limits::PAGE_EXAMINED_MAX;
use oncebox::gateway::store::{EventFilter, EventRecord, Page, Store};

use super::{QueryError, Result, names};
use crate::query::view::{EventView, Items};

const SLICE: usize = 250;
/// Bytes of one body that are looked at.
const BYTES_EACH: usize = 64 << 10;
/// Bytes of bodies that one page looks at.
const BYTES_MAX: usize = 8 << 20;
/// Sources that are asked for an id at the same time.
const ASKED_AT_ONCE: usize = 4;
/// A text shorter than this is in nearly every body.
const TEXT_BYTES_MIN: usize = 3;

/// A page of the events whose body holds a text, newest first.
pub(super) async fn bodies(store: &Store, filter: &EventFilter, text: &str, limit: usize) -> Result<Items<EventView>> {
    if text.len() < TEXT_BYTES_MIN {
        return Err(QueryError::Bad(format!("a text within the body has at least {TEXT_BYTES_MIN} characters")));
    }
    if filter.delivery_state.is_some() || filter.handler.is_some() {
        return Err(QueryError::Bad("bodies are not searched by handler or delivery_state".into()));
    }
    let (mut items, mut before) = (Vec::new(), filter.before);
    let (mut rows, mut bytes) = (0, 0);
    while rows < PAGE_EXAMINED_MAX && bytes < BYTES_MAX {
        let slice = store.bodies_below(before, filter.since, SLICE, BYTES_EACH).await?;
        rows += slice.len();
        for (key, body) in &slice {
            bytes += body.len();
            before = Some(key.position());
            if holds(body, text.as_bytes())
                && let Some(event) = store.event(*key).await?
                && fits(filter, &event)
            {
                items.push(event);
                if items.len() == limit {
                    return Ok(Items::of_page(Page { items, next: before, searched_until: None }));
                }
            }
        }
        if slice.len() < SLICE {
            return Ok(Items::of_page(Page { items, next: None, searched_until: None }));
        }
    }
    Ok(Items::of_page(Page { items, next: before, searched_until: before }))
}

/// The events of this id, or of this key. Without a source in the filter all are asked: the ledger knows an id together
/// with its source only.
pub(super) async fn by_id(store: &Store, filter: &EventFilter, id: &str, limit: usize) -> Result<Items<EventView>> {
    let mut found: Vec<EventRecord> = Vec::new();
    if let Ok(key) = id.parse::<EventKey>() {
        found.extend(store.event(key).await?);
    }
    let sources = match &filter.source {
        Some(source) => vec![source.clone()],
        None => names::sources(store).await?,
    };
    let named = stream::iter(sources).map(async |source| store.events_named(&source, id).await);
    let named: Vec<Vec<EventRecord>> = named.buffered(ASKED_AT_ONCE).try_collect().await?;
    found.extend(named.into_iter().flatten());
    found.retain(|event| fits(filter, event));
    found.sort_by_key(|event| std::cmp::Reverse(event.key));
    found.dedup_by_key(|event| event.key);
    found.truncate(limit);
    Ok(Items::of_page(Page { items: found, next: None, searched_until: None }))
}

fn holds(body: &[u8], text: &[u8]) -> bool {
    body.windows(text.len()).any(|part| part == text)
}

/// What the store would have left out.
fn fits(filter: &EventFilter, event: &EventRecord) -> bool {
    let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
    let kind = filter
        .event_type
        .as_deref()
        .is_none_or(|glob| Glob::parse(glob).is_some_and(|glob| glob.matches(&event.event_type)));
    let text = filter.text.as_deref();
    let text = text.is_none_or(|text| event.event_id.contains(text) || event.event_type.contains(text));
    is(&filter.source, &event.source)
        && is(&filter.state, &event.state)
        && kind
        && text
        && filter.since.is_none_or(|since| event.received_at >= since)
        && filter.until.is_none_or(|until| event.received_at < until)
}
