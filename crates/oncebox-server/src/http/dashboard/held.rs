//! `/held`: what was acknowledged and waits for a person, with the reason and what releasing would do.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;

use super::super::admin::Admin;
use super::events::{EventRow, Search};
use super::link::Link;
use super::pages::{PageError, Visit, page};
use super::reasons;
use crate::query;

const ROWS: usize = 100;

#[derive(Template)]
#[template(path = "held.html")]
struct HeldPage {
    visit: Visit,
    groups: Vec<Group>,
    older: Option<Link>,
}

/// What is held for one reason.
struct Group {
    title: String,
    because: String,
    rows: Vec<EventRow>,
}

/// The held events of a page, grouped by reason.
pub(super) async fn show(
    State(admin): State<Admin>,
    visit: Visit,
    search: Result<Query<Search>, QueryRejection>,
) -> Result<Response, PageError> {
    let search = search?.0.tidy();
    admin.check_names(search.source.as_deref(), None).await?;
    let found = query::held(admin.store(), admin.clock(), search.asked(ROWS)).await?;
    let mut groups: BTreeMap<String, Vec<EventRow>> = BTreeMap::new();
    for event in found.items {
        let reason = event.reason.clone().filter(|_| event.state == "held").unwrap_or_default();
        groups.entry(reason).or_default().push(EventRow::new(event, &visit));
    }
    let groups = groups.into_iter().map(|(reason, rows)| group(&reason, rows)).collect();
    let older = found.next_cursor.map(|cursor| search.link("/held").with("cursor", &cursor));
    page(&HeldPage { visit, groups, older })
}

fn group(reason: &str, rows: Vec<EventRow>) -> Group {
    let (title, because) = match reason {
        "" => ("a handler stopped", "A handler found something that must not be, and stopped for a person to look."),
        reason => (reason, reasons::held(reason)),
    };
    Group { title: title.replace('_', " "), because: because.to_owned(), rows }
}
