//! The public listener: `/in/{source}`, `/in/{source}/{token}`, `/healthz` and `/readyz`, nothing else.
//!
//! Fixed order: route, address, method, encoding, declared size, what the head tells of the signature, body, signature
//! over the raw bytes, time window, identity, store, answer. Whoever has proved nothing takes as little as possible: no byte of a body that cannot
//! be good is read, and a place in flight is taken once the body is there.

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod budget;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_ENCODING, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use metrics::{Histogram, counter, histogram};
use oncebox::gateway::ingest::{Answer, Context, Ingest};
use oncebox::gateway::shutdown::Shutdown;
use oncebox::gateway::store::Store;
use oncebox::gateway::trace::{TARGET, Traceparent};
use oncebox_verify::{HeadVerdict, Reason, Rejection, Source, Step};
use tokio::sync::Semaphore;
use tracing::Instrument as _;

use crate::arming::arrived_secrets::ArrivedSecrets;
use crate::http::TARGET_BYTES_MAX;
use crate::http::client;
use crate::http::listener::{Peer, ResponseFuture};
use crate::http::problem::Problem;
use crate::http::ready::Ready;
use crate::observe::rejections::{Refused, Rejections};
use crate::observe::spans;
use crate::observe::traffic::Traffic;
use crate::public::body::BodyError;
use crate::public::budget::Budget;
use crate::setup::Setup;

/// Longest body of a handshake that nobody signed: all known ones have a few hundred bytes.
const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;

/// How large the future of a request may be: it is allocated and moved for each of them.
const FUTURE_BYTES_MAX: usize = 4 * 1024;

/// The public listener's service. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Public(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    setup: Arc<ArcSwap<Setup>>,
    ingest: Ingest,
    in_flight: Semaphore,
    budget: Budget,
    trusted_proxies: usize,
    rejections: Rejections,
    traffic: Traffic,
    arrived: ArrivedSecrets,
    ready: Ready,
    draining: Shutdown,
    ack_seconds: Histogram,
}

/// How much is held at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    pub(crate) in_flight: usize,
    pub(crate) in_flight_bytes: usize,
    /// Bodies that are not there at once.
    pub(crate) slow_bodies: usize,
    /// Hops of `X-Forwarded-For` to believe, from the right.
    pub(crate) trusted_proxies: usize,
}

impl Public {
    pub(crate) fn new(
        (store, setup): (Store, Arc<ArcSwap<Setup>>),
        ingest: Ingest,
        caps: Caps,
        (rejections, traffic): (Rejections, Traffic),
        arrived: ArrivedSecrets,
        draining: Shutdown,
    ) -> Self {
        Self(Arc::new(Inner {
            setup,
            ingest,
            in_flight: Semaphore::new(caps.in_flight),
            budget: Budget::new(caps.in_flight_bytes, caps.slow_bodies),
            trusted_proxies: caps.trusted_proxies,
            rejections,
            traffic,
            arrived,
            ready: Ready::new(store, draining.clone()),
            draining,
            ack_seconds: histogram!("oncebox_ack_seconds"),
        }))
    }

    pub(crate) fn rejections(&self) -> Rejections {
        self.0.rejections.clone()
    }

    pub(crate) fn for_peer(&self, peer: Peer) -> PublicConnection {
        PublicConnection { inner: self.0.clone(), peer }
    }
}

/// One connection's service.
#[derive(Clone, Debug)]
pub(crate) struct PublicConnection {
    inner: Arc<Inner>,
    peer: Peer,
}

impl hyper::service::Service<Request<Incoming>> for PublicConnection {
    type Response = Response<Full<Bytes>>;
    type Error = std::convert::Infallible;
    type Future = ResponseFuture<Full<Bytes>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (inner, peer) = (self.inner.clone(), self.peer.clone());
        let span = span(&request);
        let answering = async move {
            // Content-Length beside Transfer-Encoding was dropped by the parser: never read a second request then.
            let close = request.headers().contains_key(TRANSFER_ENCODING);
            let mut response = inner.answer(&peer, request).await;
            if close {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            tracing::Span::current().record("http.response.status_code", response.status().as_u16());
            Ok(response)
        };
        debug_assert!(size_of_val(&answering) <= FUTURE_BYTES_MAX, "{} bytes", size_of_val(&answering));
        Box::pin(answering.instrument(span))
    }
}

/// A request whose source is known.
struct Call<'a> {
    source: &'a Arc<Source>,
    setup: &'a Setup,
    path_token: Option<String>,
    /// Whose share it takes: the client, or the proxy where the client is not known.
    sender: IpAddr,
    /// Where it comes from, if that is known.
    remote: Option<IpAddr>,
}

/// Why a request goes no further.
enum Stopped {
    /// Refused for good.
    Rejected(Rejection),
    /// The same, with a body that nobody has read: the connection ends with it.
    Unread(Rejection),
    /// Not now.
    Away(Problem),
}

impl Stopped {
    fn by_body(reason: Reason) -> Self {
        Self::Rejected(Rejection { step: Step::Body, reason, off_by_seconds: None })
    }
}

impl Inner {
    async fn answer(&self, peer: &Peer, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let started = Instant::now();
        match request.uri().path() {
            "/healthz" => return health(request.method()).unwrap_or_else(Problem::into_response),
            // Boxed, as everything that a webhook does not need: the future of a request is made for each of them.
            "/readyz" => {
                return Box::pin(self.ready.answer(request.method())).await.unwrap_or_else(Problem::into_response);
            }
            _ => {}
        }
        let peer = peer.address.ip();
        let remote = client::client(peer, request.headers(), self.trusted_proxies);
        let setup = self.setup.load_full();
        let response = match self.find(&setup, &request, (peer, remote)) {
            Ok(call) => self.answer_call(&call, request, started).await,
            Err(problem) => problem.into_response(),
        };
        self.ack_seconds.record(started.elapsed().as_secs_f64());
        response
    }

    /// The source that a request is for.
    fn find<'a>(
        &self,
        setup: &'a Setup,
        request: &Request<Incoming>,
        (peer, remote): (IpAddr, Option<IpAddr>),
    ) -> Result<Call<'a>, Problem> {
        let sender = remote.unwrap_or(peer);
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        if target.len() > TARGET_BYTES_MAX {
            self.rejections.refused(Refused::LongTarget, None, sender);
            return Err(Problem::target_too_long());
        }
        let Some((name, token)) = route(request.uri().path()) else {
            self.rejections.refused(Refused::UnknownPath, None, sender);
            return Err(Problem::not_found());
        };
        let source = setup.sources.get(name);
        let fits = |source: &&Arc<Source>| token.is_none_or(|token| !token.is_empty() && source.has_path_token());
        let Some(source) = source.filter(fits) else {
            self.rejections.refused(Refused::UnknownSource, Some(name), sender);
            return Err(Problem::not_found());
        };
        tracing::Span::current().record("source", name);
        Ok(Call { source, setup, path_token: token.map(str::to_owned), sender, remote })
    }

    async fn answer_call(
        &self,
        call: &Call<'_>,
        request: Request<Incoming>,
        started: Instant,
    ) -> Response<Full<Bytes>> {
        let trace = Traceparent::of(request.headers());
        let (answered, unread) = match self.receive(call, request).await {
            Ok(answered) => (answered, false),
            Err(Stopped::Away(problem)) => return self.turned_away(call.source.name(), problem).into_response(),
            Err(Stopped::Rejected(rejection)) => (self.refused(call.source, rejection), false),
            Err(Stopped::Unread(rejection)) => (self.refused(call.source, rejection), true),
        };
        if let Answer::Rejected(rejection) = &answered {
            self.rejections.record(call.source.name(), rejection, &client::shown(call.remote));
        }
        if let (Answer::Stored(_), Some(trace)) = (&answered, trace) {
            tracing::Span::current().record("sender.traceparent", tracing::field::display(trace));
        }
        self.traffic.answered(call.source.name(), &answered, started.elapsed());
        let mut response = answer::into_response(answered, || allow(call.source));
        if unread {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    async fn receive(&self, call: &Call<'_>, request: Request<Incoming>) -> Result<Answer, Stopped> {
        let limit = self.check(call, &request)?;
        let (mut judged, incoming) = parted(request);
        // Nobody reads the body of a request that no body can make good.
        let (limit, otherwise) = match self.ingest.judge_head(call.source, &judged, call.path_token.as_deref()) {
            HeadVerdict::ReadOn => (limit, None),
            HeadVerdict::HandshakeOrElse(rejection) => (limit.min(HANDSHAKE_BYTES_MAX), Some(rejection)),
            HeadVerdict::Refused(rejection) if incoming.is_end_stream() => return Err(Stopped::Rejected(rejection)),
            HeadVerdict::Refused(rejection) => return Err(Stopped::Unread(rejection)),
        };
        let mut share = self.budget.share(call.source.name(), call.sender);
        judged.body = body::read(incoming, limit, &mut share).await.map_err(|error| match (error, otherwise) {
            (BodyError::TooLarge, Some(rejection)) => Stopped::Unread(rejection),
            (BodyError::TooLarge, None) => Stopped::by_body(Reason::TooLarge),
            (BodyError::TooSlow, _) => Stopped::by_body(Reason::TooSlow),
            (BodyError::Broken, _) => Stopped::by_body(Reason::BrokenBody),
            (BodyError::NoBudget, _) => {
                Stopped::Away(Problem::unavailable("too many body bytes are in flight").closing())
            }
        })?;
        let Ok(_slot) = self.in_flight.try_acquire() else {
            return Err(Stopped::Away(Problem::unavailable("too many requests are in flight")));
        };
        let context = Context {
            source: call.source,
            path_token: call.path_token.as_deref(),
            remote: client::shown(call.remote).into(),
            routes: &call.setup.routes,
        };
        Ok(match self.ingest.accept(context, judged).await {
            Answer::Secret(brought) => {
                Box::pin(self.arrived.take(call.source, brought, &client::shown(call.remote))).await
            }
            answered => answered,
        })
    }

    /// What can be told before anybody looks for a signature, and the largest body that is read.
    fn check(&self, call: &Call<'_>, request: &Request<Incoming>) -> Result<usize, Stopped> {
        let stop = |step, reason| Err(Stopped::Rejected(Rejection { step, reason, off_by_seconds: None }));
        if !call.setup.allows(call.source.name(), call.remote) {
            return stop(Step::Address, Reason::Address);
        }
        if !call.source.methods().contains(request.method()) {
            return stop(Step::Method, Reason::Method);
        }
        if is_encoded(request.headers()) {
            return stop(Step::Body, Reason::ContentEncoding);
        }
        let limit = call.source.body_bytes_max().unwrap_or(call.setup.body_bytes_max);
        if body::declared_length(request.headers()).is_some_and(|length| length > limit as u64) {
            return stop(Step::Body, Reason::TooLarge);
        }
        if self.draining.requested() {
            return Err(Stopped::Away(Problem::unavailable("the server is stopping").closing()));
        }
        Ok(limit)
    }

    fn refused(&self, source: &Source, rejection: Rejection) -> Answer {
        self.ingest.refused(source, &rejection);
        Answer::Rejected(rejection)
    }

    /// Counts a request that was refused before it was looked at, so that overload shows.
    fn turned_away(&self, source: &str, problem: Problem) -> Problem {
        counter!("oncebox_arrivals_total", "source" => source.to_owned(), "result" => "unavailable").increment(1);
        self.traffic.turned_away(source);
        problem
    }
}

/// A request as sources judge it, still without its body, and the body.
fn parted(request: Request<Incoming>) -> (oncebox_verify::Request, Incoming) {
    let (mut head, incoming) = request.into_parts();
    // Where we begin a trace, what is done about the event belongs to it.
    if let Some(own) = spans::current().filter(|_| Traceparent::of(&head.headers).is_none()) {
        own.set(&mut head.headers);
    }
    let judged = oncebox_verify::Request {
        method: head.method,
        target: head.uri.path_and_query().map_or_else(String::new, ToString::to_string),
        headers: head.headers,
        body: Bytes::new(),
    };
    (judged, incoming)
}

/// The span of a webhook; whoever asks after our health has none. It begins a trace of its own: a stranger must not choose
/// which traces are kept. What a verified request names is written down in it, and kept with the event.
fn span(request: &Request<Incoming>) -> tracing::Span {
    if !request.uri().path().starts_with("/in/") {
        return tracing::Span::none();
    }
    tracing::info_span!(
        target: TARGET, "ingest", sender.traceparent = tracing::field::Empty, source = tracing::field::Empty,
        http.response.status_code = tracing::field::Empty,
    )
}

fn health(method: &Method) -> Result<Response<Full<Bytes>>, Problem> {
    match *method {
        Method::GET | Method::HEAD => Ok(crate::http::json(r#"{"status":"ok"}"#.to_owned())),
        _ => Err(Problem::method("GET, HEAD".to_owned())),
    }
}

/// The source's name and the token behind it, if any.
fn route(path: &str) -> Option<(&str, Option<&str>)> {
    let rest = path.strip_prefix("/in/")?;
    match rest.split_once('/') {
        None => Some((rest, None)),
        Some((name, token)) if !token.contains('/') => Some((name, Some(token))),
        Some(_) => None,
    }
}

fn allow(source: &Source) -> String {
    source.methods().iter().map(Method::as_str).collect::<Vec<_>>().join(", ")
}

/// We verify the bytes as sent, so any coding but the plain one is refused, on whichever line it stands.
pub(crate) fn is_encoded(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_ENCODING).iter().any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes() {
        for (path, expected) in [
            ("/in/stripe", Some(("stripe", None))),
            ("/in/stripe/tok", Some(("stripe", Some("tok")))),
            ("/in/stripe/a/b", None),
            ("/", None),
            ("/inx/stripe", None),
        ] {
            assert_eq!(route(path), expected, "{path}");
        }
    }
}
