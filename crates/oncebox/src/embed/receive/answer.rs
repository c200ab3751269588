//! What goes back to the sender. A success exists only behind a commit.

use http::header::{ALLOW, CACHE_CONTROL, RETRY_AFTER};
use http::{HeaderValue, Method, StatusCode};

use oncebox_verify::{Rejection, Reply, Step};

/// The answer to a request. Send it as it is: it says no more than what is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the sender waits for it"]
pub struct Answer {
    outcome: Outcome,
    reply: Reply,
}

/// What an answer stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The work of at least one event was committed.
    Fresh,
    /// Everything was here before.
    Duplicate,
    /// A handshake: there was no event.
    Handshake,
    /// Not verified, or of the wrong form; nothing was done.
    Refused,
    /// Verified, but nobody can say which event it is, or the work will never succeed; it was not done.
    Unprocessable,
    /// Not known to be committed: the sender's retry settles it.
    Unavailable,
}

impl Answer {
    /// What it stands for.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The status code.
    pub fn status(&self) -> StatusCode {
        self.reply.status
    }

    /// Status, headers and body, for whatever speaks HTTP.
    pub fn into_reply(self) -> Reply {
        self.reply
    }

    /// After a commit: what the provider wants to hear, else our own word.
    pub(super) fn committed(outcome: Outcome, reply: Option<Reply>) -> Self {
        let word = if outcome == Outcome::Fresh { "accepted" } else { "duplicate" };
        let ours = || reply_with(StatusCode::OK, "application/json", format!(r#"{{"status":"{word}"}}"#));
        Self { outcome, reply: reply.unwrap_or_else(ours) }
    }

    pub(super) fn handshake(reply: Reply) -> Self {
        Self { outcome: Outcome::Handshake, reply }
    }

    /// Every verification failure, whatever the cause: the same bytes.
    pub(super) fn unauthorized() -> Self {
        Self::refusal(StatusCode::UNAUTHORIZED, "unauthorized", "the request could not be verified")
    }

    pub(super) fn refused(rejection: &Rejection, methods: &[Method]) -> Self {
        if rejection.step != Step::Method {
            return Self::unauthorized();
        }
        let answer =
            Self::refusal(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "this URL answers other methods");
        let allow = methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
        answer.with(ALLOW, HeaderValue::try_from(allow).ok())
    }

    pub(crate) fn too_large() -> Self {
        Self::refusal(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "the body is larger than this source allows")
    }

    /// A body that ended early or never came.
    #[cfg(feature = "axum")]
    pub(crate) fn broken_body() -> Self {
        Self::refusal(StatusCode::BAD_REQUEST, "bad-request", "the body could not be read")
    }

    /// We verify the bytes as sent.
    #[cfg(feature = "axum")]
    pub(crate) fn content_encoding() -> Self {
        let title = "send the body without content encoding";
        Self::refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content-encoding", title)
    }

    pub(super) fn unprocessable() -> Self {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Self::problem(Outcome::Unprocessable, status, "unprocessable", "the event cannot be processed")
    }

    pub(super) fn unavailable() -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let answer = Self::problem(Outcome::Unavailable, status, "unavailable", "temporarily unavailable");
        answer.with(RETRY_AFTER, Some(HeaderValue::from_static("1")))
    }

    fn refusal(status: StatusCode, name: &str, title: &str) -> Self {
        Self::problem(Outcome::Refused, status, name, title)
    }

    fn problem(outcome: Outcome, status: StatusCode, name: &str, title: &str) -> Self {
        let code = status.as_u16();
        let body = format!(r#"{{"type":"urn:oncebox:problem:{name}","title":"{title}","status":{code}}}"#);
        Self { outcome, reply: reply_with(status, "application/problem+json", body) }
    }

    fn with(mut self, name: http::HeaderName, value: Option<HeaderValue>) -> Self {
        self.reply.headers.extend(value.map(|value| (name, value)));
        self
    }
}

fn reply_with(status: StatusCode, content_type: &'static str, body: String) -> Reply {
    let headers = vec![(CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    Reply { status, content_type, headers, body: body.into() }
}
