//! Retention over the API: look, run now, confirm the time.

use std::net::SocketAddr;

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Json, Router};
use serde_json::json;

use super::actions::caller;
use super::admin::Admin;
use super::api::ApiError;
use crate::query::QueryError;
use crate::query::retention::{self, RetentionRequest, RunView};

/// What changes something: for the operator alone.
pub(super) fn routes() -> Router<Admin> {
    Router::new().route("/api/v1/retention/run", post(run)).route("/api/v1/retention/confirm", post(confirm))
}

/// Windows, schedule, runs, and whether it is stopped.
pub(super) async fn show(State(admin): State<Admin>) -> Result<Response, ApiError> {
    let desk = admin.retention();
    let running = (&desk.settings(), desk.progress().thousandths());
    Ok(Json(retention::show(admin.store(), admin.clock(), Some(running)).await?).into_response())
}

async fn run(State(admin): State<Admin>) -> Result<Response, ApiError> {
    let run = admin.retention().run().await.map_err(QueryError::from)?;
    Ok(Json(RunView::from(run)).into_response())
}

async fn confirm(
    State(admin): State<Admin>,
    Extension(peer): Extension<SocketAddr>,
    body: Result<Option<Json<RetentionRequest>>, JsonRejection>,
) -> Result<Response, ApiError> {
    let who = caller(body?.and_then(|Json(body)| body.who).as_deref(), peer);
    let confirmed = retention::confirm(admin.store(), admin.clock(), Some(who)).await?;
    Ok(Json(json!({"confirmed": confirmed})).into_response())
}
