//! Erasing a subject over the API.

use std::net::SocketAddr;

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http::HeaderMap;

use super::actions::{action_id, caller};
use super::admin::Admin;
use super::api::ApiError;
use super::openapi::Refusals;
use crate::query::erase::{self, EraseRequest, Erased};

/// Counts, or removes what was stored of a subject; the identities stay, so that a redelivery is still a duplicate.
#[utoipa::path(post, path = "/api/v1/erase", tag = "actions", request_body = EraseRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `action_id`.")),
    responses((status = 200, description = "What it did, or would do.", body = Erased), Refusals))]
pub(super) async fn erase(
    State(admin): State<Admin>,
    Extension(peer): Extension<SocketAddr>,
    headers: HeaderMap,
    body: Result<Json<EraseRequest>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(mut request) = body?;
    request.action_id = action_id(request.action_id, &headers)?;
    request.who = Some(caller(request.who.as_deref(), peer));
    admin.check_names(request.filter.source.as_deref(), None).await?;
    Ok(Json(erase::erase(admin.store(), admin.clock(), request).await?).into_response())
}
