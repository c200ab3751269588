//! `/dead-letters`: what gave up, grouped by what it gave up for, so that one cause is one line and not a thousand.

use std::collections::HashMap;

use askama::Template;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use oncebox::limits::PAGE_MAX;
use serde::Deserialize;

use super::super::admin::Admin;
use super::link::{Link, given};
use super::pages::{PageError, Visit, page};
use super::words::When;
use crate::query::deliveries::DeliveriesQuery;
use crate::query::outbox;
use crate::view::{DeadLetterView, DeliveryLineView, MessageView};

/// Examples that a group shows.
const EXAMPLES: usize = 5;

/// Filters of the page.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Search {
    source: Option<String>,
    handler: Option<String>,
    cursor: Option<String>,
}

#[derive(Template)]
#[template(path = "dead_letters.html")]
struct DeadLettersPage {
    visit: Visit,
    search: Search,
    groups: Vec<Group>,
    count: usize,
    older: Option<Link>,
}

/// Dead letters of one handler or destination with one error.
struct Group {
    /// `handler` or `destination`.
    what: &'static str,
    name: String,
    error: String,
    letters: Vec<Letter>,
    replay: Link,
    discard: Link,
}

struct Letter {
    link: Link,
    replay: Link,
    title: String,
    id: String,
    attempt: i64,
    at: Option<When>,
}

impl Group {
    fn examples(&self) -> &[Letter] {
        &self.letters[..self.letters.len().min(EXAMPLES)]
    }
}

/// The latest dead letters, grouped.
pub(super) async fn show(
    State(admin): State<Admin>,
    visit: Visit,
    search: Result<Query<Search>, QueryRejection>,
) -> Result<Response, PageError> {
    let Query(asked) = search?;
    let search = Search { source: given(asked.source), handler: given(asked.handler), cursor: given(asked.cursor) };
    admin.check_names(search.source.as_deref(), search.handler.as_deref()).await?;
    let query = DeliveriesQuery {
        source: search.source.clone(),
        handler: search.handler.clone(),
        cursor: search.cursor.clone(),
        limit: Some(PAGE_MAX),
        ..DeliveriesQuery::default()
    };
    let found = outbox::dead_letters(admin.store(), admin.clock(), query).await?;
    let older = found.next_cursor.map(|cursor| {
        Link::to("/dead-letters")
            .with_some("source", search.source.as_deref())
            .with_some("handler", search.handler.as_deref())
            .with("cursor", &cursor)
    });
    let count = found.items.len();
    page(&DeadLettersPage { groups: grouped(found.items, &visit), count, older, search, visit })
}

/// The largest group first.
fn grouped(letters: Vec<DeadLetterView>, visit: &Visit) -> Vec<Group> {
    let mut groups: HashMap<(&'static str, String, String), Group> = HashMap::new();
    for letter in letters {
        let (what, name, error) = match &letter {
            DeadLetterView::Delivery(line) => ("handler", line.handler.clone(), line.last_error.clone()),
            DeadLetterView::Message(message) => {
                ("destination", message.destination.clone(), message.last_error.clone())
            }
        };
        let error = error.unwrap_or_else(|| "no error was given".to_owned());
        let group = groups.entry((what, name.clone(), folded(&error))).or_insert_with(|| Group {
            what,
            replay: Link::to("/act/replay").with(what, &name),
            discard: Link::to("/act/discard").with(what, &name),
            name,
            error,
            letters: Vec::new(),
        });
        group.letters.push(match letter {
            DeadLetterView::Delivery(line) => delivery(line, visit),
            DeadLetterView::Message(message) => outgoing(message, visit),
        });
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by(|a, b| b.letters.len().cmp(&a.letters.len()).then_with(|| a.name.cmp(&b.name)));
    groups
}

fn delivery(line: DeliveryLineView, visit: &Visit) -> Letter {
    Letter {
        link: Link::below("/events", &line.key),
        replay: Link::to("/act/replay").with("key", &line.key).with("handler", &line.handler),
        title: format!("{} {}", line.source, line.r#type),
        id: line.event_id,
        attempt: line.attempt,
        at: When::maybe(line.finished_at.as_deref(), visit.now),
    }
}

fn outgoing(message: MessageView, visit: &Visit) -> Letter {
    Letter {
        link: Link::below("/outbox", &message.id),
        replay: Link::to("/act/replay").with("message", &message.id),
        title: format!("to {}", message.destination),
        id: message.idempotency_key,
        attempt: message.attempt,
        at: When::maybe(Some(&message.created_at), visit.now),
    }
}

/// An error without what differs from one event to the next: numbers, ids, digests.
fn folded(error: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let mut text = String::with_capacity(error.len());
    let mut rest = error;
    while let Some(start) = rest.find(is_part) {
        let (before, word) = rest.split_at(start);
        let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
        let (word, after) = word.split_at(end);
        text.push_str(before);
        text.push_str(if word.bytes().any(|byte| byte.is_ascii_digit()) { "#" } else { word });
        rest = after;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_differ_in_numbers_and_ids_are_one() {
        for (a, b, same) in [
            ("order 17 is unknown", "order 99812 is unknown", true),
            ("no row evt_1a2b", "no row evt_9z", true),
            ("key 0195f1c0-7b1e-7000-8000-000000000001", "key 0195f1c0-7b1e-7000-8000-0000000000ff", true),
            ("connection refused", "connection reset", false),
            ("é 1", "é 2", true),
        ] {
            assert_eq!(folded(a) == folded(b), same, "{a} / {b}");
        }
    }
}
