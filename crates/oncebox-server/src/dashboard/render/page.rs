//! What every page has: who looks, the menu, the headers that keep a browser strict, and the page for errors.

use askama::Template;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query};
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use oncebox::gateway::clock::UnixMillis;
use serde::de::DeserializeOwned;
use url::form_urlencoded;

use crate::admin::Admin;
use crate::admin::guard::{Caller, Proof, Role};
use crate::query::QueryError;

/// Nothing inline, nothing from elsewhere, no framing.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
     frame-ancestors 'none'; base-uri 'none'",
);

/// The title of a page for a request that makes no sense.
pub(crate) const UNCLEAR: &str = "this cannot be understood";

/// The menu: where it leads, what it says, and under which heading it stands.
const MENU: [(&str, &[(&str, &str)]); 4] = [
    ("", &[("/", "Overview"), ("/tail", "Live tail"), ("/events", "Events")]),
    ("To look at", &[("/dead-letters", "Dead letters"), ("/held", "Held"), ("/rejections", "Rejections")]),
    (
        "Set-up",
        &[("/sources", "Sources"), ("/handlers", "Handlers"), ("/destinations", "Destinations"), ("/outbox", "Outbox")],
    ),
    ("House", &[("/retention", "Retention"), ("/audit", "Audit log")]),
];

/// Whoever looks at a page, and what stands around its content.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    /// True for the operator; a viewer sees actions without being able to use them.
    pub(crate) may_act: bool,
    pub(crate) form_token: String,
    /// There is a session that can be ended.
    pub(crate) has_session: bool,
    pub(crate) now: UnixMillis,
    path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) href: &'static str,
    pub(crate) name: &'static str,
    pub(crate) here: bool,
}

impl Visit {
    /// The menu, with the page's own part marked.
    pub(crate) fn menu(&self) -> Vec<(&'static str, Vec<Entry>)> {
        let entry = |(href, name): &(&'static str, &'static str)| {
            let below = self.path.strip_prefix(href).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            Entry { href, name, here: if *href == "/" { self.path == "/" } else { below } }
        };
        MENU.iter().map(|(heading, entries)| (*heading, entries.iter().map(entry).collect())).collect()
    }

    pub(crate) fn role(&self) -> &'static str {
        if self.may_act { "operator" } else { "viewer" }
    }

    pub(crate) fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}

impl FromRequestParts<Admin> for Visit {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, admin: &Admin) -> Result<Self, PageError> {
        let caller = parts.extensions.get::<Caller>().ok_or_else(PageError::not_found)?;
        Ok(Self {
            may_act: caller.role == Role::Operator,
            form_token: caller.form_token().unwrap_or_default().to_owned(),
            has_session: matches!(caller.proof, Proof::Session { .. }),
            now: admin.clock.now(),
            path: parts.uri.path().to_owned(),
        })
    }
}

/// What somebody sees who asks for a page.
pub(crate) type Shown = Result<Response, PageError>;

pub(crate) fn page(template: &impl Template) -> Shown {
    page_with(StatusCode::OK, template)
}

/// A page that is not what was asked for.
pub(crate) fn page_with(status: StatusCode, template: &impl Template) -> Shown {
    let text = template.render().map_err(|error| {
        tracing::error!("a page could not be made: {error}");
        PageError::new(StatusCode::INTERNAL_SERVER_ERROR, "this page could not be made", "the log says why")
    })?;
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    Ok((status, [(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, POLICY)], text).into_response())
}

#[derive(Debug, Template)]
#[template(path = "error.html")]
pub(crate) struct PageError {
    status: StatusCode,
    title: String,
    detail: String,
}

impl PageError {
    pub(crate) fn new(status: StatusCode, title: &str, detail: impl Into<String>) -> Self {
        Self { status, title: title.to_owned(), detail: detail.into() }
    }

    pub(crate) fn not_found() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "there is nothing here",
            "the address may be misspelt, or retention has removed what it named",
        )
    }

    /// A form that was made for somebody else, or for a session that is over.
    pub(crate) fn stale_form() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "nothing was done",
            "this form is not one of ours, or its session is over: load the page again",
        )
    }

    pub(crate) fn looks_only() -> Self {
        Self::new(StatusCode::FORBIDDEN, "this is for the operator", "log in with the operator's token to act")
    }
}

/// What stands behind the `?` of a page, without the fields that a form left empty.
#[derive(Debug)]
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, PageError> {
        let query = format!("/?{}", given(parts.uri.query().unwrap_or_default()));
        let query =
            query.parse().map_err(|_error| PageError::new(StatusCode::BAD_REQUEST, UNCLEAR, "too much is asked"))?;
        Ok(Self(Query::try_from_uri(&query)?.0))
    }
}

/// The fields of a query that say something.
fn given(query: &str) -> String {
    let mut given = form_urlencoded::Serializer::new(String::new());
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let value = value.trim();
        if !value.is_empty() {
            given.append_pair(&name, value);
        }
    }
    given.finish()
}

impl From<QueryError> for PageError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Bad(detail) => Self::new(StatusCode::BAD_REQUEST, UNCLEAR, detail),
            QueryError::Missing(detail) => Self { detail, ..Self::not_found() },
            QueryError::Conflict(detail) => {
                Self::new(StatusCode::CONFLICT, "this contradicts what happened before", detail)
            }
            QueryError::Store(error) => {
                tracing::warn!("the dashboard could not read: {}", error.chain());
                let detail = "webhooks are answered 503 meanwhile, and their senders retry; try again in a moment";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "the database does not answer", detail)
            }
        }
    }
}

impl From<oncebox::gateway::store::StoreError> for PageError {
    fn from(error: oncebox::gateway::store::StoreError) -> Self {
        QueryError::from(error).into()
    }
}

impl From<QueryRejection> for PageError {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(StatusCode::BAD_REQUEST, UNCLEAR, rejection.body_text())
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        // An error page holds two texts; one that fails is answered by its status alone.
        page_with(self.status, &self).unwrap_or_else(|error| error.status.into_response())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_fields_are_not_given() {
        for (query, expected) in
            [("source=&type=++&text=+a+b+", "text=a+b"), ("source=a%26b", "source=a%26b"), ("", "")]
        {
            assert_eq!(given(query), expected, "{query}");
        }
    }
}
