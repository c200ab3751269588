//! What operators do over the API: replay, release, discard, forget, pause and resume, and the log of it.

use std::net::SocketAddr;

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http::HeaderMap;
use oncebox::store::ActionKind;
use serde::Serialize;

use super::admin::Admin;
use super::api::{ApiError, Named};
use super::openapi::Refusals;
use super::problem::Problem;
use crate::query::actions::{self, ActionRequest};
use crate::query::deliveries::{self, PauseRequest};
use crate::view::{ActionView, Done, Items};

/// Whether a handler is paused now.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct PausedView {
    /// The handler's name.
    handler: String,
    /// Nothing of it is claimed while this is true.
    paused: bool,
}

/// The audit log, newest first.
#[utoipa::path(get, path = "/api/v1/actions", tag = "actions",
    responses((status = 200, description = "The audit log, newest first.", body = Items<ActionView>), Refusals))]
pub(super) async fn log(State(admin): State<Admin>) -> Result<Response, ApiError> {
    Ok(Json(actions::actions(admin.store()).await?).into_response())
}

/// How far one action came.
#[utoipa::path(get, path = "/api/v1/actions/{id}", tag = "actions", params(("id" = String, Path, description = "Its id.")),
    responses((status = 200, description = "How far one action came.", body = ActionView), Refusals))]
pub(super) async fn one(State(admin): State<Admin>, Named(id): Named) -> Result<Response, ApiError> {
    let action = actions::action(admin.store(), &id).await?.ok_or_else(Problem::not_found)?;
    Ok(Json(action).into_response())
}

/// Dead becomes ready; with `handler` and `since`, stored events are given to a handler that never had them.
#[utoipa::path(post, path = "/api/v1/replay", tag = "actions", request_body = ActionRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `action_id`.")),
    responses((status = 200, description = "What it did, or would do.", body = Done), Refusals))]
pub(super) async fn replay(
    State(admin): State<Admin>,
    Extension(peer): Extension<SocketAddr>,
    headers: HeaderMap,
    body: Result<Json<ActionRequest>, JsonRejection>,
) -> Result<Response, ApiError> {
    act(admin, (peer, &headers), ActionKind::Replay, body?.0).await
}

/// Held becomes ready.
#[utoipa::path(post, path = "/api/v1/release", tag = "actions", request_body = ActionRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `action_id`.")),
    responses((status = 200, description = "What it did, or would do.", body = Done), Refusals))]
pub(super) async fn release(
    State(admin): State<Admin>,
    Extension(peer): Extension<SocketAddr>,
    headers: HeaderMap,
    body: Result<Json<ActionRequest>, JsonRejection>,
) -> Result<Response, ApiError> {
    act(admin, (peer, &headers), ActionKind::Release, body?.0).await
}

/// Dead or held becomes discarded.
#[utoipa::path(post, path = "/api/v1/discard", tag = "actions", request_body = ActionRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `action_id`.")),
    responses((status = 200, description = "What it did, or would do.", body = Done), Refusals))]
pub(super) async fn discard(
    State(admin): State<Admin>,
    Extension(peer): Extension<SocketAddr>,
    headers: HeaderMap,
    body: Result<Json<ActionRequest>, JsonRejection>,
) -> Result<Response, ApiError> {
    act(admin, (peer, &headers), ActionKind::Discard, body?.0).await
}

/// Drops identities, so that a redelivery counts as new.
#[utoipa::path(post, path = "/api/v1/forget", tag = "actions", request_body = ActionRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `action_id`.")),
    responses((status = 200, description = "What it did, or would do.", body = Done), Refusals))]
pub(super) async fn forget(
    State(admin): State<Admin>,
    Extension(peer): Extension<SocketAddr>,
    headers: HeaderMap,
    body: Result<Json<ActionRequest>, JsonRejection>,
) -> Result<Response, ApiError> {
    act(admin, (peer, &headers), ActionKind::Forget, body?.0).await
}

async fn act(
    admin: Admin,
    (peer, headers): (SocketAddr, &HeaderMap),
    kind: ActionKind,
    mut request: ActionRequest,
) -> Result<Response, ApiError> {
    request.action_id = action_id(request.action_id, headers)?;
    request.who = Some(caller(request.who.as_deref(), peer));
    Ok(Json(admin.act(kind, request).await?).into_response())
}

/// The id of the body or of the header: one and the same.
pub(super) fn action_id(given: Option<String>, headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut lines = headers.get_all("idempotency-key").into_iter();
    let Some(line) = lines.next() else { return Ok(given) };
    let key = line.to_str().map_err(|_error| Problem::bad_request("Idempotency-Key must be plain text"))?;
    if lines.next().is_some() || given.as_deref().is_some_and(|given| given != key) {
        return Err(Problem::bad_request("Idempotency-Key and action_id name different actions; give one of them"));
    }
    Ok(Some(key.to_owned()))
}

/// Nothing of the handler is claimed until it is resumed.
#[utoipa::path(post, path = "/api/v1/handlers/{name}/pause", tag = "handlers", request_body = Option<PauseRequest>,
    params(("name" = String, Path, description = "Its name.")),
    responses((status = 200, description = "Done.", body = PausedView), Refusals))]
pub(super) async fn pause(
    State(admin): State<Admin>,
    Extension(peer): Extension<SocketAddr>,
    Named(name): Named,
    body: Result<Option<Json<PauseRequest>>, JsonRejection>,
) -> Result<Response, ApiError> {
    set_paused(&admin, peer, (&name, true), body?).await
}

/// The handler goes on.
#[utoipa::path(post, path = "/api/v1/handlers/{name}/resume", tag = "handlers", request_body = Option<PauseRequest>,
    params(("name" = String, Path, description = "Its name.")),
    responses((status = 200, description = "Done.", body = PausedView), Refusals))]
pub(super) async fn resume(
    State(admin): State<Admin>,
    Extension(peer): Extension<SocketAddr>,
    Named(name): Named,
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
    Ok(Json(PausedView { handler: name.to_owned(), paused }).into_response())
}

/// Who the audit log names: what the caller says, and where it called from.
pub(super) fn caller(who: Option<&str>, peer: SocketAddr) -> String {
    format!("{} from {}", who.unwrap_or("operator"), peer.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_and_the_body_name_one_action() {
        let check = |body: Option<&str>, lines: &[&'static str], expected: Result<Option<&str>, ()>| {
            let named = |line: &&'static str| {
                (http::HeaderName::from_static("idempotency-key"), line.parse().expect("a value"))
            };
            let headers: HeaderMap = lines.iter().map(named).collect();
            let found = action_id(body.map(str::to_owned), &headers).map_err(|_problem| ());
            assert_eq!(found, expected.map(|id| id.map(str::to_owned)), "{body:?} {lines:?}");
        };
        check(None, &[], Ok(None));
        check(Some("a"), &[], Ok(Some("a")));
        check(None, &["a"], Ok(Some("a")));
        check(Some("a"), &["a"], Ok(Some("a")));
        check(Some("a"), &["b"], Err(()));
        check(None, &["a", "b"], Err(()));
    }
}
