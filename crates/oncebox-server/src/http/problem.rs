//! Errors as `application/problem+json`: the only place that turns one into a status.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;

/// A refusal with a stable name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    status: StatusCode,
    name: &'static str,
    title: &'static str,
    detail: Option<String>,
    retry_after: Option<u32>,
    allow: Option<String>,
    close: bool,
}

impl Problem {
    const fn new(status: StatusCode, name: &'static str, title: &'static str) -> Self {
        Self { status, name, title, detail: None, retry_after: None, allow: None, close: false }
    }

    /// Every verification failure, whatever the cause: the same bytes.
    pub(crate) const fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "the request could not be verified")
    }

    pub(crate) const fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", "there is nothing here")
    }

    pub(crate) fn method(allow: String) -> Self {
        let problem = Self::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "this URL answers other methods");
        // Without a list of ours, the router adds the methods that it knows.
        Self { allow: Some(allow).filter(|allow| !allow.is_empty()), ..problem }
    }

    /// The body is over the source's limit.
    pub(crate) const fn too_large() -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "the body is larger than this source allows").closing()
    }

    /// A content encoding: we verify the bytes as sent.
    pub(crate) const fn content_encoding() -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content-encoding", "send the body without content encoding")
            .closing()
    }

    pub(crate) const fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "the body did not arrive in time").closing()
    }

    pub(crate) const fn target_too_long() -> Self {
        Self::new(StatusCode::URI_TOO_LONG, "target-too-long", "the request target is too long").closing()
    }

    pub(crate) const fn head_too_large() -> Self {
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        Self::new(status, "head-too-large", "the request has too many headers, or too long ones").closing()
    }

    /// Something of the request's form is wrong.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::BAD_REQUEST, "bad-request", "the request cannot be understood");
        Self { detail: Some(detail.into()), ..problem }
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::FORBIDDEN, "forbidden", "this is not allowed");
        Self { detail: Some(detail.into()), ..problem }
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::CONFLICT, "conflict", "this contradicts what happened before");
        Self { detail: Some(detail.into()), ..problem }
    }

    /// Somebody else has the delivery by now.
    pub(crate) const fn lease_lost() -> Self {
        Self::new(StatusCode::CONFLICT, "lease-lost", "this claim is not the current one any more")
    }

    /// Too many wrong tries from one address.
    pub(crate) const fn too_often(retry_after: u32) -> Self {
        let mut problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "too-often", "too many tries; wait before the next");
        problem.retry_after = Some(retry_after);
        problem
    }

    /// Nothing can be promised now: come again.
    pub(crate) const fn unavailable(title: &'static str) -> Self {
        let mut problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", title);
        problem.retry_after = Some(1);
        problem
    }

    /// With more words for whoever looks into it.
    pub(crate) fn because(self, detail: Option<String>) -> Self {
        Self { detail, ..self }
    }

    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    /// After how many seconds it is worth another try.
    pub(crate) const fn retry_after(&self) -> Option<u32> {
        self.retry_after
    }

    /// The same problem, with the connection closed after it.
    pub(crate) const fn closing(mut self) -> Self {
        self.close = true;
        self
    }

    fn body(&self) -> String {
        let mut body = serde_json::json!({
            "type": format!("urn:oncebox:problem:{}", self.name),
            "title": self.title,
            "status": self.status.as_u16(),
        });
        if let Some(detail) = &self.detail {
            body["detail"] = detail.as_str().into();
        }
        body.to_string()
    }

    /// The answer as it goes over the wire, the last of its connection: for those that no request was read of.
    pub(crate) fn to_wire(&self) -> String {
        let (body, status) = (self.body(), self.status);
        let retry_after = self.retry_after.map_or_else(String::new, |seconds| format!("retry-after: {seconds}\r\n"));
        format!(
            "HTTP/1.1 {} {}\r\ncontent-type: application/problem+json\r\ncache-control: no-store\r\n{retry_after}\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            status.as_u16(),
            status.canonical_reason().unwrap_or_default(),
            body.len()
        )
    }

    pub(crate) fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.body())));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if let Some(allow) = self.allow.and_then(|allow| HeaderValue::try_from(allow).ok()) {
            headers.insert(ALLOW, allow);
        }
        if self.close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
