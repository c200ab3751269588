//! `/events`: the list and the search, with every filter in the URL; and `/find`, which knows a key when it sees one.

use std::collections::HashSet;

use askama::Template;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use oncebox::gateway::event::EventKey;
use oncebox::gateway::store::{DeliveryFilter, Store, StoreError};
use serde::Deserialize;

use super::render::{Link, Params, Shown, Visit, When, format, page_with};
use crate::admin::Admin;
use crate::query::view::{EventView, Items};
use crate::query::{self, EventsQuery as Search, QueryError};

const ROWS: usize = 50;
/// Dead letters, newest first, that are looked through for those of a page.
const DEAD_MAX: usize = 1000;
/// States of deliveries that one may look for.
const DELIVERY_STATES: [&str; 7] = ["ready", "claimed", "done", "dead", "held", "superseded", "discarded"];

/// What the field of the menu sends.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Find {
    q: Option<String>,
}

#[derive(Template)]
#[template(path = "events.html")]
struct EventsPage {
    visit: Visit,
    search: Search,
    sources: Vec<String>,
    rows: Vec<EventRow>,
    /// Keys of events that a handler gave up on.
    dead: HashSet<String>,
    problem: Option<String>,
    newest: Link,
    older: Option<Link>,
    searched_until: Option<When>,
    /// What to type where nothing has arrived.
    sample: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct EventRow {
    pub(super) received: When,
    /// The type, or that there is none.
    pub(super) kind: String,
    /// The sender's id, all of it to be seen.
    pub(super) id: String,
    /// It was accepted although its bytes were known.
    pub(super) flagged: bool,
    pub(super) event: EventView,
}

impl EventRow {
    pub(super) fn new(event: EventView, visit: &Visit) -> Self {
        Self {
            received: When::read(&event.received_at, visit.now),
            kind: format::kind(&event.r#type),
            id: format::visible(&event.event_id),
            flagged: event.state == "accepted" && event.original.is_some(),
            event,
        }
    }
}

impl Search {
    fn filled(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let fields = [
            ("source", &self.source),
            ("type", &self.r#type),
            ("state", &self.state),
            ("since", &self.since),
            ("until", &self.until),
            ("text", &self.text),
            ("body", &self.body),
            ("delivery_state", &self.delivery_state),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }

    /// The same search on a page, without the place in the list.
    pub(super) fn link(&self, path: &str) -> Link {
        self.filled().fold(Link::to(path), |link, (name, value)| link.with(name, value))
    }

    /// True where anything is filtered.
    pub(super) fn filters(&self) -> bool {
        self.filled().next().is_some()
    }

    /// True for the first page of a search that an id may answer by itself.
    fn is_about_ids(&self) -> bool {
        self.text.is_some() && self.body.is_none() && self.delivery_state.is_none() && self.cursor.is_none()
    }

    /// What a field of the form shows.
    pub(super) fn shown(value: &Option<String>) -> &str {
        value.as_deref().unwrap_or_default()
    }

    /// The same search, for so many rows.
    pub(super) fn asked(&self, rows: usize) -> Self {
        Self { limit: Some(rows), ..self.clone() }
    }
}

pub(super) async fn show(admin: Admin, visit: Visit, Params(search): Params<Search>) -> Shown {
    // The form of a search that cannot be understood stays as it was filled in, to be corrected.
    let (status, found, problem) = match found(&admin, &search).await {
        Ok(found) => (StatusCode::OK, found, None),
        Err(QueryError::Bad(problem)) => (StatusCode::BAD_REQUEST, Items::whole(Vec::new()), Some(problem)),
        Err(error) => return Err(error.into()),
    };
    let rows: Vec<EventRow> = found.items.into_iter().map(|event| EventRow::new(event, &visit)).collect();
    page_with(
        status,
        &EventsPage {
            sources: source_names(&admin),
            sample: admin.context().sample(),
            dead: dead(&admin.store, &rows).await?,
            rows,
            problem,
            newest: search.link("/events"),
            older: found.next_cursor.map(|cursor| search.link("/events").with("cursor", &cursor)),
            searched_until: When::maybe(found.searched_until.as_deref(), visit.now),
            search,
            visit,
        },
    )
}

/// A part of an id is looked for among the newest events. A whole id has an index, however old its event is, so that
/// those that carry it come first.
async fn found(admin: &Admin, search: &Search) -> Result<Items<EventView>, QueryError> {
    admin.check_names(search.source.as_deref(), None).await?;
    let mut found = query::events(&admin.store, &admin.clock, search.asked(ROWS)).await?;
    if search.is_about_ids()
        && let Some(id) = &search.text
    {
        let mut exact = carrying(admin, id, search).await?;
        let shown: HashSet<String> = found.items.iter().map(|event| event.key.clone()).collect();
        exact.retain(|event| !shown.contains(&event.key));
        found.items.splice(..0, exact);
    }
    Ok(found)
}

/// The events with exactly this id, or this key, that fit the rest of the search.
async fn carrying(admin: &Admin, id: &str, search: &Search) -> Result<Vec<EventView>, QueryError> {
    let asked = Search { id: Some(id.to_owned()), text: None, ..search.asked(ROWS) };
    Ok(query::events(&admin.store, &admin.clock, asked).await?.items)
}

/// The events that a handler gave up on, those of a page among them.
async fn dead(store: &Store, rows: &[EventRow]) -> Result<HashSet<String>, StoreError> {
    let newest = rows.iter().filter_map(|row| row.event.key.parse::<EventKey>().ok()).max();
    let Some(newest) = newest else { return Ok(HashSet::new()) };
    let before = Some(newest.delivery_range().1.position());
    let among = DeliveryFilter { state: Some("dead".to_owned()), before, ..DeliveryFilter::default() };
    let dead = store.deliveries(&among, DEAD_MAX).await?;
    Ok(dead.items.into_iter().map(|line| line.key.to_string()).collect())
}

/// A key, `source/event_id` or an id that one event carries leads to the event; anything else to a search.
pub(super) async fn find(admin: Admin, _visit: Visit, Params(find): Params<Find>) -> Shown {
    let Some(text) = find.q else { return Ok(Redirect::to("/events").into_response()) };
    let named = text.parse::<EventKey>().is_ok() || text.contains('/');
    let mut keys = Vec::new();
    if named {
        keys.extend(query::find(&admin.store, &text).await?.first().map(|event| event.key.to_string()));
    }
    if keys.is_empty() {
        let carrying = carrying(&admin, &text, &Search::default()).await?;
        keys.extend(carrying.into_iter().map(|event| event.key));
    }
    let link = match keys.as_slice() {
        [key] => Link::below("/events", key),
        _ => Link::to("/events").with("text", &text),
    };
    Ok(Redirect::to(&link.to_string()).into_response())
}

pub(super) fn source_names(admin: &Admin) -> Vec<String> {
    let mut names: Vec<String> = admin.setup().sources.keys().cloned().collect();
    names.sort();
    names
}
