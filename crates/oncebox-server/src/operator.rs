//! How an operator's command gets its answers: from the admin API of the running server, or from the same API over the
//! database itself when no server runs. A command need not know which it was.

mod local;
mod place;
mod tail;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::Router;
use bytes::Bytes;
use futures_util::stream;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use oncebox::gateway::outgoing::{Call, CallError, Opened, Outgoing};
use oncebox::gateway::store::{ActionKind, Store};
use oncebox_verify::Secret;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::arming::ArmingView;
use crate::cli::operator::OperatorArgs;
use crate::config::Reach;
use crate::http::own_calls::{self, call, credential};
use crate::query::QueryError;
use crate::query::actions::ActionRequest;
use crate::query::deliveries::PauseRequest;
use crate::query::erase::{EraseRequest, Erased};
use crate::query::retention::{RetentionRequest, RetentionView, RunView};
use crate::query::tail::TailQuery;
use crate::query::view::{ActionView, Done, EventDetailView, Items, MessageDetailView, StatsView};
use crate::usage::{contradiction, wrong_usage};
use crate::{database, terminal};
use place::{Place, look, reach};
pub(crate) use place::{database_of, is_found_here};
use tail::{Following, Live};

const ANSWER_WAIT: Duration = Duration::from_secs(60);
/// For what has no end that could be known: an action on many, a stream.
const LONG_WAIT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

type Body = UnsyncBoxBody<Bytes, anyhow::Error>;

/// A client of the admin API.
#[derive(Debug)]
pub(crate) struct Operator {
    api: Api,
    base: Url,
}

#[derive(Debug)]
enum Api {
    /// In a running server.
    Server(Outgoing, Option<Secret>),
    /// In this process, over the database.
    Local { router: Router, has_config: bool },
}

/// Whether somebody is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    Answers,
    Silent,
}

impl Operator {
    /// Decides: `--database` alone goes straight there; else the server, and its database when nothing listens.
    pub(crate) async fn open(args: &OperatorArgs) -> anyhow::Result<Self> {
        Self::open_with(args, false).await
    }

    /// The same; with `sources` the config is read for what it says about them, whatever `--database` names.
    pub(crate) async fn open_with(args: &OperatorArgs, sources: bool) -> anyhow::Result<Self> {
        if let (Some(url), None) = (&args.database, &args.admin_url) {
            let reach = if sources { reach(args)? } else { None };
            return Self::local(look(&database::config_of(url)).await?, reach).await;
        }
        let place = Place::find(args)?;
        let server = Self::server(&place.admin_url, place.token)?;
        match (server.probe().await?, place.database) {
            (Probe::Answers, _) => Ok(server),
            (Probe::Silent, Some(Ok(store))) => Self::local(look(&store).await?, place.reach).await,
            (Probe::Silent, Some(Err(problems))) => {
                terminal::note(format!("nothing listens at {}, and its database is not known:", place.admin_url));
                Err(problems.into())
            }
            (Probe::Silent, None) => {
                bail!("nothing listens at {}; start the server, or name its database with --database", place.admin_url)
            }
        }
    }

    fn server(admin_url: &str, token: Option<Secret>) -> anyhow::Result<Self> {
        let url = Url::parse(&format!("{}/", admin_url.trim_end_matches('/')));
        let base = url.ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let base = base.ok_or_else(|| wrong_usage("--admin-url: write a URL such as http://127.0.0.1:8081"))?;
        Ok(Self { api: Api::Server(own_calls::client()?, token), base })
    }

    async fn local(store: Store, reach: Option<Reach>) -> anyhow::Result<Self> {
        let (has_config, router) = (reach.is_some(), local::router(store, reach).await?);
        Ok(Self { api: Api::Local { router, has_config }, base: Url::parse("http://localhost/")? })
    }

    pub(crate) fn is_server(&self) -> bool {
        matches!(self.api, Api::Server(..))
    }

    /// One event by its key or `source/event_id`.
    pub(crate) async fn event(&self, name: &str) -> anyhow::Result<Option<EventDetailView>> {
        self.get(&["events", name]).await
    }

    pub(crate) async fn message(&self, id: &str) -> anyhow::Result<Option<MessageDetailView>> {
        self.get(&["outbox", id]).await
    }

    /// How far an action came.
    pub(crate) async fn action(&self, id: &str) -> anyhow::Result<Option<ActionView>> {
        self.get(&["actions", id]).await
    }

    pub(crate) async fn stats(&self) -> anyhow::Result<StatsView> {
        self.get(&["stats"]).await?.context("the server does not know its numbers")
    }

    pub(crate) async fn retention(&self) -> anyhow::Result<RetentionView> {
        self.get(&["retention"]).await?.context("the server does not know of retention")
    }

    /// Counts, or acts; however long it takes.
    pub(crate) async fn act(&self, kind: ActionKind, request: &ActionRequest) -> anyhow::Result<Done> {
        let done = self.post(&[kind.as_str()], LONG_WAIT, request).await?;
        done.ok_or_else(|| match &request.filter.message {
            Some(id) => anyhow::anyhow!("there is no message {id}"),
            None => no_event(request.filter.key.as_deref()),
        })
    }

    /// Counts, or erases; however long it takes.
    pub(crate) async fn erase(&self, request: &EraseRequest) -> anyhow::Result<Erased> {
        let erased = self.post(&["erase"], LONG_WAIT, request).await?;
        erased.ok_or_else(|| no_event(request.filter.key.as_deref()))
    }

    /// Pauses or resumes a handler; false where nobody knows it.
    pub(crate) async fn pause(&self, handler: &str, paused: bool) -> anyhow::Result<bool> {
        let verb = if paused { "pause" } else { "resume" };
        let body = PauseRequest { who: Some(name_of_caller()) };
        let done: Option<serde_json::Value> = self.post(&["handlers", handler, verb], ANSWER_WAIT, &body).await?;
        Ok(done.is_some())
    }

    /// Removes now what is over; however long it takes.
    pub(crate) async fn run_retention(&self) -> anyhow::Result<RunView> {
        let body = RetentionRequest { who: Some(name_of_caller()) };
        self.post(&["retention", "run"], LONG_WAIT, &body).await?.context("the server does not know of retention")
    }

    /// Says that the time is right; false when nothing was stopped.
    pub(crate) async fn confirm_time(&self) -> anyhow::Result<bool> {
        let body = RetentionRequest { who: Some(name_of_caller()) };
        let done: Option<serde_json::Value> = self.post(&["retention", "confirm"], ANSWER_WAIT, &body).await?;
        Ok(done.is_some_and(|done| done["confirmed"] == true))
    }

    /// Lets the next handshake of a source bring its secret; with patience, waits for it.
    pub(crate) async fn arm(&self, source: &str, patience: Option<Duration>) -> anyhow::Result<ArmingView> {
        let mut url = self.url(&["sources", source, "arm"])?;
        if let Some(patience) = patience {
            url.query_pairs_mut().append_pair("wait", &patience.as_secs().to_string());
        }
        if let Api::Local { has_config: false, .. } = self.api {
            if patience.is_some() {
                return Err(wrong_usage("--wait at a database needs the server's config too: name it with --config"));
            }
            eprintln!(
                "note: without a config nobody can check that there is a source {source:?} whose secret arrives, and a \
                 store.secret_key to keep it with; name it with --config"
            );
        }
        let call = call(Method::POST, url, ANSWER_WAIT + patience.unwrap_or_default())?;
        self.answer(call).await?.ok_or_else(|| self.no_source(source))
    }

    pub(crate) async fn disarm(&self, source: &str) -> anyhow::Result<ArmingView> {
        let call = call(Method::POST, self.url(&["sources", source, "disarm"])?, ANSWER_WAIT)?;
        self.answer(call).await?.ok_or_else(|| self.no_source(source))
    }

    pub(crate) async fn tail(self, query: TailQuery) -> anyhow::Result<Following> {
        Following::open(self, query).await
    }

    /// Opens the stream of what arrives from now on, or after the event that was seen last.
    async fn stream(&self, query: &TailQuery, last: Option<&str>) -> anyhow::Result<Live> {
        let mut call = call(Method::GET, self.url_with("tail", query)?, LONG_WAIT)?;
        if let Some(last) = last {
            call.headers.insert("last-event-id", HeaderValue::from_str(last)?);
        }
        let response = self.send(call).await?;
        if response.status() == StatusCode::OK {
            return Ok(Live::new(response.into_body()));
        }
        let opened: Option<serde_json::Value> = self.read(response).await?;
        bail!("{} answers, but not with a stream: {}", self.base, opened.unwrap_or_default())
    }

    fn no_source(&self, source: &str) -> anyhow::Error {
        let place = if self.is_server() { "server" } else { "config" };
        wrong_usage(format!("the {place} has no source {source:?}"))
    }

    /// A page of a list, such as `events` or `dead-letters`, with the query's own names as parameters.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        name: &str,
        query: &impl Serialize,
    ) -> anyhow::Result<Items<T>> {
        let call = call(Method::GET, self.url_with(name, query)?, ANSWER_WAIT)?;
        self.answer(call).await?.context("the server does not know this list")
    }

    /// The answer; none for 404.
    async fn get<T: DeserializeOwned>(&self, parts: &[&str]) -> anyhow::Result<Option<T>> {
        self.answer(call(Method::GET, self.url(parts)?, ANSWER_WAIT)?).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        parts: &[&str],
        deadline: Duration,
        body: &impl Serialize,
    ) -> anyhow::Result<Option<T>> {
        let mut call = call(Method::POST, self.url(parts)?, deadline)?;
        call.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        call.body = serde_json::to_vec(body)?.into();
        self.answer(call).await
    }

    async fn answer<T: DeserializeOwned>(&self, call: Call) -> anyhow::Result<Option<T>> {
        self.read(self.send(call).await?).await
    }

    /// Asks whether somebody is there, whatever the answer.
    async fn probe(&self) -> anyhow::Result<Probe> {
        let Api::Server(client, _) = &self.api else { return Ok(Probe::Answers) };
        Ok(match client.open(call(Method::GET, self.base.clone(), ANSWER_WAIT)?).await {
            Err(CallError::Unreachable | CallError::Unresolved) => Probe::Silent,
            _ => Probe::Answers,
        })
    }

    async fn send(&self, mut call: Call) -> anyhow::Result<Response<Body>> {
        match &self.api {
            Api::Server(client, token) => {
                if let Some(token) = token {
                    let value = format!("Bearer {}", String::from_utf8_lossy(token.expose()));
                    call.headers.insert(AUTHORIZATION, credential(&value)?);
                }
                Ok(streamed(client.open(call).await.with_context(|| self.unanswered())?))
            }
            Api::Local { router, .. } => {
                let mut request = Request::new(axum::body::Body::from(call.body));
                (*request.method_mut(), *request.uri_mut()) = (call.method, call.target.uri().clone());
                *request.headers_mut() = call.headers;
                let Ok(response) = TowerToHyperService::new(router.clone()).call(request).await;
                Ok(response.map(|body| body.map_err(anyhow::Error::from).boxed_unsync()))
            }
        }
    }

    async fn read<T: DeserializeOwned>(&self, mut response: Response<Body>) -> anyhow::Result<Option<T>> {
        let (base, status) = (&self.base, response.status());
        if let Some(refused) = response.extensions_mut().remove::<Arc<QueryError>>() {
            return Err(refuse(&refused));
        }
        let body = response.into_body().collect().await.with_context(|| self.unanswered())?.to_bytes();
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

    fn url_with(&self, name: &str, query: &impl Serialize) -> anyhow::Result<Url> {
        let mut url = self.url(&[name])?;
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
}

/// An answer of a server, its body as it comes.
fn streamed(mut opened: Opened) -> Response<Body> {
    let (status, headers) = (opened.status, std::mem::take(&mut opened.headers));
    let chunks = stream::unfold(opened, async |mut opened| {
        let chunk = opened.chunk().await.transpose()?;
        Some((chunk.map(Frame::data).map_err(anyhow::Error::from), opened))
    });
    let mut response = Response::new(StreamBody::new(chunks).boxed_unsync());
    (*response.status_mut(), *response.headers_mut()) = (status, headers);
    response
}

fn no_event(name: Option<&str>) -> anyhow::Error {
    anyhow::anyhow!("there is no event {}", name.unwrap_or("of this name"))
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

/// A refusal as a command reports it.
pub(crate) fn refuse(error: &QueryError) -> anyhow::Error {
    match error {
        QueryError::Bad(sentence) => wrong_usage(sentence),
        QueryError::Missing(sentence) => anyhow::anyhow!(sentence.clone()),
        QueryError::Conflict(sentence) => contradiction(sentence),
        QueryError::Store(error) => anyhow::anyhow!(error.chain()).context("the database does not answer"),
    }
}

/// Who the audit log names.
pub(crate) fn name_of_caller() -> String {
    std::env::var("USER").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "somebody".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(admin_url: &str, name: &str, expected: &str) {
        let operator = Operator::server(admin_url, None).expect("a client");
        assert_eq!(operator.url(&["events", name]).expect("a URL").as_str(), expected);
    }

    #[test]
    fn a_name_is_one_segment_whatever_it_holds() {
        check("http://a:1", "k", "http://a:1/api/v1/events/k");
        check("http://a:1/", "stripe/evt 1?x", "http://a:1/api/v1/events/stripe%2Fevt%201%3Fx");
        check("https://a/inbox", "k", "https://a/inbox/api/v1/events/k");
        assert!(Operator::server("127.0.0.1:8081", None).is_err());
    }

    #[test]
    fn problems_say_their_detail() {
        assert_eq!(says(br#"{"title":"t","detail":"d"}"#).as_deref(), Some("d"));
        assert_eq!(says(br#"{"title":"t"}"#).as_deref(), Some("t"));
        assert_eq!(says(b"<html>"), None);
    }
}
