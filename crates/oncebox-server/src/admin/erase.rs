//! Erasing a subject over the API.

use axum::Json;
use axum::extract::State;

use crate::admin::Admin;
use crate::admin::api::Answer;
use crate::admin::openapi::Refusals;
use crate::admin::submitted::Submitted;
use crate::query::erase::{self, EraseRequest, Erased};

/// Counts, or removes what was stored of a subject; the identities stay, so that a redelivery is still a duplicate.
#[utoipa::path(post, path = "/api/v1/erase", tag = "actions", request_body = EraseRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same as `action_id`.")),
    responses((status = 200, description = "What it did, or would do.", body = Erased), Refusals))]
pub(crate) async fn erase(State(admin): State<Admin>, Submitted(request): Submitted<EraseRequest>) -> Answer<Erased> {
    admin.check_names(request.filter.source.as_deref(), None).await?;
    Ok(Json(erase::erase(admin.store(), admin.clock(), request).await?))
}
