//! What operators do over the API: replay, release, discard, forget, pause and resume, and the log of it.

use std::net::SocketAddr;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Json, Router};
use oncebox::store::ActionKind;
use serde_json::json;

use super::admin::Admin;
use super::api::ApiError;
use super::problem::Problem;
use crate::query::actions::{self, ActionRequest};
use crate::query::deliveries::{self, PauseRequest};

/// Everything that changes something: for the operator alone.
pub(super) fn routes() -> Router<Admin> {
    let act = |kind| {
        post(move |State(admin): State<Admin>, Extension(peer): Extension<SocketAddr>, body| {
            act(admin, peer, kind, body)
        })
    };
    Router::new()
        .route("/api/v1/replay", act(ActionKind::Replay))
        .route("/api/v1/release", act(ActionKind::Release))
        .route("/api/v1/discard", act(ActionKind::Discard))
        .route("/api/v1/forget", act(ActionKind::Forget))
        .route("/api/v1/erase", post(super::erase::erase))
        .route("/api/v1/handlers/{name}/pause", post(pause))
        .route("/api/v1/handlers/{name}/resume", post(resume))
}

/// The audit log, newest first.
pub(super) async fn log(State(admin): State<Admin>) -> Result<Response, ApiError> {
    Ok(Json(actions::actions(admin.store()).await?).into_response())
}

/// How far one action came.
pub(super) async fn one(State(admin): State<Admin>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let action = actions::action(admin.store(), &id).await?.ok_or_else(Problem::not_found)?;
    Ok(Json(action).into_response())
}

async fn act(
    admin: Admin,
    peer: SocketAddr,
    kind: ActionKind,
    body: Result<Json<ActionRequest>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(mut request) = body?;
    request.who = Some(caller(request.who.as_deref(), peer));
    admin.check_names(request.filter.source.as_deref(), request.filter.handler.as_deref()).await?;
    let setup = admin.setup();
    let known = actions::Known { routes: &setup.routes, destinations: &admin.destinations() };
    let done = actions::act(admin.store(), admin.clock(), known, kind, request).await?;
    Ok(Json(done).into_response())
}

async fn pause(
    State(admin): State<Admin>,
    Extension(peer): Extension<SocketAddr>,
    Path(name): Path<String>,
    body: Result<Option<Json<PauseRequest>>, JsonRejection>,
) -> Result<Response, ApiError> {
    set_paused(&admin, peer, (&name, true), body?).await
}

async fn resume(
    State(admin): State<Admin>,
    Extension(peer): Extension<SocketAddr>,
    Path(name): Path<String>,
    body: Result<Option<Json<PauseRequest>>, JsonRejection>,
) -> Result<Response, ApiError> {
    set_paused(&admin, peer, (&name, false), body?).await
}

async fn set_paused(
    admin: &Admin,
    peer: SocketAddr,
    (name, paused): (&str, bool),
    body: Option<Json<PauseRequest>>,
) -> Result<Response, ApiError> {
    let who = caller(body.and_then(|Json(body)| body.who).as_deref(), peer);
    if !deliveries::pause(admin.store(), admin.clock(), (name, paused), Some(who)).await? {
        return Err(Problem::not_found().into());
    }
    Ok(Json(json!({"handler": name, "paused": paused})).into_response())
}

/// Who the audit log names: what the caller says, and where it called from.
pub(super) fn caller(who: Option<&str>, peer: SocketAddr) -> String {
    format!("{} from {}", who.unwrap_or("operator"), peer.ip())
}
