//! `/rejections`: what was refused at the door, and what is most likely the cause.

use askama::Template;

use super::render::format::{grouped, span};
use super::render::{Shown, Visit, When, page};
use crate::admin::Admin;
use crate::query::sources;
use crate::query::view::RejectionView;

const ROWS: usize = 100;

#[derive(Template)]
#[template(path = "rejections.html")]
struct RejectionsPage {
    visit: Visit,
    groups: Vec<Group>,
    rows: Vec<Row>,
    sample: Option<String>,
}

/// Rejections of one source for one reason.
struct Group {
    count: String,
    at: When,
    last: RejectionView,
}

struct Row {
    at: When,
    off_by: Option<String>,
    rejection: RejectionView,
}

/// The latest rejections of this node, grouped and one by one.
pub(super) async fn show(admin: Admin, visit: Visit) -> Shown {
    let context = admin.context();
    let groups = context.rejections.groups().into_iter().map(|group| {
        let last = sources::rejection(&context, group.last);
        let count = grouped(i64::try_from(group.count).unwrap_or(i64::MAX));
        Group { count, at: When::read(&last.at, visit.now), last }
    });
    let rows = sources::latest_rejections(&context, None, ROWS).into_iter().map(|rejection| Row {
        at: When::read(&rejection.at, visit.now),
        off_by: rejection.off_by_seconds.map(off_by),
        rejection,
    });
    page(&RejectionsPage { groups: groups.collect(), rows: rows.collect(), sample: context.sample(), visit })
}

fn off_by(seconds: i64) -> String {
    let apart = span(seconds.saturating_abs().saturating_mul(1_000));
    if seconds < 0 { format!("signed for {apart} from now") } else { format!("signed {apart} ago") }
}
