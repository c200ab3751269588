//! `/tail`: the latest events, which a script keeps adding to. Without it, loading the page again does.

use askama::Template;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;

use super::super::admin::Admin;
use super::events::{EventRow, Search, source_names};
use super::pages::{PageError, Visit, page};
use crate::query;

const ROWS: usize = 50;

#[derive(Template)]
#[template(path = "tail.html")]
struct TailPage {
    visit: Visit,
    search: Search,
    sources: Vec<String>,
    rows: Vec<EventRow>,
}

/// The latest events; the filters are those of the stream.
pub(super) async fn show(
    State(admin): State<Admin>,
    visit: Visit,
    search: Result<Query<Search>, QueryRejection>,
) -> Result<Response, PageError> {
    let asked = search?.0.tidy();
    let search = Search { source: asked.source, r#type: asked.r#type, state: asked.state, ..Search::default() };
    admin.check_names(search.source.as_deref(), None).await?;
    let found = query::events(admin.store(), admin.clock(), search.asked(ROWS)).await?;
    page(&TailPage {
        sources: source_names(&admin),
        rows: found.items.into_iter().map(|event| EventRow::new(event, &visit)).collect(),
        search,
        visit,
    })
}
