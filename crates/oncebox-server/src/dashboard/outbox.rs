//! `/destinations`, `/outbox` and `/outbox/{id}`: what handlers wanted sent, and how that went.

use askama::Template;
use axum::extract::Path;
use serde::Deserialize;

use super::render::{Link, PageError, Params, Shown, Visit, When, format, page};
use crate::admin::Admin;
use crate::query::outbox::{self, OutboxQuery};
use crate::query::queues;
use crate::query::view::{DestinationView, MessageDetailView, MessageView, millis};

const ROWS: usize = 50;
const STATES: [&str; 5] = ["ready", "claimed", "sent", "dead", "discarded"];

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Search {
    state: Option<String>,
    destination: Option<String>,
    cursor: Option<String>,
}

#[derive(Template)]
#[template(path = "destinations.html")]
struct DestinationsPage {
    visit: Visit,
    rows: Vec<Destination>,
}

struct Destination {
    oldest: Option<When>,
    messages: Link,
    try_now: Link,
    view: DestinationView,
}

#[derive(Template)]
#[template(path = "outbox.html")]
struct OutboxPage {
    visit: Visit,
    search: Search,
    destinations: Vec<String>,
    rows: Vec<MessageRow>,
    newest: Link,
    older: Option<Link>,
    searched_until: Option<When>,
    /// How a handler writes a message; none where the list is only a part.
    statement: Option<&'static str>,
}

struct MessageRow {
    created: When,
    next: Option<When>,
    message: MessageView,
}

#[derive(Template)]
#[template(path = "message.html")]
struct MessagePage {
    visit: Visit,
    detail: MessageDetailView,
    created: When,
    sent: Option<When>,
    next: Option<When>,
    /// It waits for a destination that nobody configured.
    is_stranded: bool,
    waits: bool,
    attempts: Vec<(When, crate::query::view::MessageAttemptView)>,
}

/// Every destination that is configured or still has messages.
pub(super) async fn destinations(admin: Admin, visit: Visit) -> Shown {
    let row = |view: DestinationView| Destination {
        oldest: When::maybe(view.oldest_due_at.as_deref(), visit.now),
        messages: Link::to("/outbox").with("destination", &view.destination),
        try_now: Link::to("/act/replay").with("destination", &view.destination).with("waiting", "true"),
        view,
    };
    let rows = queues::destinations(&admin.context()).await?.into_iter().map(row).collect();
    page(&DestinationsPage { rows, visit })
}

pub(super) async fn list(admin: Admin, visit: Visit, Params(search): Params<Search>) -> Shown {
    let Search { state, destination, cursor } = search.clone();
    let query = OutboxQuery { state, destination, cursor, limit: Some(ROWS), ..OutboxQuery::default() };
    let found = outbox::messages(&admin.store, &admin.clock, query, &admin.destinations()).await?;
    let newest = Link::to("/outbox")
        .with_some("state", search.state.as_deref())
        .with_some("destination", search.destination.as_deref());
    let row = |message: MessageView| MessageRow {
        created: When::read(&message.created_at, visit.now),
        next: When::maybe(message.next_attempt_at.as_deref().filter(|_| message.state == "ready"), visit.now),
        message,
    };
    page(&OutboxPage {
        destinations: admin.setup().destinations.clone(),
        rows: found.items.into_iter().map(row).collect(),
        older: found.next_cursor.map(|cursor| newest.clone().with("cursor", &cursor)),
        searched_until: When::maybe(found.searched_until.as_deref(), visit.now),
        statement: (!search.is_part()).then(|| statement(admin.store.kind())),
        newest,
        search,
        visit,
    })
}

impl Search {
    fn is_part(&self) -> bool {
        self.state.is_some() || self.destination.is_some() || self.cursor.is_some()
    }
}

/// What a handler's SQL says to send something, in the words of its database.
fn statement(kind: &str) -> &'static str {
    match kind {
        "sqlite" => {
            "insert into oncebox_send (destination, body, delivery, step) values ('crm', :body, :delivery, 'notify')"
        }
        _ => "select oncebox.send('crm', :body, delivery => :delivery, step => 'notify')",
    }
}

pub(super) async fn one(admin: Admin, visit: Visit, Path(id): Path<String>) -> Shown {
    let mut detail =
        outbox::message(&admin.store, &id, &admin.destinations()).await?.ok_or_else(PageError::not_found)?;
    let attempts = std::mem::take(&mut detail.attempts);
    let next = detail.message.next_attempt_at.as_deref().and_then(millis);
    let is_configured = admin.setup().destinations.contains(&detail.message.destination);
    page(&MessagePage {
        created: When::read(&detail.message.created_at, visit.now),
        sent: When::maybe(detail.message.sent_at.as_deref(), visit.now),
        next: When::maybe(detail.message.next_attempt_at.as_deref(), visit.now)
            .filter(|_| detail.message.state == "ready"),
        is_stranded: detail.message.state == "ready" && !is_configured,
        waits: detail.message.state == "ready" && is_configured && next.is_some_and(|next| next > visit.now),
        attempts: attempts.into_iter().map(|one| (When::read(&one.ended_at, visit.now), one)).collect(),
        detail,
        visit,
    })
}
