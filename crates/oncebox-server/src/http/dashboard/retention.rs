//! `/retention`: how long things are remembered, how much there is, how fast it grows, and what went.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::super::admin::Admin;
use super::pages::{PageError, Visit, page};
use super::words::{When, grouped, signed};
use crate::query;
use crate::query::retention::{RetentionView, RunView, WindowView};

#[derive(Template)]
#[template(path = "retention.html")]
struct RetentionPage {
    visit: Visit,
    ledger_rows: String,
    daily_change: String,
    windows: Vec<WindowView>,
    schedule: String,
    next: Option<When>,
    stopped: Option<(When, String)>,
    runs: Vec<Run>,
}

struct Run {
    started: When,
    finished: Option<When>,
    /// What went, by table; nothing where there was nothing to do.
    removed: String,
    kept: i64,
}

/// The ledger and its growth, the windows and the runs.
pub(super) async fn show(State(admin): State<Admin>, visit: Visit) -> Result<Response, PageError> {
    let stats = query::stats(admin.store(), admin.clock(), Vec::new(), &admin.destinations()).await?;
    let desk = admin.retention();
    let running = (&desk.settings(), desk.progress().thousandths());
    let shown = query::retention::show(admin.store(), admin.clock(), Some(running)).await?;
    let RetentionView { windows, schedule, next_run_at, stopped_at, stopped_because, runs, .. } = shown;
    page(&RetentionPage {
        ledger_rows: grouped(stats.ledger_rows),
        daily_change: signed(stats.ledger_rows_daily_change),
        windows,
        schedule: schedule.unwrap_or_default(),
        next: When::maybe(next_run_at.as_deref(), visit.now),
        stopped: When::maybe(stopped_at.as_deref(), visit.now).zip(stopped_because),
        runs: runs.into_iter().map(|run| Run::new(run, &visit)).collect(),
        visit,
    })
}

impl Run {
    fn new(run: RunView, visit: &Visit) -> Self {
        let removed: Vec<String> = run.removed.iter().map(|(table, rows)| format!("{rows} {table}")).collect();
        Self {
            started: When::read(&run.started_at, visit.now),
            finished: When::maybe(run.finished_at.as_deref(), visit.now),
            removed: removed.join(", "),
            kept: run.kept,
        }
    }
}
