//! `/held`: what was acknowledged and waits for a person, with the reason and what releasing would do.

use askama::Template;

use super::events::EventRow;
use super::render::{Link, Params, Shown, Visit, When, page};
use crate::admin::Admin;
use crate::query::{EventsQuery as Search, held};

const ROWS: usize = 100;

#[derive(Template)]
#[template(path = "held.html")]
struct HeldPage {
    visit: Visit,
    groups: Vec<Group>,
    /// There are others on other pages.
    is_part: bool,
    older: Option<Link>,
    searched_until: Option<When>,
}

/// What is held for one reason.
struct Group {
    why: String,
    release_does: String,
    rows: Vec<EventRow>,
}

/// The held events of a page, grouped by reason, in the order in which the newest of each came.
pub(super) async fn show(admin: Admin, visit: Visit, Params(search): Params<Search>) -> Shown {
    admin.check_names(search.source.as_deref(), None).await?;
    let found = held::held(&admin.store, &admin.clock, search.asked(ROWS)).await?;
    let mut groups: Vec<Group> = Vec::new();
    for one in found.items {
        let place = groups.iter().position(|group| group.why == one.why);
        let place = place.unwrap_or_else(|| {
            groups.push(Group { why: one.why, release_does: one.release_does, rows: Vec::new() });
            groups.len() - 1
        });
        groups[place].rows.push(EventRow::new(one.event, &visit));
    }
    let older = found.next_cursor.map(|cursor| search.link("/held").with("cursor", &cursor));
    let searched_until = When::maybe(found.searched_until.as_deref(), visit.now);
    let is_part = older.is_some() || search.cursor.is_some();
    page(&HeldPage { visit, groups, is_part, older, searched_until })
}
