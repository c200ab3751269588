//! `/handlers`: what reacts to events, how much waits for each, and the switch that pauses it.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;

use super::super::admin::Admin;
use super::link::Link;
use super::pages::{PageError, Visit, page};
use super::words::{percent, span};
use crate::query;
use crate::view::StatsView;

/// Who was just paused or resumed.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Changed {
    changed: Option<String>,
}

#[derive(Template)]
#[template(path = "handlers.html")]
struct HandlersPage {
    visit: Visit,
    rows: Vec<HandlerRow>,
    changed: Option<String>,
}

/// One handler and where its deliveries stand.
#[derive(Clone, Debug, Default)]
pub(super) struct HandlerRow {
    pub(super) name: String,
    pub(super) configured: bool,
    pub(super) paused: bool,
    pub(super) ready: i64,
    pub(super) claimed: i64,
    pub(super) dead: i64,
    pub(super) held: i64,
    /// How long the oldest ready one has been due.
    pub(super) oldest: Option<String>,
    pub(super) first_tries: i64,
    pub(super) error_rate: Option<String>,
}

impl HandlerRow {
    fn switch(&self) -> Link {
        Link::to(if self.paused { "/act/resume" } else { "/act/pause" }).with("handler", &self.name)
    }

    fn letters(&self) -> Link {
        Link::to("/dead-letters").with("handler", &self.name)
    }
}

/// Every handler that is configured or still has deliveries.
pub(super) async fn show(
    State(admin): State<Admin>,
    visit: Visit,
    changed: Result<Query<Changed>, QueryRejection>,
) -> Result<Response, PageError> {
    let stats = query::stats(admin.store(), admin.clock(), Vec::new()).await?;
    let rows = rows(&admin, &stats, visit.now);
    let Query(Changed { changed }) = changed?;
    page(&HandlersPage { changed: changed.filter(|name| rows.iter().any(|row| row.name == *name)), rows, visit })
}

/// Brings together what is configured, what waits and how first attempts went.
pub(super) fn rows(admin: &Admin, stats: &StatsView, now: i64) -> Vec<HandlerRow> {
    let setup = admin.setup();
    let mut rows: BTreeMap<String, HandlerRow> = BTreeMap::new();
    let mut row = |name: &str, change: &dyn Fn(&mut HandlerRow)| {
        let row = rows
            .entry(name.to_owned())
            .or_insert_with(|| HandlerRow { name: name.to_owned(), ..HandlerRow::default() });
        change(row);
    };
    for name in setup.routes.handlers() {
        row(name, &|row| row.configured = true);
    }
    for one in &stats.handler_health {
        row(&one.handler, &|row| {
            row.paused = one.paused;
            row.first_tries = one.first_tries;
            row.error_rate = one.first_try_error_rate.map(percent);
        });
    }
    for one in &stats.handlers {
        let due = one.oldest_due_at.as_deref().and_then(|at| at.parse::<jiff::Timestamp>().ok());
        row(&one.handler, &|row| match one.state.as_str() {
            "ready" => {
                row.ready = one.count;
                row.oldest = due.map(|due| now - due.as_millisecond()).filter(|age| *age > 0).map(span);
            }
            "claimed" => row.claimed = one.count,
            "dead" => row.dead = one.count,
            "held" => row.held = one.count,
            _ => {}
        });
    }
    rows.into_values().collect()
}
