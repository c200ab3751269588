//! What operators do over the API: replay, backfill, release, discard, forget, erase, pause and resume, and its log.

use axum::Json;
use oncebox::gateway::store::ActionKind;
use serde::Serialize;

use crate::admin::Admin;
use crate::admin::api::{Answer, Named, Params, found};
use crate::admin::openapi::Refusals;
use crate::admin::submitted::{Asker, Submitted};
use crate::http::problem::Problem;
use crate::query::actions::{self, ActionRequest};
use crate::query::deliveries::{self, PauseRequest};
use crate::query::erase::{EraseRequest, Erased};
use crate::query::view::{ActionView, Done, Items};
use crate::query::{self, PageQuery};

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
pub(crate) async fn log(admin: Admin, Params(query): Params<PageQuery>) -> Answer<Items<ActionView>> {
    Ok(Json(actions::actions(&admin.store, &query).await?))
}

/// How far one action came.
#[utoipa::path(get, path = "/api/v1/actions/{id}", tag = "actions", params(("id" = String, Path, description = "Its id.")),
    responses((status = 200, description = "How far one action came.", body = ActionView), Refusals))]
pub(crate) async fn one(admin: Admin, Named(id): Named) -> Answer<ActionView> {
    found(actions::action(&admin.store, &id).await?)
}

/// Dead becomes ready; with `waiting`, what waits for its next attempt is due now.
#[utoipa::path(post, path = "/api/v1/replay", tag = "actions", request_body = ActionRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `action_id`.")),
    responses((status = 200, description = "What it did, or would do.", body = Done), Refusals))]
pub(crate) async fn replay(admin: Admin, Submitted(request): Submitted<ActionRequest>) -> Answer<Done> {
    Ok(Json(admin.act(ActionKind::Replay, request).await?))
}

/// Gives a handler the stored events that it never had: `handler` and `since` are needed.
#[utoipa::path(post, path = "/api/v1/backfill", tag = "actions", request_body = ActionRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `action_id`.")),
    responses((status = 200, description = "What it did, or would do.", body = Done), Refusals))]
pub(crate) async fn backfill(admin: Admin, Submitted(request): Submitted<ActionRequest>) -> Answer<Done> {
    Ok(Json(admin.act(ActionKind::Backfill, request).await?))
}

/// Held becomes ready. A conflict, named by its key or meant by the state `conflict`, runs as a second effect.
#[utoipa::path(post, path = "/api/v1/release", tag = "actions", request_body = ActionRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `action_id`.")),
    responses((status = 200, description = "What it did, or would do.", body = Done), Refusals))]
pub(crate) async fn release(admin: Admin, Submitted(request): Submitted<ActionRequest>) -> Answer<Done> {
    Ok(Json(admin.act(ActionKind::Release, request).await?))
}

/// Dead or held becomes discarded. A conflict, named by its key or meant by its state, is told of no more.
#[utoipa::path(post, path = "/api/v1/discard", tag = "actions", request_body = ActionRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `action_id`.")),
    responses((status = 200, description = "What it did, or would do.", body = Done), Refusals))]
pub(crate) async fn discard(admin: Admin, Submitted(request): Submitted<ActionRequest>) -> Answer<Done> {
    Ok(Json(admin.act(ActionKind::Discard, request).await?))
}

/// Drops identities, so that a redelivery counts as new.
#[utoipa::path(post, path = "/api/v1/forget", tag = "actions", request_body = ActionRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `action_id`.")),
    responses((status = 200, description = "What it did, or would do.", body = Done), Refusals))]
pub(crate) async fn forget(admin: Admin, Submitted(request): Submitted<ActionRequest>) -> Answer<Done> {
    Ok(Json(admin.act(ActionKind::Forget, request).await?))
}

/// Counts, or removes what was stored of a subject; the identities stay, so that a redelivery is still a duplicate.
#[utoipa::path(post, path = "/api/v1/erase", tag = "actions", request_body = EraseRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `action_id`.")),
    responses((status = 200, description = "What it did, or would do.", body = Erased), Refusals))]
pub(crate) async fn erase(admin: Admin, Submitted(request): Submitted<EraseRequest>) -> Answer<Erased> {
    admin.check_names(request.filter.source.as_deref(), None).await?;
    Ok(Json(query::erase::erase(&admin.store, &admin.clock, request).await?))
}

/// Nothing of the handler is claimed until it is resumed.
#[utoipa::path(post, path = "/api/v1/handlers/{name}/pause", tag = "handlers", request_body = Option<PauseRequest>,
    params(("name" = String, Path, description = "Its name.")),
    responses((status = 200, description = "Done.", body = PausedView), Refusals))]
pub(crate) async fn pause(admin: Admin, Named(name): Named, asker: Asker) -> Answer<PausedView> {
    set_paused(&admin, name, true, asker).await
}

/// The handler goes on.
#[utoipa::path(post, path = "/api/v1/handlers/{name}/resume", tag = "handlers", request_body = Option<PauseRequest>,
    params(("name" = String, Path, description = "Its name.")),
    responses((status = 200, description = "Done.", body = PausedView), Refusals))]
pub(crate) async fn resume(admin: Admin, Named(name): Named, asker: Asker) -> Answer<PausedView> {
    set_paused(&admin, name, false, asker).await
}

async fn set_paused(admin: &Admin, handler: String, paused: bool, Asker(who): Asker) -> Answer<PausedView> {
    if !deliveries::pause(&admin.store, &admin.clock, (&handler, paused), who).await? {
        return Err(Problem::not_found().into());
    }
    Ok(Json(PausedView { handler, paused }))
}
