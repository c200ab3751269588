//! Retention over the API: look, run now, confirm the time.

use axum::Json;
use oncebox::gateway::retention::{Handle, NotRun, Parts, Progress, Settings, run_once};
use oncebox::gateway::store::RunRecord;
use serde::Serialize;

use crate::admin::Admin;
use crate::admin::api::Answer;
use crate::admin::openapi::Refusals;
use crate::admin::submitted::Asker;
use crate::query::QueryError;
use crate::query::retention::{self, RetentionRequest, RetentionView, RunView};

#[derive(Clone, Debug)]
pub(crate) enum Remover {
    /// The loop of this server.
    Server(Handle),
    /// Nobody, unless this command is asked to.
    Command(Parts, Progress),
}

impl Remover {
    async fn run(&self) -> Result<RunRecord, NotRun> {
        match self {
            Self::Server(handle) => handle.run().await,
            Self::Command(parts, progress) => run_once(parts.clone(), progress.clone()).await,
        }
    }

    /// What is configured where a server runs, and how far the run under way came.
    fn running(&self) -> (Option<Settings>, Option<u64>) {
        match self {
            Self::Server(handle) => (Some(handle.settings()), Some(handle.progress().thousandths())),
            Self::Command(_, progress) => (None, Some(progress.thousandths()).filter(|progress| *progress > 0)),
        }
    }
}

impl Admin {
    /// Windows, schedule, runs, and whether it is stopped.
    pub(crate) async fn show_retention(&self) -> Result<RetentionView, QueryError> {
        let (settings, progress) = self.retention.running();
        retention::show(&self.store, &self.clock, settings.as_ref(), progress).await
    }
}

/// Whether the time was confirmed.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ConfirmedView {
    /// False when nothing was stopped.
    confirmed: bool,
}

/// Windows, schedule, runs, and whether it is stopped.
#[utoipa::path(get, path = "/api/v1/retention", operation_id = "retention", tag = "retention",
    responses((status = 200, description = "What is kept for how long, and what went.", body = RetentionView), Refusals))]
pub(crate) async fn show(admin: Admin) -> Answer<RetentionView> {
    Ok(Json(admin.show_retention().await?))
}

/// Removes now what is over; answers when that is done.
#[utoipa::path(post, path = "/api/v1/retention/run", operation_id = "run_retention", tag = "retention",
    request_body = Option<RetentionRequest>,
    responses((status = 200, description = "What went.", body = RunView), Refusals))]
pub(crate) async fn run(admin: Admin, Asker(who): Asker) -> Answer<RunView> {
    let run = retention::run_as(&admin.store, &admin.clock, who, admin.retention.run()).await?;
    Ok(Json(run))
}

/// Says that the clock is right, so that retention goes on.
#[utoipa::path(post, path = "/api/v1/retention/confirm", operation_id = "confirm_time", tag = "retention",
    request_body = Option<RetentionRequest>,
    responses((status = 200, description = "Whether anything was stopped.", body = ConfirmedView), Refusals))]
pub(crate) async fn confirm(admin: Admin, Asker(who): Asker) -> Answer<ConfirmedView> {
    let confirmed = retention::confirm(&admin.store, &admin.clock, who).await?;
    Ok(Json(ConfirmedView { confirmed }))
}
