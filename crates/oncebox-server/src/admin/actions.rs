//! What operators do over the API: replay, backfill, release, discard, forget, pause and resume, and the log of it.

use axum::Json;
use axum::extract::State;
use oncebox::gateway::store::ActionKind;
use serde::Serialize;

use crate::admin::Admin;
use crate::admin::api::{Answer, Named, Params};
use crate::admin::openapi::Refusals;
use crate::admin::submitted::{Asker, Submitted};
use crate::http::problem::Problem;
use crate::query::PageQuery;
use crate::query::actions::{self, ActionRequest};
use crate::query::deliveries::{self, PauseRequest};
use crate::query::view::{ActionView, Done, Items};

/// Whether a handler is paused now.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct PausedView {
    /// The handler's name.
    handler: String,
    /// Nothing of it is claimed while this is true.
    paused: bool,
}

/// The audit log, newest first.
#[utoipa::path(get, path = "/api/v1/actions", tag = "actions", params(PageQuery),
    responses((status = 200, description = "A page of the audit log, newest first.", body = Items<ActionView>), Refusals))]
pub(crate) async fn log(State(admin): State<Admin>, Params(query): Params<PageQuery>) -> Answer<Items<ActionView>> {
    Ok(Json(actions::actions(admin.store(), &query).await?))
}

/// How far one action came.
#[utoipa::path(get, path = "/api/v1/actions/{id}", tag = "actions", params(("id" = String, Path, description = "Its id.")),
    responses((status = 200, description = "How far one action came.", body = ActionView), Refusals))]
pub(crate) async fn one(State(admin): State<Admin>, Named(id): Named) -> Answer<ActionView> {
    let action = actions::action(admin.store(), &id).await?.ok_or_else(Problem::not_found)?;
    Ok(Json(action))
}

/// Dead becomes ready; with `waiting`, what waits for its next attempt is due now.
#[utoipa::path(post, path = "/api/v1/replay", tag = "actions", request_body = ActionRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `action_id`.")),
    responses((status = 200, description = "What it did, or would do.", body = Done), Refusals))]
pub(crate) async fn replay(State(admin): State<Admin>, Submitted(request): Submitted<ActionRequest>) -> Answer<Done> {
    act(&admin, ActionKind::Replay, request).await
}

/// Gives a handler the stored events that it never had: `handler` and `since` are needed.
#[utoipa::path(post, path = "/api/v1/backfill", tag = "actions", request_body = ActionRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `action_id`.")),
    responses((status = 200, description = "What it did, or would do.", body = Done), Refusals))]
pub(crate) async fn backfill(State(admin): State<Admin>, Submitted(request): Submitted<ActionRequest>) -> Answer<Done> {
    act(&admin, ActionKind::Backfill, request).await
}

/// Held becomes ready. A conflict, named by its key or meant by the state `conflict`, runs as a second effect.
#[utoipa::path(post, path = "/api/v1/release", tag = "actions", request_body = ActionRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `action_id`.")),
    responses((status = 200, description = "What it did, or would do.", body = Done), Refusals))]
pub(crate) async fn release(State(admin): State<Admin>, Submitted(request): Submitted<ActionRequest>) -> Answer<Done> {
    act(&admin, ActionKind::Release, request).await
}

/// Dead or held becomes discarded. A conflict, named by its key or meant by its state, is told of no more.
#[utoipa::path(post, path = "/api/v1/discard", tag = "actions", request_body = ActionRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `action_id`.")),
    responses((status = 200, description = "What it did, or would do.", body = Done), Refusals))]
pub(crate) async fn discard(State(admin): State<Admin>, Submitted(request): Submitted<ActionRequest>) -> Answer<Done> {
    act(&admin, ActionKind::Discard, request).await
}

/// Drops identities, so that a redelivery counts as new.
#[utoipa::path(post, path = "/api/v1/forget", tag = "actions", request_body = ActionRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `action_id`.")),
    responses((status = 200, description = "What it did, or would do.", body = Done), Refusals))]
pub(crate) async fn forget(State(admin): State<Admin>, Submitted(request): Submitted<ActionRequest>) -> Answer<Done> {
    act(&admin, ActionKind::Forget, request).await
}

async fn act(admin: &Admin, kind: ActionKind, request: ActionRequest) -> Answer<Done> {
    Ok(Json(admin.act(kind, request).await?))
}

/// Nothing of the handler is claimed until it is resumed.
#[utoipa::path(post, path = "/api/v1/handlers/{name}/pause", tag = "handlers", request_body = Option<PauseRequest>,
    params(("name" = String, Path, description = "Its name.")),
    responses((status = 200, description = "Done.", body = PausedView), Refusals))]
pub(crate) async fn pause(State(admin): State<Admin>, Named(name): Named, asker: Asker) -> Answer<PausedView> {
    set_paused(&admin, name, true, asker).await
}

/// The handler goes on.
#[utoipa::path(post, path = "/api/v1/handlers/{name}/resume", tag = "handlers", request_body = Option<PauseRequest>,
    params(("name" = String, Path, description = "Its name.")),
    responses((status = 200, description = "Done.", body = PausedView), Refusals))]
pub(crate) async fn resume(State(admin): State<Admin>, Named(name): Named, asker: Asker) -> Answer<PausedView> {
    set_paused(&admin, name, false, asker).await
}

async fn set_paused(admin: &Admin, handler: String, paused: bool, Asker(who): Asker) -> Answer<PausedView> {
    if !deliveries::pause(admin.store(), admin.clock(), (&handler, paused), who).await? {
        return Err(Problem::not_found().into());
    }
    Ok(Json(PausedView { handler, paused }))
}
