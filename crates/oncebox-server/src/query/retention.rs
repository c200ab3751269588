//! What is kept for how long, when what is over goes, and what went.

use std::collections::BTreeMap;
use std::time::Duration;

use oncebox::Clock;
use oncebox::gateway::retention::{NotRun, Settings};
use oncebox::gateway::store::{RunRecord, Store, WindowRecord};
use serde::{Deserialize, Serialize};

use super::actions::asked_by;
use super::{QueryError, Result};
use crate::config::units::show_duration;
use crate::query::view::{time, view};

const RUNS: usize = 10;

/// Retention as people see it.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct RetentionView {
    /// The windows; the one without a source is for everything else.
    pub(crate) windows: Vec<WindowView>,
    /// When it runs, in words; nothing where no server was asked.
    pub(crate) schedule: Option<String>,
    /// When it runs next.
    pub(crate) next_run_at: Option<String>,
    /// Since when nothing is removed.
    pub(crate) stopped_at: Option<String>,
    /// Why.
    pub(crate) stopped_because: Option<String>,
    /// How far the run that is under way came, in thousandths.
    pub(crate) progress: Option<u64>,
    /// The newest runs.
    pub(crate) runs: Vec<RunView>,
}

view! {
    /// How long the rows of a source live.
    WindowView of window: WindowRecord {
        /// The source; nothing for everything else.
        source: Option<String> = (!window.source.is_empty()).then_some(window.source),
        /// How long its identities are remembered.
        ledger: String = duration(window.ledger_ms),
        /// How long its payloads are kept.
        payload: String = duration(window.payload_ms),
    }
}

view! {
    /// One run.
    RunView of run: RunRecord {
        /// When it began.
        started_at: String = time(run.started_at),
        /// When it ended; nothing for one that was cut off.
        finished_at: Option<String> = run.finished_at.map(time),
        /// Rows removed, by table.
        removed: BTreeMap<String, u64> = run.removed.iter().map(|(table, rows)| (table.to_owned(), rows)).collect(),
        /// Payloads whose window is over and that stay, because a handler or a person needs them.
        kept: i64 = run.kept,
    }
}

/// Who confirms or asks for a run; the body may be left out.
#[derive(Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct RetentionRequest {
    /// For the audit log.
    pub(crate) who: Option<String>,
}

/// What is kept, and what went; with a server's settings also when, and how far the run under way came.
pub(crate) async fn show(
    store: &Store,
    clock: &Clock,
    settings: Option<&Settings>,
    progress: Option<u64>,
) -> Result<RetentionView> {
    let runs = store.runs(RUNS).await?;
    let last = runs.first().map_or_else(|| clock.now(), |run| run.started_at);
    let next = settings.map(|settings| settings.schedule.next(&settings.windows, last).max(clock.now()));
    let stopped = store.retention(clock.now()).await?.stopped;
    Ok(RetentionView {
        windows: windows(store).await?,
        schedule: settings.map(words),
        next_run_at: next.filter(|_| stopped.is_none()).map(time),
        stopped_at: stopped.as_ref().map(|(at, _)| time(*at)),
        stopped_because: stopped.map(|(_, why)| why),
        progress,
        runs: runs.into_iter().map(Into::into).collect(),
    })
}

pub(crate) async fn windows(store: &Store) -> Result<Vec<WindowView>> {
    Ok(store.windows().await?.into_iter().map(Into::into).collect())
}

/// Says that the time is right; false when nothing was stopped.
pub(crate) async fn confirm(store: &Store, clock: &Clock, who: String) -> Result<bool> {
    let asked = asked_by(who, clock);
    let confirmed = store.confirm_time(&asked).await?;
    if confirmed {
        tracing::info!(who = asked.who, "an operator confirmed the time, retention goes on");
    }
    Ok(confirmed)
}

/// A run that somebody asks for, with a line in the audit log that is opened before it and ended after it.
pub(crate) async fn run_as(
    store: &Store,
    clock: &Clock,
    who: String,
    run: impl Future<Output = Result<RunRecord, NotRun>>,
) -> Result<RunView> {
    let asked = asked_by(who, clock);
    store.open_run_as(&asked).await?;
    let run = run.await.map(RunView::from);
    let removed = run.as_ref().map_or(0, |run| run.removed.values().sum::<u64>());
    store.end_run_as(&asked, i64::try_from(removed).unwrap_or(i64::MAX), clock.now()).await?;
    tracing::info!(who = asked.who, removed, "an operator asked for a run of retention");
    Ok(run?)
}

fn words(settings: &Settings) -> String {
    match settings.schedule.pause(&settings.windows) {
        Some(pause) => format!("every {}", show_duration(pause)),
        None => {
            let minutes = settings.schedule.at.as_secs() / 60;
            format!("daily at {:02}:{:02} UTC", minutes / 60, minutes % 60)
        }
    }
}

fn duration(ms: i64) -> String {
    show_duration(Duration::from_millis(ms.max(0).unsigned_abs()))
}

impl From<NotRun> for QueryError {
    fn from(error: NotRun) -> Self {
        match error {
            NotRun::Store(error) => Self::Store(error),
            NotRun::Doubtful(_) => {
                Self::Conflict(format!("{error}; if the time is right now, `oncebox retention confirm`"))
            }
            NotRun::Elsewhere | NotRun::NoWindows => Self::Conflict(error.to_string()),
        }
    }
}
