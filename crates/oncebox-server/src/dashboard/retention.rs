//! `/retention`: how long things are remembered, how much there is, how fast it grows, and what went.

use askama::Template;
use oncebox::gateway::limits::LEDGER_EXAMINED_MAX;

use super::render::format::{counted, grouped, grown, least};
use super::render::{Shown, Visit, When, page};
use crate::admin::Admin;
use crate::query;
use crate::query::retention::{RetentionView, RunView};

#[derive(Template)]
#[template(path = "retention.html")]
struct RetentionPage {
    visit: Visit,
    ledger_rows: String,
    daily_change: String,
    by_source: Vec<(String, String)>,
    view: RetentionView,
    next: Option<When>,
    stopped: Option<When>,
    runs: Vec<Run>,
}

struct Run {
    started: When,
    is_over: bool,
    removed: String,
    kept: i64,
}

/// The ledger and its growth, the windows, and the newest runs.
pub(super) async fn show(admin: Admin, visit: Visit) -> Shown {
    let stats = query::stats(&admin.store, &admin.clock, Vec::new(), &admin.destinations()).await?;
    let ledger = admin.store.ledger_rows(LEDGER_EXAMINED_MAX).await?;
    let mut view = admin.show_retention().await?;
    let runs = std::mem::take(&mut view.runs);
    page(&RetentionPage {
        ledger_rows: least(stats.ledger_rows, stats.ledger_rows_is_least),
        daily_change: grown(stats.ledger_rows_daily_change, stats.ledger_rows_daily_change_is_least),
        by_source: ledger.by_source.into_iter().map(|(source, rows)| (source, grouped(rows))).collect(),
        next: When::maybe(view.next_run_at.as_deref(), visit.now),
        stopped: When::maybe(view.stopped_at.as_deref(), visit.now),
        runs: runs.iter().map(|run| Run::new(run, &visit)).collect(),
        view,
        visit,
    })
}

impl Run {
    fn new(run: &RunView, visit: &Visit) -> Self {
        let gone = run.removed.iter().filter(|(_, rows)| **rows > 0);
        let gone: Vec<String> = gone.map(|(table, rows)| format!("{rows} {table}")).collect();
        Self {
            started: When::read(&run.started_at, visit.now),
            is_over: run.finished_at.is_some(),
            removed: if gone.is_empty() { "nothing was over".to_owned() } else { gone.join(", ") },
            kept: run.kept,
        }
    }

    fn kept_words(&self) -> String {
        counted(self.kept, "payload")
    }
}
