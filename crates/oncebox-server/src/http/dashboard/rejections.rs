//! `/rejections`: what was refused at the door, and what is most likely the cause.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::super::admin::Admin;
use super::pages::{PageError, Visit, page};
use super::words::{When, span};
use crate::view::RejectionView;

const ROWS: usize = 100;

#[derive(Template)]
#[template(path = "rejections.html")]
struct RejectionsPage {
    visit: Visit,
    groups: Vec<Group>,
    rows: Vec<Row>,
}

/// Rejections of one source for one reason.
struct Group {
    source: String,
    step: String,
    reason: String,
    count: usize,
    last: When,
    diagnosis: String,
}

struct Row {
    at: When,
    off_by: Option<String>,
    rejection: RejectionView,
}

/// The latest rejections of this node, grouped and one by one.
pub(super) async fn show(State(admin): State<Admin>, visit: Visit) -> Result<Response, PageError> {
    let latest = admin.desk().rejections.latest(oncebox::limits::REJECTIONS_MAX);
    let latest: Vec<RejectionView> = latest.into_iter().map(Into::into).collect();
    let groups = grouped(&latest, visit.now);
    let rows = latest.into_iter().take(ROWS).map(|rejection| Row {
        at: When::read(&rejection.at, visit.now),
        off_by: rejection.off_by_seconds.map(off_by),
        rejection,
    });
    page(&RejectionsPage { groups, rows: rows.collect(), visit })
}

/// The most frequent first.
fn grouped(latest: &[RejectionView], now: i64) -> Vec<Group> {
    let mut groups: BTreeMap<(&str, &str, &str), Group> = BTreeMap::new();
    for one in latest {
        let new = || Group {
            source: one.source.clone(),
            step: one.step.clone(),
            reason: one.reason.clone(),
            count: 0,
            last: When::read(&one.at, now),
            diagnosis: one.diagnosis.clone(),
        };
        groups.entry((&one.source, &one.step, &one.reason)).or_insert_with(new).count += 1;
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups
}

fn off_by(seconds: i64) -> String {
    let apart = span(seconds.saturating_abs().saturating_mul(1_000));
    if seconds < 0 { format!("signed for {apart} from now") } else { format!("signed {apart} ago") }
}
