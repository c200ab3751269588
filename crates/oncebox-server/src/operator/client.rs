//! A client of the admin API.

use std::time::Duration;

use anyhow::{Context as _, bail};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};
use oncebox::gateway::outgoing::{Call, CallError, Opened, Outgoing};
use oncebox_verify::Secret;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use url::Url;

use super::live::Live;
use crate::arming::ArmingView;
use crate::http::own_calls::{self, call, credential};
use crate::query::actions::ActionRequest;
use crate::query::deliveries::PauseRequest;
use crate::query::erase::{EraseRequest, Erased};
use crate::query::retention::{RetentionRequest, RetentionView, RunView};
use crate::query::tail::TailQuery;
use crate::query::view::{ActionView, Done, EventDetailView, Items, MessageDetailView, StatsView};
use crate::usage::{contradiction, wrong_usage};

const ANSWER_WAIT: Duration = Duration::from_secs(60);
/// For what has no end that could be known: an action on many, a stream.
const LONG_WAIT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Talks to a running server.
#[derive(Debug)]
pub(crate) struct Client {
    client: Outgoing,
    base: Url,
    token: Option<Secret>,
}

/// Whether somebody is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// Somebody answers.
    Answers,
    /// Nobody listens.
    Silent,
}

impl Client {
    /// A client of the server at this URL.
    pub(super) fn new(admin_url: &str, token: Option<&Secret>) -> anyhow::Result<Self> {
        let url = Url::parse(&format!("{}/", admin_url.trim_end_matches('/')));
        let base = url.ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let base = base.ok_or_else(|| wrong_usage("--admin-url: write a URL such as http://127.0.0.1:8081"))?;
        Ok(Self { client: own_calls::client()?, base, token: token.cloned() })
    }

    /// Asks whether somebody is there, whatever the answer.
    pub(super) async fn probe(&self) -> anyhow::Result<Probe> {
        let call = call(Method::GET, self.base.clone(), ANSWER_WAIT)?;
        Ok(match self.client.open(call).await {
            Err(CallError::Unreachable | CallError::Unresolved) => Probe::Silent,
            _ => Probe::Answers,
        })
    }

    /// A page of a list, such as `events` or `dead-letters`, with the query's own names as parameters.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        name: &str,
        query: &impl Serialize,
    ) -> anyhow::Result<Items<T>> {
        let url = self.url_with(&[name], query)?;
        self.get(url).await?.context("the server does not know this list")
    }

    /// Counts, or acts; however long it takes.
    pub(super) async fn act(&self, kind: &str, request: &ActionRequest) -> anyhow::Result<Option<Done>> {
        self.answer(post(self.url(&[kind])?, LONG_WAIT, request)?).await
    }

    /// Counts, or erases; however long it takes.
    pub(super) async fn erase(&self, request: &EraseRequest) -> anyhow::Result<Option<Erased>> {
        self.answer(post(self.url(&["erase"])?, LONG_WAIT, request)?).await
    }

    /// One outbox message.
    pub(super) async fn message(&self, id: &str) -> anyhow::Result<Option<MessageDetailView>> {
        self.get(self.url(&["outbox", id])?).await
    }

    /// How far an action came.
    pub(super) async fn action(&self, id: &str) -> anyhow::Result<Option<ActionView>> {
        self.get(self.url(&["actions", id])?).await
    }

    /// Pauses or resumes a handler; false where the server does not know it.
    pub(super) async fn pause(&self, handler: &str, paused: bool, who: String) -> anyhow::Result<bool> {
        let url = self.url(&["handlers", handler, if paused { "pause" } else { "resume" }])?;
        let body = PauseRequest { who: Some(who) };
        let done: Option<serde_json::Value> = self.answer(post(url, ANSWER_WAIT, &body)?).await?;
        Ok(done.is_some())
    }

    /// Opens the stream of what arrives from now on, or after the event that was seen last.
    pub(super) async fn tail(&self, query: &TailQuery, last: Option<&str>) -> anyhow::Result<Live> {
        let mut call = call(Method::GET, self.url_with(&["tail"], query)?, LONG_WAIT)?;
        if let Some(last) = last {
            call.headers.insert("last-event-id", HeaderValue::from_str(last)?);
        }
        let response = self.send(call).await?;
        if response.status == StatusCode::OK {
            return Ok(Live::new(response));
        }
        let opened: Option<serde_json::Value> = self.read(response).await?;
        bail!("{} answers, but not with a stream: {}", self.base, opened.unwrap_or_default())
    }

    /// One event; the name may hold any character.
    pub(super) async fn event(&self, name: &str) -> anyhow::Result<Option<EventDetailView>> {
        self.get(self.url(&["events", name])?).await
    }

    /// What is kept for how long, and what went.
    pub(super) async fn retention(&self) -> anyhow::Result<RetentionView> {
        self.get(self.url(&["retention"])?).await?.context("the server does not know of retention")
    }

    /// Removes now what is over; however long it takes.
    pub(crate) async fn run_retention(&self, who: String) -> anyhow::Result<RunView> {
        let body = RetentionRequest { who: Some(who) };
        let call = post(self.url(&["retention", "run"])?, LONG_WAIT, &body)?;
        self.answer(call).await?.context("the server does not know of retention")
    }

    /// Says that the time is right; false when nothing was stopped.
    pub(super) async fn confirm_time(&self, who: String) -> anyhow::Result<bool> {
        let body = RetentionRequest { who: Some(who) };
        let call = post(self.url(&["retention", "confirm"])?, ANSWER_WAIT, &body)?;
        let done: Option<serde_json::Value> = self.answer(call).await?;
        Ok(done.is_some_and(|done| done["confirmed"] == true))
    }

    /// The numbers of `status`.
    pub(super) async fn stats(&self) -> anyhow::Result<StatsView> {
        self.get(self.url(&["stats"])?).await?.context("the server does not know its numbers")
    }

    /// Lets the next handshake of a source bring its secret; with patience, waits for it.
    pub(super) async fn arm(&self, source: &str, patience: Option<Duration>) -> anyhow::Result<ArmingView> {
        let mut url = self.url(&["sources", source, "arm"])?;
        if let Some(patience) = patience {
            url.query_pairs_mut().append_pair("wait", &patience.as_secs().to_string());
        }
        let call = call(Method::POST, url, ANSWER_WAIT + patience.unwrap_or_default())?;
        let armed: Option<ArmingView> = self.answer(call).await?;
        armed.ok_or_else(|| wrong_usage(format!("the server has no source {source:?}")))
    }

    /// Takes an arming back.
    pub(super) async fn disarm(&self, source: &str) -> anyhow::Result<ArmingView> {
        let call = call(Method::POST, self.url(&["sources", source, "disarm"])?, ANSWER_WAIT)?;
        let disarmed: Option<ArmingView> = self.answer(call).await?;
        disarmed.ok_or_else(|| wrong_usage(format!("the server has no source {source:?}")))
    }

    fn unanswered(&self) -> String {
        format!("no answer from {}", self.base)
    }

    fn url(&self, parts: &[&str]) -> anyhow::Result<Url> {
        let mut url = self.base.clone();
        match url.path_segments_mut() {
            Ok(mut segments) => segments.pop_if_empty().extend(["api", "v1"]).extend(parts),
            Err(()) => bail!("the admin URL cannot have a path"),
        };
        Ok(url)
    }

    fn url_with(&self, parts: &[&str], query: &impl Serialize) -> anyhow::Result<Url> {
        let mut url = self.url(parts)?;
        let serde_json::Value::Object(pairs) = serde_json::to_value(query)? else { return Ok(url) };
        for (name, value) in pairs {
            match value {
                serde_json::Value::Null => {}
                serde_json::Value::String(text) => drop(url.query_pairs_mut().append_pair(&name, &text)),
                other => drop(url.query_pairs_mut().append_pair(&name, &other.to_string())),
            }
        }
        Ok(url)
    }

    /// The answer; none for 404.
    async fn get<T: DeserializeOwned>(&self, url: Url) -> anyhow::Result<Option<T>> {
        self.answer(call(Method::GET, url, ANSWER_WAIT)?).await
    }

    async fn answer<T: DeserializeOwned>(&self, call: Call) -> anyhow::Result<Option<T>> {
        self.read(self.send(call).await?).await
    }

    async fn send(&self, mut call: Call) -> anyhow::Result<Opened> {
        if let Some(token) = &self.token {
            let value = format!("Bearer {}", String::from_utf8_lossy(token.expose()));
            call.headers.insert(AUTHORIZATION, credential(&value)?);
        }
        self.client.open(call).await.with_context(|| self.unanswered())
    }

    async fn read<T: DeserializeOwned>(&self, mut response: Opened) -> anyhow::Result<Option<T>> {
        let (base, status) = (&self.base, response.status);
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.with_context(|| self.unanswered())? {
            body.extend_from_slice(&chunk);
        }
        match status {
            StatusCode::OK => match serde_json::from_slice(&body) {
                Ok(view) => Ok(Some(view)),
                Err(_) => {
                    bail!("{base} answers, but not as an inbox of this version does; name the server with --admin-url")
                }
            },
            StatusCode::NOT_FOUND if says(&body).is_some() => Ok(None),
            StatusCode::UNAUTHORIZED => {
                bail!("{base} wants the operator's token: set ONCEBOX_ADMIN_TOKEN, or name the config with --config")
            }
            StatusCode::CONFLICT => Err(contradiction(says(&body).unwrap_or_else(|| status.to_string()))),
            StatusCode::BAD_REQUEST => Err(wrong_usage(says(&body).unwrap_or_else(|| status.to_string()))),
            _ => bail!("{base} answers {status}: {}", says(&body).unwrap_or_else(|| "this is no inbox".to_owned())),
        }
    }
}

fn post(url: Url, deadline: Duration, body: &impl Serialize) -> anyhow::Result<Call> {
    let mut call = call(Method::POST, url, deadline)?;
    call.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    call.body = serde_json::to_vec(body)?.into();
    Ok(call)
}

/// What a problem says, the detail first.
fn says(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Problem {
        title: String,
        detail: Option<String>,
    }
    let problem: Problem = serde_json::from_slice(body).ok()?;
    Some(problem.detail.unwrap_or(problem.title))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(admin_url: &str, name: &str, expected: &str) {
        let client = Client::new(admin_url, None).expect("a client");
        assert_eq!(client.url(&["events", name]).expect("a URL").as_str(), expected);
    }

    #[test]
    fn a_name_is_one_segment_whatever_it_holds() {
        check("http://a:1", "k", "http://a:1/api/v1/events/k");
        check("http://a:1/", "stripe/evt 1?x", "http://a:1/api/v1/events/stripe%2Fevt%201%3Fx");
        check("https://a/inbox", "k", "https://a/inbox/api/v1/events/k");
        assert!(Client::new("127.0.0.1:8081", None).is_err());
    }

    #[test]
    fn problems_say_their_detail() {
        assert_eq!(says(br#"{"title":"t","detail":"d"}"#).as_deref(), Some("d"));
        assert_eq!(says(br#"{"title":"t"}"#).as_deref(), Some("t"));
        assert_eq!(says(b"<html>"), None);
    }
}
