//! The JSON API under `/api/v1`: reading. Lists are cursor pages with the views' column names.

use std::time::Duration;

use axum::Json;
use axum::extract::{
    Path, Query, State,
    rejection::{JsonRejection, QueryRejection},
};
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use oncebox::limits::PAGE_MAX;
use oncebox::source::Source;
use serde::Serialize;
use serde_json::json;

use super::admin::Admin;
use super::problem::Problem;
use crate::query::deliveries::DeliveriesQuery;
use crate::query::outbox::OutboxQuery;
use crate::query::{self, EventsQuery, QueryError};
use crate::view::{Items, RejectionView};

/// A database that does not answer within this is not ready, whatever its own deadline.
const READY_WAIT: Duration = Duration::from_secs(2);

/// A source as the API shows it.
#[derive(Debug, Serialize)]
struct SourceView {
    name: String,
    provider: String,
    url: String,
    secrets: usize,
    verified: bool,
}

pub(super) async fn sources(State(admin): State<Admin>) -> Response {
    let setup = admin.setup();
    let mut items: Vec<SourceView> = setup.sources.values().map(|source| view(source)).collect();
    items.sort_by(|a, b| a.name.cmp(&b.name));
    Json(Items { items, next_cursor: None }).into_response()
}

pub(super) async fn events(
    State(admin): State<Admin>,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(query) = query?;
    admin.check_names(query.source.as_deref(), None).await?;
    Ok(Json(query::events(admin.store(), admin.clock(), query).await?).into_response())
}

pub(super) async fn held(
    State(admin): State<Admin>,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(query) = query?;
    admin.check_names(query.source.as_deref(), None).await?;
    Ok(Json(query::held(admin.store(), admin.clock(), query).await?).into_response())
}

pub(super) async fn deliveries(
    State(admin): State<Admin>,
    query: Result<Query<DeliveriesQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(query) = query?;
    admin.check_names(query.source.as_deref(), query.handler.as_deref()).await?;
    Ok(Json(query::deliveries::deliveries(admin.store(), admin.clock(), query).await?).into_response())
}

pub(super) async fn dead_letters(
    State(admin): State<Admin>,
    query: Result<Query<DeliveriesQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(query) = query?;
    admin.check_names(query.source.as_deref(), query.handler.as_deref()).await?;
    Ok(Json(query::outbox::dead_letters(admin.store(), admin.clock(), query).await?).into_response())
}

pub(super) async fn outbox(
    State(admin): State<Admin>,
    query: Result<Query<OutboxQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(query) = query?;
    let destinations = admin.destinations();
    destinations.check(admin.store(), query.destination.as_deref()).await?;
    Ok(Json(query::outbox::messages(admin.store(), admin.clock(), query, &destinations).await?).into_response())
}

pub(super) async fn message(State(admin): State<Admin>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let detail =
        query::outbox::message(admin.store(), &id, &admin.destinations()).await?.ok_or_else(Problem::not_found)?;
    Ok(Json(detail).into_response())
}

pub(super) async fn event(State(admin): State<Admin>, Path(name): Path<String>) -> Result<Response, ApiError> {
    let detail = query::event(admin.store(), &name, &admin.destinations()).await?.ok_or_else(Problem::not_found)?;
    Ok(Json(detail).into_response())
}

/// The raw bytes, as a download that no browser will run.
pub(super) async fn payload(State(admin): State<Admin>, Path(name): Path<String>) -> Result<Response, ApiError> {
    let found = query::find(admin.store(), &name).await?;
    let event = found.first().ok_or_else(Problem::not_found)?;
    let payload = admin.store().payload(event.key).await.map_err(QueryError::from)?;
    let payload = payload.ok_or_else(Problem::not_found)?;
    let mut response = payload.body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    Ok(response)
}

pub(super) async fn rejections(State(admin): State<Admin>) -> Response {
    let items: Vec<RejectionView> = admin.rejections().latest(PAGE_MAX).into_iter().map(Into::into).collect();
    Json(Items { items, next_cursor: None }).into_response()
}

pub(super) async fn stats(State(admin): State<Admin>) -> Result<Response, ApiError> {
    let setup = admin.setup();
    let mut unverified: Vec<String> =
        setup.sources.values().filter(|source| source.is_unverified()).map(|source| source.name().to_owned()).collect();
    unverified.sort();
    Ok(Json(query::stats(admin.store(), admin.clock(), unverified, &admin.destinations()).await?).into_response())
}

/// Ready means: the database answers.
pub(super) async fn ready(State(admin): State<Admin>) -> Result<Response, ApiError> {
    if admin.is_draining() {
        return Err(Problem::unavailable("the server is stopping").into());
    }
    match tokio::time::timeout(READY_WAIT, admin.store().ping()).await {
        Ok(answered) => answered.map_err(QueryError::from)?,
        Err(_) => return Err(Problem::unavailable("the database does not answer").into()),
    }
    Ok(Json(json!({"status": "ready", "store": admin.store().kind()})).into_response())
}

fn view(source: &Source) -> SourceView {
    SourceView {
        name: source.name().to_owned(),
        provider: source.provider().to_owned(),
        url: format!("/in/{}", source.name()),
        secrets: source.secrets_count(),
        verified: !source.is_unverified(),
    }
}

/// What an API call failed with.
#[derive(Debug)]
pub(super) struct ApiError(Problem);

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        Self(match error {
            QueryError::Bad(detail) => Problem::bad_request(detail),
            QueryError::Missing(_) => Problem::not_found(),
            QueryError::Conflict(detail) => Problem::conflict(detail),
            QueryError::Store(error) => {
                tracing::warn!("the admin API could not read: {}", error.chain());
                Problem::unavailable("the database does not answer")
            }
        })
    }
}

impl From<QueryRejection> for ApiError {
    fn from(rejection: QueryRejection) -> Self {
        Self(Problem::bad_request(rejection.body_text()))
    }
}

impl From<JsonRejection> for ApiError {
    fn from(rejection: JsonRejection) -> Self {
        Self(Problem::bad_request(rejection.body_text()))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.0.into_response().map(axum::body::Body::new)
    }
}
