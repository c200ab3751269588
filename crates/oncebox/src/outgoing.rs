//! The one HTTP client for everything that goes out: fetched keys, confirmations, handlers and the outbox.
//!
//! Built on hyper with a connector of our own, because only whoever opens the socket can promise that the address that
//! was checked is the one that is connected to, literals included. Redirects are never followed, environment proxies are
//! ignored, certificates are always verified, and time, headers and kept bytes of an answer are bounded.

mod address;
mod chain;
mod connect;
pub mod forward;
pub mod masks;
mod target;
mod vendor_calls;

use std::collections::HashMap;
use std::error::Error as _;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use tokio::time::{Sleep, sleep};

pub use address::{AddressRange, Policy, is_metadata, is_public};
use connect::Connector;
pub use target::{Target, TargetError};
pub use vendor_calls::VendorCalls;

use crate::trace::SpanSource;

/// Bytes of an answer's body that are kept; the rest is not read.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 100;
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Idle connections kept for each host.
const IDLE_MAX: usize = 32;
const IDLE_FOR: Duration = Duration::from_secs(30);

/// How a client is made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which addresses may be called.
    pub policy: Policy,
    /// Authorities to trust beside the system's.
    pub authorities: Vec<CertificateDer<'static>>,
    /// Hosts whose address is known: neither resolved nor checked. Tests put a vendor's host here.
    pub hosts: HashMap<String, SocketAddr>,
}

/// A client with one policy; connections are shared only among calls under it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Outgoing {
    client: Client<Connector, Full<Bytes>>,
    carrier: Option<Arc<dyn SpanSource>>,
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// Where to.
    pub target: Target,
    /// The headers, without `host` and `content-length`.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// How long everything may take: resolving, connecting, sending, reading.
    pub deadline: Duration,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status, redirects included: they are not followed.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The first [`ANSWER_BYTES_MAX`] bytes of the body.
    pub body: Bytes,
    /// False when the body was longer, broke off, or did not end in time.
    pub is_whole: bool,
}

/// An answer whose body is still to come.
#[derive(Debug)]
pub struct Opened {
    /// The status, redirects included: they are not followed.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    body: Incoming,
    over: Pin<Box<Sleep>>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The host is, or resolves to, an address that may not be called; no connection was made.
    #[error("the host's address may not be called")]
    Blocked,
    /// The host's name has no address.
    #[error("the host cannot be resolved")]
    Unresolved,
    /// No connection could be made.
    #[error("the host cannot be reached, or refused the connection")]
    Unreachable,
    /// The certificate is not good for this host.
    #[error("the host's certificate cannot be trusted")]
    Untrusted,
    /// Too slow.
    #[error("the host did not answer in time")]
    TooSlow,
    /// The connection broke, or what came was no HTTP.
    #[error("the connection broke before there was an answer")]
    Broken,
}

impl CallError {
    /// True when no connection was made, so that nothing can have been sent.
    pub fn is_before_connected(self) -> bool {
        !matches!(self, Self::TooSlow | Self::Broken)
    }
}

impl Settings {
    /// Nobody is trusted and no host known beside those of the system.
    pub fn new(policy: Policy) -> Self {
        Self { policy, authorities: Vec::new(), hosts: HashMap::new() }
    }
}

impl Call {
    /// A GET without headers of its own.
    pub fn get(target: Target, deadline: Duration) -> Self {
        Self { method: Method::GET, target, headers: HeaderMap::new(), body: Bytes::new(), deadline }
    }
}

impl Outgoing {
    /// Makes a client; fails only when TLS cannot be set up.
    pub fn new(settings: Settings) -> Result<Self, rustls::Error> {
        let connector = Connector::new(settings)?;
        let mut builder = Client::builder(TokioExecutor::new());
        builder
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_FOR)
            .pool_max_idle_per_host(IDLE_MAX)
            .http1_max_headers(HEADERS_MAX)
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .retry_canceled_requests(false);
        Ok(Self { client: builder.build(connector), carrier: None })
    }

    /// The same client, whose calls carry the span that they are made in.
    pub fn carrying(self, carrier: Arc<dyn SpanSource>) -> Self {
        Self { carrier: Some(carrier), ..self }
    }

    /// Makes one call, once, and keeps the beginning of the answer. Dropping the rest closes the connection, so an
    /// endless body costs nothing.
    pub async fn send(&self, call: Call) -> Result<Answer, CallError> {
        let mut opened = self.open(call).await?;
        let mut kept = BytesMut::new();
        let is_whole = loop {
            let Ok(chunk) = opened.chunk().await else { break false };
            let Some(data) = chunk else { break true };
            let room = ANSWER_BYTES_MAX - kept.len();
            kept.extend_from_slice(&data[..data.len().min(room)]);
            if data.len() > room {
                break false;
            }
        };
        Ok(Answer { status: opened.status, headers: opened.headers, body: kept.freeze(), is_whole })
    }

    /// Makes one call, once, and leaves the body of the answer to be read, however long it is.
    pub async fn open(&self, call: Call) -> Result<Opened, CallError> {
        let mut over = Box::pin(sleep(call.deadline));
        let has_body = !call.body.is_empty();
        let mut request = Request::new(Full::new(call.body));
        *request.method_mut() = call.method;
        *request.uri_mut() = call.target.uri().clone();
        *request.headers_mut() = call.headers;
        if let Some(trace) = self.carrier.as_ref().and_then(|carrier| carrier.traceparent()) {
            trace.set(request.headers_mut());
        }
        // The client leaves it out where there is no body, and some servers then refuse with 411.
        if !has_body && !matches!(*request.method(), Method::GET | Method::HEAD) {
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let response = tokio::select! {
            answered = self.client.request(request) => answered.map_err(|error| cause(&error))?,
            () = &mut over => return Err(CallError::TooSlow),
        };
        let (head, body) = response.into_parts();
        Ok(Opened { status: head.status, headers: head.headers, body, over })
    }
}

impl Opened {
    /// The next piece of the body; none at its end. What the deadline of the call cuts off is an error.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, CallError> {
        loop {
            let frame = tokio::select! {
                frame = self.body.frame() => frame,
                () = &mut self.over => return Err(CallError::TooSlow),
            };
            match frame {
                None => return Ok(None),
                Some(Err(_broken)) => return Err(CallError::Broken),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

/// The connector's own word, somewhere below the client's error.
fn cause(error: &hyper_util::client::legacy::Error) -> CallError {
    let mut below = error.source();
    while let Some(error) = below {
        if let Some(own) = error.downcast_ref::<CallError>() {
            return *own;
        }
        below = error.source();
    }
    CallError::Broken
}

#[cfg(test)]
mod tests;
