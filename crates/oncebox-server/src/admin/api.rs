//! The JSON API under `/api/v1`: reading. Lists are cursor pages with the views' column names.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::request::Parts;
use oncebox::gateway::store::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::admin::Admin;
use crate::admin::openapi::Refusals;
use crate::http::problem::Problem;
use crate::http::ready::READY_WAIT;
use crate::query::deliveries::DeliveriesQuery;
use crate::query::held::HeldQuery;
use crate::query::outbox::OutboxQuery;
use crate::query::sources::RejectionsQuery;
use crate::query::view::{
    DeadGroupsView, DeadLetterView, DeliveryLineView, DestinationView, EventDetailView, EventView, HandlerView,
    HeldView, Items, MessageDetailView, MessageView, OverviewView, RejectionView, SourceDetailView, SourceView,
    StatsView,
};
use crate::query::{self, EventsQuery, PageQuery, QueryError};

/// The server takes events in.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ReadyView {
    /// Always `ready`.
    status: &'static str,
    /// `sqlite` or `postgres`.
    store: &'static str,
}

/// The three numbers, the last hour, the queues.
#[utoipa::path(get, path = "/api/v1/overview", tag = "numbers",
    responses((status = 200, description = "The three numbers, the last hour, the queues.", body = OverviewView), Refusals))]
pub(crate) async fn overview(admin: Admin) -> Answer<OverviewView> {
    Ok(Json(query::overview::overview(&admin.context()).await?))
}

/// The sources.
#[utoipa::path(get, path = "/api/v1/sources", tag = "sources", params(PageQuery),
    responses((status = 200, description = "The sources.", body = Items<SourceView>), Refusals))]
pub(crate) async fn sources(admin: Admin, Params(query): Params<PageQuery>) -> Answer<Items<SourceView>> {
    let sources = query::sources::sources(&admin.context()).await?;
    Ok(Json(query::page_of(sources, &query, |one| one.name.clone())?))
}

/// One source, with the guide of its provider.
#[utoipa::path(get, path = "/api/v1/sources/{name}", tag = "sources", params(("name" = String, Path, description = "Its name.")),
    responses((status = 200, description = "A source with the guide of its provider.", body = SourceDetailView), Refusals))]
pub(crate) async fn source(admin: Admin, Named(name): Named) -> Answer<SourceDetailView> {
    found(query::sources::source(&admin.context(), &name).await?)
}

/// The handlers.
#[utoipa::path(get, path = "/api/v1/handlers", tag = "handlers", params(PageQuery),
    responses((status = 200, description = "The handlers.", body = Items<HandlerView>), Refusals))]
pub(crate) async fn handlers(admin: Admin, Params(query): Params<PageQuery>) -> Answer<Items<HandlerView>> {
    let handlers = query::queues::handlers(&admin.context()).await?;
    Ok(Json(query::page_of(handlers, &query, |one| one.handler.clone())?))
}

/// The destinations.
#[utoipa::path(get, path = "/api/v1/destinations", tag = "outbox", params(PageQuery),
    responses((status = 200, description = "The destinations of the outbox.", body = Items<DestinationView>), Refusals))]
pub(crate) async fn destinations(admin: Admin, Params(query): Params<PageQuery>) -> Answer<Items<DestinationView>> {
    let destinations = query::queues::destinations(&admin.context()).await?;
    Ok(Json(query::page_of(destinations, &query, |one| one.destination.clone())?))
}

/// Dead letters by error.
#[utoipa::path(get, path = "/api/v1/dead-letters/groups", tag = "dead letters",
    responses((status = 200, description = "Dead letters by error.", body = DeadGroupsView), Refusals))]
pub(crate) async fn dead_groups(admin: Admin) -> Answer<DeadGroupsView> {
    Ok(Json(query::dead::groups(&admin.store).await?))
}

/// A page of events, newest first.
#[utoipa::path(get, path = "/api/v1/events", tag = "events", params(EventsQuery),
    responses((status = 200, description = "A page of events, newest first.", body = Items<EventView>), Refusals))]
pub(crate) async fn events(admin: Admin, Params(query): Params<EventsQuery>) -> Answer<Items<EventView>> {
    admin.check_names(query.source.as_deref(), query.handler.as_deref()).await?;
    Ok(Json(query::events(&admin.store, &admin.clock, query).await?))
}

/// A page of what waits for a person, newest first.
#[utoipa::path(get, path = "/api/v1/held", tag = "events", params(HeldQuery),
    responses((status = 200, description = "A page of what waits for a person, newest first.", body = Items<HeldView>), Refusals))]
pub(crate) async fn held(admin: Admin, Params(query): Params<HeldQuery>) -> Answer<Items<HeldView>> {
    admin.check_names(query.source.as_deref(), None).await?;
    Ok(Json(query::held::held(&admin.store, &admin.clock, query.into()).await?))
}

/// A page of deliveries, newest first.
#[utoipa::path(get, path = "/api/v1/deliveries", tag = "handlers", params(DeliveriesQuery),
    responses((status = 200, description = "A page of deliveries, newest first.", body = Items<DeliveryLineView>), Refusals))]
pub(crate) async fn deliveries(
    admin: Admin,
    Params(query): Params<DeliveriesQuery>,
) -> Answer<Items<DeliveryLineView>> {
    admin.check_names(query.source.as_deref(), query.handler.as_deref()).await?;
    Ok(Json(query::deliveries::deliveries(&admin.store, &admin.clock, query).await?))
}

/// A page of dead letters, newest first.
#[utoipa::path(get, path = "/api/v1/dead-letters", tag = "dead letters", params(DeliveriesQuery),
    responses((status = 200, description = "A page of dead letters, newest first.", body = Items<DeadLetterView>), Refusals))]
pub(crate) async fn dead_letters(
    admin: Admin,
    Params(query): Params<DeliveriesQuery>,
) -> Answer<Items<DeadLetterView>> {
    admin.check_names(query.source.as_deref(), query.handler.as_deref()).await?;
    Ok(Json(query::outbox::dead_letters(&admin.store, &admin.clock, query).await?))
}

/// A page of outbox messages, newest first.
#[utoipa::path(get, path = "/api/v1/outbox", tag = "outbox", params(OutboxQuery),
    responses((status = 200, description = "A page of outbox messages, newest first.", body = Items<MessageView>), Refusals))]
pub(crate) async fn outbox(admin: Admin, Params(query): Params<OutboxQuery>) -> Answer<Items<MessageView>> {
    let destinations = admin.destinations();
    destinations.check(&admin.store, query.destination.as_deref()).await?;
    Ok(Json(query::outbox::messages(&admin.store, &admin.clock, query, &destinations).await?))
}

/// One message with its attempts.
#[utoipa::path(get, path = "/api/v1/outbox/{id}", tag = "outbox", params(("id" = String, Path, description = "Its id.")),
    responses((status = 200, description = "One message with its attempts.", body = MessageDetailView), Refusals))]
pub(crate) async fn message(admin: Admin, Named(id): Named) -> Answer<MessageDetailView> {
    found(query::outbox::message(&admin.store, &id, &admin.destinations()).await?)
}

/// One event with all that belongs to it.
#[utoipa::path(get, path = "/api/v1/events/{key}", tag = "events", params(("key" = String, Path, description = "An event's key, or `source/event_id` with the slash as `%2F`.")),
    responses((status = 200, description = "One event with all that belongs to it.", body = EventDetailView), Refusals))]
pub(crate) async fn event(admin: Admin, Named(name): Named) -> Answer<EventDetailView> {
    found(query::event(&admin.store, &name, &admin.destinations()).await?)
}

/// The raw bytes, as a download that no browser will run.
#[utoipa::path(get, path = "/api/v1/events/{key}/payload", tag = "events", params(("key" = String, Path, description = "An event's key, or `source/event_id` with the slash as `%2F`.")),
    responses((status = 200, description = "The bytes as they came.", body = [u8], content_type = "application/octet-stream"), Refusals))]
pub(crate) async fn payload(admin: Admin, Named(name): Named) -> Result<Response, ApiError> {
    let found = query::find(&admin.store, &name).await?;
    let event = found.first().ok_or_else(Problem::not_found)?;
    let payload = admin.store.payload(event.key).await?.ok_or_else(Problem::not_found)?;
    let kind = HeaderValue::from_static("application/octet-stream");
    // The key is ours, so that nothing of the sender gets into the name of a file.
    let name = HeaderValue::try_from(format!("attachment; filename=\"{}.bin\"", event.key));
    let name = name.unwrap_or(HeaderValue::from_static("attachment"));
    let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; sandbox");
    let headers = [(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, name), (CONTENT_SECURITY_POLICY, policy)];
    Ok((headers, payload.body).into_response())
}

/// The last rejections of this node, newest first.
#[utoipa::path(get, path = "/api/v1/rejections", tag = "sources", params(RejectionsQuery),
    responses((status = 200, description = "The last rejections of this node, newest first.", body = Items<RejectionView>), Refusals))]
pub(crate) async fn rejections(admin: Admin, Params(query): Params<RejectionsQuery>) -> Answer<Items<RejectionView>> {
    admin.check_names(query.source.as_deref(), None).await?;
    Ok(Json(query::sources::rejections(&admin.context(), &query)?))
}

/// The numbers of `oncebox status`.
#[utoipa::path(get, path = "/api/v1/stats", tag = "numbers",
    responses((status = 200, description = "The numbers of `oncebox status`.", body = StatsView), Refusals))]
pub(crate) async fn stats(admin: Admin) -> Answer<StatsView> {
    let setup = admin.setup();
    let destinations = admin.destinations();
    let mut stats = query::stats(&admin.store, &admin.clock, setup.unverified(), &destinations).await?;
    stats.retention_forced = setup.retention_forced;
    Ok(Json(stats))
}

/// Ready means: the database answers.
#[utoipa::path(get, path = "/readyz", tag = "numbers",
    responses((status = 200, description = "The database answers.", body = ReadyView), Refusals))]
pub(crate) async fn ready(admin: Admin) -> Answer<ReadyView> {
    if admin.draining.requested() {
        return Err(Problem::unavailable("the server is stopping").into());
    }
    let failed = match tokio::time::timeout(READY_WAIT, admin.store.ping()).await {
        Ok(answered) => answered.err().map(|error| error.chain()),
        Err(elapsed) => Some(elapsed.to_string()),
    };
    if let Some(error) = failed {
        tracing::warn!("not ready, the database does not answer: {error}");
        let trouble = admin.store.trouble();
        return Err(Problem::unavailable("the database does not answer").because(trouble).into());
    }
    Ok(Json(ReadyView { status: "ready", store: admin.store.kind() }))
}

pub(crate) type Answer<T> = Result<Json<T>, ApiError>;

/// What was asked for, where it is there.
pub(super) fn found<T>(view: Option<T>) -> Answer<T> {
    Ok(Json(view.ok_or_else(Problem::not_found)?))
}

/// What stands behind the `?`, with a refusal that looks as all others do.
#[derive(Debug)]
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Query(asked) =
            Query::from_request_parts(parts, state).await.map_err(|no| Problem::bad_request(no.body_text()))?;
        Ok(Self(asked))
    }
}

/// A body of JSON, with a refusal that looks as all others do.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let Json(body) = Json::from_request(request, state).await.map_err(|no| Problem::bad_request(no.body_text()))?;
        Ok(Self(body))
    }
}

/// A part of the path, with a refusal that looks as all others do.
#[derive(Debug)]
pub(crate) struct Named(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Path(text) =
            Path::from_request_parts(parts, state).await.map_err(|no| Problem::bad_request(no.body_text()))?;
        Ok(Self(text))
    }
}

/// What an API call failed with; beside the problem, for a caller in this process, why.
#[derive(Debug)]
pub(crate) struct ApiError(Problem, Option<Arc<QueryError>>);

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self(problem, None)
    }
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        let problem = match &error {
            QueryError::Bad(detail) => Problem::bad_request(detail),
            QueryError::Missing(_) => Problem::not_found(),
            QueryError::Conflict(detail) => Problem::conflict(detail),
            QueryError::Store(error) => {
                tracing::warn!("the admin API could not read: {}", error.chain());
                Problem::unavailable("the database does not answer")
            }
        };
        Self(problem, Some(Arc::new(error)))
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        QueryError::from(error).into()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.0.into_response().map(axum::body::Body::new);
        if let Some(error) = self.1 {
            response.extensions_mut().insert(error);
        }
        response
    }
}
