//! `/dead-letters`: what gave up, grouped by what it gave up for, so that one cause is one line and not a thousand.

use askama::Template;
use serde::Deserialize;

use super::render::{Link, Params, Shown, Visit, When, format, page};
use crate::admin::Admin;
use crate::query::deliveries::DeliveriesQuery;
use crate::query::view::{DeadGroupView, DeadLetterView, DeliveryLineView, LetterKind, MessageView};
use crate::query::{dead, outbox};

const ROWS: usize = 50;

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
    /// More than were grouped.
    more: bool,
    letters: Vec<DeadLetter>,
    older: Option<Link>,
    searched_until: Option<When>,
}

/// Dead letters of one handler or destination with one error.
struct Group {
    view: DeadGroupView,
    newest: Option<When>,
    oldest: Option<When>,
    /// `handler` or `destination`.
    what: &'static str,
    /// What the times say.
    happened: &'static str,
    example: Link,
    replay: Link,
    discard: Link,
}

struct DeadLetter {
    link: Link,
    replay: Link,
    title: String,
    by: String,
    id: String,
    error: String,
    attempt: i64,
    /// When it gave up; of a message only is known when it was written.
    at: Option<When>,
    is_written_at: bool,
}

pub(super) async fn show(admin: Admin, visit: Visit, Params(search): Params<Search>) -> Shown {
    admin.check_names(search.source.as_deref(), search.handler.as_deref()).await?;
    let groups = dead::groups(&admin.store).await?;
    let Search { source, handler, cursor } = search.clone();
    let query = DeliveriesQuery { source, handler, cursor, limit: Some(ROWS), ..DeliveriesQuery::default() };
    let found = outbox::dead_letters(&admin.store, &admin.clock, query).await?;
    let list = Link::to("/dead-letters")
        .with_some("source", search.source.as_deref())
        .with_some("handler", search.handler.as_deref());
    let letter = |letter| match letter {
        DeadLetterView::Delivery(line) => delivery(line, &visit),
        DeadLetterView::Message(message) => outgoing(message, &visit),
    };
    page(&DeadLettersPage {
        more: groups.more,
        groups: groups.items.into_iter().map(|view| Group::new(view, &visit)).collect(),
        letters: found.items.into_iter().map(letter).collect(),
        older: found.next_cursor.map(|cursor| list.with("cursor", &cursor)),
        searched_until: When::maybe(found.searched_until.as_deref(), visit.now),
        search,
        visit,
    })
}

impl Group {
    fn new(view: DeadGroupView, visit: &Visit) -> Self {
        let (what, example) = match (view.kind, &view.example_key) {
            (LetterKind::Delivery, Some(key)) => ("handler", Link::below("/events", key)),
            (LetterKind::Delivery, None) => ("handler", Link::to("/dead-letters").with("handler", &view.name)),
            (LetterKind::Message, _) => ("destination", Link::below("/outbox", &view.example_id)),
        };
        let happened = if view.kind == LetterKind::Message { "was written" } else { "gave up" };
        Self {
            what,
            happened,
            example,
            replay: Link::to("/act/replay").with(what, &view.name),
            discard: Link::to("/act/discard").with(what, &view.name).with("state", "dead"),
            newest: When::maybe(view.newest_at.as_deref(), visit.now),
            oldest: When::maybe(view.oldest_at.as_deref(), visit.now),
            view,
        }
    }
}

fn delivery(line: DeliveryLineView, visit: &Visit) -> DeadLetter {
    DeadLetter {
        link: Link::below("/events", &line.key),
        replay: Link::to("/act/replay").with("key", &line.key).with("handler", &line.handler),
        title: format::kind(&line.r#type),
        by: line.handler,
        id: format::visible(&format!("{}/{}", line.source, line.event_id)),
        error: format::visible(&line.last_error.unwrap_or_default()),
        attempt: line.attempt,
        at: When::maybe(line.finished_at.as_deref(), visit.now),
        is_written_at: false,
    }
}

fn outgoing(message: MessageView, visit: &Visit) -> DeadLetter {
    DeadLetter {
        link: Link::below("/outbox", &message.id),
        replay: Link::to("/act/replay").with("message", &message.id),
        title: "outbox message".to_owned(),
        by: message.destination,
        id: format::visible(&message.idempotency_key),
        error: format::visible(&message.last_error.unwrap_or_default()),
        attempt: message.attempt,
        at: When::maybe(Some(&message.created_at), visit.now),
        is_written_at: true,
    }
}
