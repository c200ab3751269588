//! The public listener: `/in/{source}`, `/in/{source}/{token}` and `/healthz`, nothing else.
//!
//! Fixed order: route, size, signature over the raw bytes, time window, identity, store, answer. What can be refused
//! before the body is read is refused before.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_ENCODING, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use metrics::{counter, histogram};
use oncebox::ingest::{Answer, Context, Ingest};
use oncebox::outgoing::AddressRange;
use oncebox::routing::Routes;
use oncebox::shutdown::Shutdown;
use oncebox::source::Source;
use oncebox::trace::{TARGET, Traceparent};
use oncebox::verdict::{Reason, Rejection, Step};
use tokio::sync::Semaphore;
use tracing::Instrument as _;

use super::answer;
use super::body::{self, BodyError, ByteBudget};
use super::listener::{Answering, Peer};
use super::problem::Problem;
use crate::arrived_secrets::ArrivedSecrets;
use crate::rejections::Rejections;
use crate::spans;
use crate::traffic::Traffic;

/// A target longer than this is answered 414.
pub(super) const TARGET_BYTES_MAX: usize = 8 * 1024;

/// What a reload replaces: all or nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    /// Sources by name.
    pub(crate) sources: HashMap<String, Arc<Source>>,
    /// Sources as the config has them, without secrets that arrived.
    pub(crate) configured: HashMap<String, Arc<Source>>,
    /// Where the requests of a source come from; from anywhere unless it is listed here.
    pub(crate) allow_from: HashMap<String, Vec<AddressRange>>,
    /// The secrets that arrived and are in use, sealed, by source.
    pub(crate) arrived: HashMap<String, Vec<u8>>,
    /// The handlers' wishes.
    pub(crate) routes: Routes,
    /// The handlers that our own workers run; the others are pulled.
    pub(crate) run_here: HashSet<String>,
    /// Whether the ledger's memory may be shorter than the senders' retries.
    pub(crate) retention_forced: bool,
    /// The names of the destinations.
    pub(crate) destinations: Vec<String>,
    /// The body limit of sources that set none, in bytes.
    pub(crate) body_bytes_max: usize,
}

/// The public listener's service. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Public(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    setup: Arc<ArcSwap<Setup>>,
    ingest: Ingest,
    in_flight: Semaphore,
    budget: ByteBudget,
    trusted_proxies: usize,
    rejections: Rejections,
    traffic: Traffic,
    arrived: ArrivedSecrets,
    draining: Shutdown,
}

impl Setup {
    /// Whether requests of a source may come from this address.
    fn allows(&self, source: &str, remote: IpAddr) -> bool {
        self.allow_from.get(source).is_none_or(|ranges| ranges.iter().any(|range| range.contains(remote)))
    }
}

/// How much is held at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    /// Requests.
    pub(crate) in_flight: usize,
    /// Body bytes.
    pub(crate) in_flight_bytes: usize,
    /// Hops of `X-Forwarded-For` to believe, from the right.
    pub(crate) trusted_proxies: usize,
}

impl Public {
    /// Builds the service.
    pub(crate) fn new(
        setup: Arc<ArcSwap<Setup>>,
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
            budget: ByteBudget::new(caps.in_flight_bytes),
            trusted_proxies: caps.trusted_proxies,
            rejections,
            traffic,
            arrived,
            draining,
        }))
    }

    /// The service of one connection.
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
    type Future = Answering<Full<Bytes>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (inner, peer) = (self.inner.clone(), self.peer.clone());
        let span = span(&request);
        let answering = async move {
            // Content-Length beside Transfer-Encoding was dropped by the parser: never read a second request then.
            let close = request.headers().contains_key(TRANSFER_ENCODING);
            let mut response = inner.answer(&peer, request).await.unwrap_or_else(Problem::into_response);
            if close {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            tracing::Span::current().record("http.response.status_code", response.status().as_u16());
            Ok(response)
        };
        Box::pin(answering.instrument(span))
    }
}

impl Inner {
    async fn answer(&self, peer: &Peer, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Problem> {
        let started = Instant::now();
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        if target.len() > TARGET_BYTES_MAX {
            return Err(Problem::target_too_long());
        }
        let path = request.uri().path();
        if path == "/healthz" {
            return health(request.method());
        }
        let (name, token) = route(path).ok_or_else(Problem::not_found)?;
        let setup = self.setup.load_full();
        let source = setup.sources.get(name).ok_or_else(Problem::not_found)?;
        tracing::Span::current().record("source", name);
        if token.is_some_and(|token| token.is_empty() || !source.has_path_token()) {
            return Err(Problem::not_found());
        }
        let remote = remote(peer.address.ip(), request.headers(), self.trusted_proxies);
        if !setup.allows(name, remote) {
            let rejection = Rejection { step: Step::Address, reason: Reason::Address, off_by_seconds: None };
            self.ingest.refused(source, &rejection);
            return Ok(self.answered(source, Answer::Rejected(rejection), remote, started));
        }
        if !source.methods().contains(request.method()) {
            return Err(Problem::method(allow(source)));
        }
        if is_encoded(request.headers()) {
            return Err(Problem::content_encoding());
        }
        let limit = source.body_bytes_max().unwrap_or(setup.body_bytes_max);
        if body::declared_length(request.headers()).is_some_and(|length| length > limit as u64) {
            return Err(Problem::too_large());
        }
        if self.draining.requested() {
            return Err(self.turned_away(name, Problem::unavailable("the server is stopping").closing()));
        }
        let Ok(_slot) = self.in_flight.try_acquire() else {
            return Err(self.turned_away(name, Problem::unavailable("too many requests are in flight")));
        };
        let token = token.map(str::to_owned);
        let (mut head, incoming) = request.into_parts();
        // Where we begin a trace, what is done about the event belongs to it.
        if let Some(own) = spans::current().filter(|_| Traceparent::of(&head.headers).is_none()) {
            own.set(&mut head.headers);
        }
        let (bytes, _share) =
            body::read(incoming, limit, &self.budget).await.map_err(|error| self.refuse_body(error, source.name()))?;
        let shown = remote.to_string().into();
        let context = Context { source, path_token: token.as_deref(), remote: shown, routes: &setup.routes };
        let judged = oncebox::request::Request {
            method: head.method,
            target: head.uri.path_and_query().map_or_else(String::new, ToString::to_string),
            headers: head.headers,
            body: bytes,
        };
        let answered = match self.ingest.accept(context, judged).await {
            Answer::Secret(brought) => self.arrived.take(source, brought).await,
            answered => answered,
        };
        Ok(self.answered(source, answered, remote, started))
    }

    /// Writes down what a request was answered, and answers it.
    fn answered(&self, source: &Source, answered: Answer, remote: IpAddr, started: Instant) -> Response<Full<Bytes>> {
        if let Answer::Rejected(rejection) = &answered {
            self.rejections.record(source.name(), rejection, &remote.to_string());
        }
        let took = started.elapsed();
        self.traffic.answered(source.name(), &answered, took);
        histogram!("oncebox_ack_seconds").record(took.as_secs_f64());
        answer::into_response(answered, || allow(source))
    }

    /// Counts a request that was refused before it was looked at, so that overload shows.
    fn turned_away(&self, source: &str, problem: Problem) -> Problem {
        counter!("oncebox_arrivals_total", "source" => source.to_owned(), "result" => "unavailable").increment(1);
        self.traffic.turned_away(source);
        problem
    }

    fn refuse_body(&self, error: BodyError, source: &str) -> Problem {
        match error {
            BodyError::TooLarge => Problem::too_large(),
            BodyError::NoBudget => {
                self.turned_away(source, Problem::unavailable("too many body bytes are in flight").closing())
            }
            BodyError::TooSlow => Problem::too_slow(),
            BodyError::Broken => Problem::bad_request("the body broke off or is malformed").closing(),
        }
    }
}

/// The span of a webhook; whoever asks after our health has none.
fn span(request: &Request<Incoming>) -> tracing::Span {
    if !request.uri().path().starts_with("/in/") {
        return tracing::Span::none();
    }
    tracing::info_span!(
        target: TARGET, "ingest", traceparent = Traceparent::of(request.headers()).map(tracing::field::display),
        source = tracing::field::Empty, http.response.status_code = tracing::field::Empty,
    )
}

fn health(method: &Method) -> Result<Response<Full<Bytes>>, Problem> {
    match *method {
        Method::GET | Method::HEAD => Ok(answer::json(r#"{"status":"ok"}"#.to_owned())),
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

/// The sender's address: the connection's, or what the trusted proxies in front of us saw.
pub(super) fn remote(peer: IpAddr, headers: &HeaderMap, trusted_proxies: usize) -> IpAddr {
    let forwarded = || {
        let hops: Vec<&str> = headers
            .get_all("x-forwarded-for")
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(str::trim)
            .collect();
        let hop = hops.len().checked_sub(trusted_proxies).and_then(|at| hops.get(at))?;
        hop.parse::<IpAddr>().ok()
    };
    let address = if trusted_proxies == 0 { None } else { forwarded() };
    address.unwrap_or(peer)
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

    #[test]
    fn only_trusted_hops_are_believed() {
        let peer: IpAddr = "10.0.0.9".parse().unwrap();
        let mut headers = HeaderMap::new();
        headers.append("x-forwarded-for", "1.1.1.1, 2.2.2.2".parse().unwrap());
        headers.append("x-forwarded-for", "3.3.3.3".parse().unwrap());
        for (trusted, expected) in [(0, "10.0.0.9"), (1, "3.3.3.3"), (2, "2.2.2.2"), (9, "10.0.0.9")] {
            assert_eq!(remote(peer, &headers, trusted).to_string(), expected, "{trusted}");
        }
    }
}
