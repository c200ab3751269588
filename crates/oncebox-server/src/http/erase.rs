//! Erasing a subject over the API.

use std::net::SocketAddr;

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};

use super::actions::caller;
use super::admin::Admin;
use super::api::ApiError;
use crate::query::erase::{self, EraseRequest};

/// Counts, or erases.
pub(super) async fn erase(
    State(admin): State<Admin>,
    Extension(peer): Extension<SocketAddr>,
    body: Result<Json<EraseRequest>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(mut request) = body?;
    request.who = Some(caller(request.who.as_deref(), peer));
    admin.check_names(request.filter.source.as_deref(), None).await?;
    Ok(Json(erase::erase(admin.store(), admin.clock(), request).await?).into_response())
}
