//! `/tail`: the latest events, which a script keeps adding to. Without it, loading the page again does.

use askama::Template;
use oncebox::gateway::event::Position;

use super::events::{EventRow, source_names};
use super::render::{Params, Shown, Visit, page};
use crate::admin::Admin;
use crate::query::{self, EventsQuery as Search, tail};

const ROWS: usize = 50;

#[derive(Template)]
#[template(path = "tail.html")]
struct TailPage {
    visit: Visit,
    search: Search,
    sources: Vec<String>,
    rows: Vec<EventRow>,
    /// Where the stream begins, so that nothing falls between this page and its first look.
    after: String,
    /// What to type where nothing has arrived.
    sample: Option<String>,
}

/// The latest events; the filters are those of the stream.
pub(super) async fn show(admin: Admin, visit: Visit, Params(asked): Params<Search>) -> Shown {
    let search = Search { source: asked.source, r#type: asked.r#type, state: asked.state, ..Search::default() };
    admin.check_names(search.source.as_deref(), None).await?;
    let since = tail::after_list(admin.clock.now());
    let found = query::events(&admin.store, &admin.clock, search.asked(ROWS)).await?;
    // A full page shows only the newest: what is older than its last row is not new.
    let oldest = found.items.get(ROWS - 1).and_then(|event| event.key.parse::<Position>().ok());
    page(&TailPage {
        sources: source_names(&admin),
        sample: admin.context().sample(),
        after: oldest.map_or(since, |oldest| oldest.max(since)).to_string(),
        rows: found.items.into_iter().map(|event| EventRow::new(event, &visit)).collect(),
        search,
        visit,
    })
}
