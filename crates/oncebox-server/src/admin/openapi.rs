//! The document of the API, and a page that shows it without a script: both made once from what the routes say.
//!
//! The page is our own: a viewer of somebody else wants inline scripts and styles, and our policy allows neither.

mod page;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use serde::Serialize;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Response as Described, ResponseBuilder};
use utoipa::{IntoResponses, OpenApi as _, ToSchema};

/// The document and its page. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    json: Bytes,
    page: Bytes,
    policy: Arc<str>,
}

/// What every refusal looks like.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemView {
    /// A stable name of the kind of problem.
    #[schema(example = "urn:oncebox:problem:bad-request")]
    r#type: String,
    /// What it means.
    #[schema(example = "the request cannot be understood")]
    title: String,
    /// The status of the answer.
    #[schema(example = 400)]
    status: u16,
    /// What exactly is wrong, where that can be said.
    #[schema(required = false, example = "the cursor is not one of ours")]
    detail: Option<String>,
}

/// The refusals that any route may answer with.
#[derive(Debug)]
pub(crate) struct Refusals;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Oncebox admin API",
        description = "Events, deliveries and the outbox of an exactly-once webhook inbox, and what operators do with \
                       them. Lists are pages with a cursor; a list that no index serves looks back a bounded number of \
                       rows and says so in `searched_until`. Every refusal is `application/problem+json`.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    components(schemas(ProblemView)),
    tags(
        (name = "numbers", description = "What people watch."),
        (name = "events", description = "What came."),
        (name = "handlers", description = "Who reacts, and what waits for them."),
        (name = "dead letters", description = "What gave up."),
        (name = "outbox", description = "What goes out."),
        (name = "sources", description = "Who sends."),
        (name = "retention", description = "What is kept for how long, and what went."),
        (name = "actions", description = "What operators do: counted first by a dry run, done once under one id, kept in the log."),
        (name = "pull consumers", description = "Deliveries for consumers outside: claim, then finish, fail or extend."),
        (name = "session", description = "Browser sessions, opened by a token."),
        (name = "document", description = "This document."),
    )
)]
struct Head;

impl Document {
    pub(crate) fn new(parts: impl IntoIterator<Item = OpenApi>) -> Self {
        let document = parts.into_iter().fold(head(), |mut whole, part| {
            whole.merge(part);
            whole
        });
        let value = serde_json::to_value(&document).unwrap_or_default();
        let (page, policy) = page::render(&value);
        Self { json: value.to_string().into(), page: page.into(), policy: policy.into() }
    }
}

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        let refusals = [
            ("400", "The request cannot be understood."),
            ("401", "No token or session, or a wrong one."),
            ("403", "Known, but not allowed; or a page of another site, or a wrong Host."),
            ("404", "There is nothing of this name."),
            ("409", "It contradicts what happened before, or the lease was lost."),
            ("429", "Too many wrong tries from one address; `Retry-After` says when the next may come."),
            ("503", "The database does not answer, or the server is stopping; `Retry-After` says when to come again."),
        ];
        let described = |text: &str| {
            let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
            RefOr::T(ResponseBuilder::new().description(text).content("application/problem+json", content).build())
        };
        refusals.into_iter().map(|(status, text)| (status.to_owned(), described(text))).collect()
    }
}

/// This document.
#[utoipa::path(get, path = "/api/openapi.json", tag = "document",
    responses((status = 200, description = "OpenAPI 3.1.", body = serde_json::Value), Refusals))]
pub(crate) async fn document(Extension(document): Extension<Document>) -> Response {
    ([(CONTENT_TYPE, "application/json")], document.json).into_response()
}

/// This document for people.
#[utoipa::path(get, path = "/api/docs", tag = "document",
    responses((status = 200, description = "A page without scripts.", body = String, content_type = "text/html"), Refusals))]
pub(crate) async fn docs(Extension(document): Extension<Document>) -> Response {
    let policy = document.policy.to_string();
    ([(CONTENT_TYPE, "text/html; charset=utf-8".to_owned()), (CONTENT_SECURITY_POLICY, policy)], document.page)
        .into_response()
}

fn head() -> OpenApi {
    let mut document = Head::openapi();
    document.info.version = env!("CARGO_PKG_VERSION").to_owned();
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
        "The operator's or viewer's token; for the routes of pull consumers also the handler's own.",
    ));
    let session = ApiKeyValue::with_description(
        "oncebox_session",
        "Opened by POST /api/v1/session. What changes something also carries the session's form token in the header \
         oncebox-form-token.",
    );
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer.build()));
    components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(session)));
    let either = ["bearer", "session"].map(|name| utoipa::openapi::SecurityRequirement::new(name, [] as [&str; 0]));
    document.security = Some(either.to_vec());
    document
}
