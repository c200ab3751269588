//! The path of one webhook up to the answer: verify, identify, join a commit, answer.
//!
//! The store step belongs to the batcher, not to the request: a client that hangs up changes nothing about what is
//! stored. The caller turns an [`Answer`] into HTTP.

mod arrival_recorder;
mod arrivals;
mod batcher;
mod metric;
mod sender_clock;

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::mpsc;
use tracing::Instrument as _;

pub use batcher::{Batcher, Settings};
use batcher::{Stored, Submission};
pub use metric::secret_matches;
pub use sender_clock::{SenderClock, Skew};

use crate::clock::Clock;
use crate::delivery::routing::Routes;
use crate::event::KeyMaker;
use crate::limits;
use crate::store::{Inserted, NewEvent};
use crate::trace::{TARGET, TRACEPARENT, TRACESTATE, Traceparent};
use crate::vendor::client::VendorClient;
use crate::vendor::key_fetcher::{KeyFetcher, OutOfReach};
use oncebox_verify::{
    Accepted, HandshakeSecret, HeadVerdict, Identified, Identity, IdentityKind, Rejection, Reply, Request, Source,
    Verdict,
};

/// What to answer.
#[derive(Debug)]
pub enum Answer {
    /// On disk: one outcome for each event, in their order.
    Stored(Receipt),
    /// A handshake: nothing stored.
    Handshake(Reply),
    /// A handshake that brings a secret: the caller decides whether anybody waits for it.
    Secret(HandshakeSecret),
    /// Not verified: nothing stored.
    Rejected(Rejection),
    /// Not known to be on disk: the sender's retry settles it.
    Unavailable(Unavailable),
}

/// A stored request.
#[derive(Debug)]
pub struct Receipt {
    /// What became of each event.
    pub outcomes: Vec<Inserted>,
    /// Position of the secret that matched, from 1; 0 where the source verifies nothing.
    pub secret: usize,
    /// True when the provider sends batches: the answer lists the events.
    pub batch: bool,
    /// The success body the provider wants in place of ours.
    pub reply: Option<Reply>,
}

/// Why nothing can be promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// Too many requests wait for a commit.
    Overloaded,
    /// The database refused, was busy or out of reach.
    StoreFailed,
    /// The commit's result is unknown.
    Unknown,
    /// A key that the request was signed with could not be fetched, or a URL that it wants visited did not answer.
    VendorOutOfReach,
}

/// Takes requests in. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ingest {
    submissions: mpsc::Sender<Submission>,
    clock: Clock,
    keys: Arc<KeyMaker>,
    vendors: Arc<KeyFetcher>,
    sender_clock: SenderClock,
    secret_matches: metric::SecretMatches,
}

/// Where a request came from and whom its events concern.
#[derive(Debug)]
pub struct Context<'a> {
    /// The source it was sent to.
    pub source: &'a Arc<Source>,
    /// What stood behind the source's name in the URL.
    pub path_token: Option<&'a str>,
    /// The sender's address.
    pub remote: Arc<str>,
    /// The handlers' wishes.
    pub routes: &'a Routes,
}

impl Ingest {
    /// The same, with somebody who fetches keys and visits confirmations; without, both are refused.
    pub fn with_vendor_client(self, vendor_client: Arc<dyn VendorClient>) -> Self {
        Self { vendors: Arc::new(KeyFetcher::new(vendor_client)), ..self }
    }

    /// How far our clock is from the senders'; it outlives the ingest.
    pub fn sender_clock(&self) -> SenderClock {
        self.sender_clock.clone()
    }

    /// Fetches keys that are in use again before they expire, so that no request has to wait for them.
    pub async fn refresh_keys(&self, sources: impl IntoIterator<Item = Arc<Source>>) {
        for source in sources {
            self.vendors.refresh(&source, &self.clock).await;
        }
    }

    /// Judges a request and stores what it brings.
    pub async fn accept(&self, context: Context<'_>, request: Request) -> Answer {
        let source = context.source.clone();
        let (mut verdict, mut request) = judge(source, context.path_token, request, self.clock.now()).await;
        if let Verdict::NeedsKey(wanted) = &verdict {
            if Box::pin(self.vendors.fetch_key(context.source, wanted, &self.clock)).await.is_err() {
                return self.out_of_reach(&context);
            }
            (verdict, request) = judge(context.source.clone(), context.path_token, request, self.clock.now()).await;
        }
        match verdict {
            Verdict::NeedsKey(_) => self.out_of_reach(&context),
            Verdict::Visit(visit) => match Box::pin(self.vendors.visit(&visit)).await {
                Ok(()) => Answer::Handshake(visit.reply),
                Err(OutOfReach) => self.out_of_reach(&context),
            },
            Verdict::Reject(rejection) => {
                metric::rejected(context.source.name(), &rejection);
                Answer::Rejected(rejection)
            }
            Verdict::Handshake(reply) => Answer::Handshake(reply),
            Verdict::Secret(brought) => Answer::Secret(brought),
            Verdict::Accept(accepted) => self.store(&context, &request, accepted).await,
        }
    }

    /// Judges a request of which only the head is known.
    pub fn judge_head(&self, source: &Source, head: &Request, path_token: Option<&str>) -> HeadVerdict {
        source.judge_head(head, path_token, self.clock.now())
    }

    /// Counts a request that was refused before it was judged.
    pub fn refused(&self, source: &Source, rejection: &Rejection) {
        metric::rejected(source.name(), rejection);
    }

    fn out_of_reach(&self, context: &Context<'_>) -> Answer {
        metric::out_of_reach(context.source.name());
        Answer::Unavailable(Unavailable::VendorOutOfReach)
    }

    async fn store(&self, context: &Context<'_>, request: &Request, accepted: Accepted) -> Answer {
        let Accepted { secret, signed_at, events, batch, reply } = accepted;
        self.secret_matches.count(context.source, secret);
        metric::ids_disagree(context.source.name(), &events);
        if let Some(signed_at) = signed_at {
            self.sender_clock.note(signed_at, &self.clock);
        }
        let headers = kept_headers(context.source, &request.headers);
        let source: Arc<str> = context.source.name().into();
        let events = events.into_iter().map(|event| self.new_event(context, &source, &headers, event)).collect();
        let outcome = self.submit(events).instrument(tracing::info_span!(target: TARGET, "store")).await;
        match outcome {
            Ok(outcomes) => Answer::Stored(Receipt { outcomes, secret, batch, reply }),
            Err(reason) => Answer::Unavailable(reason),
        }
    }

    fn new_event(&self, context: &Context<'_>, source: &Arc<str>, headers: &Bytes, mut event: Identified) -> NewEvent {
        let now = self.clock.now();
        let key = self.keys.make(now);
        if event.identity_kind == IdentityKind::Arrival {
            event.identity = Identity::of_arrival(source, key.as_bytes());
            event.event_id = key.to_string();
        }
        let handlers = context.routes.deliveries_for(source, &event.event_type, &event.body);
        NewEvent {
            key,
            source: source.clone(),
            headers: headers.clone(),
            remote: context.remote.clone(),
            received_at: now,
            handlers,
            event,
        }
    }

    async fn submit(&self, events: Vec<NewEvent>) -> Result<Vec<Inserted>, Unavailable> {
        let (submission, answer) = Submission::new(events);
        // Never blocks: a full queue is answered with 503, so that the sender comes back later.
        self.submissions.try_send(submission).map_err(|error| {
            let (reason, refused) = match error {
                mpsc::error::TrySendError::Full(refused) => (Unavailable::Overloaded, refused),
                mpsc::error::TrySendError::Closed(refused) => (Unavailable::StoreFailed, refused),
            };
            metric::unavailable(refused.events());
            reason
        })?;
        match answer.await {
            Ok(Stored::Committed(outcomes)) => Ok(outcomes),
            Ok(Stored::Failed) => Err(Unavailable::StoreFailed),
            // A batcher that went away may have committed first.
            Ok(Stored::Unknown) | Err(_) => Err(Unavailable::Unknown),
        }
    }
}

/// Judging is pure and quick; a large body is hashed beside the event loop.
async fn judge(source: Arc<Source>, token: Option<&str>, request: Request, now: i64) -> (Verdict, Request) {
    let span = tracing::info_span!(target: TARGET, "verify");
    judge_now(source, token, request, now).instrument(span).await
}

async fn judge_now(source: Arc<Source>, token: Option<&str>, request: Request, now: i64) -> (Verdict, Request) {
    if request.body.len() <= limits::BODY_BYTES_INLINE_MAX {
        return (source.judge(&request, token, now), request);
    }
    let token = token.map(str::to_owned);
    let copy = request.clone();
    let judged = tokio::task::spawn_blocking(move || source.judge(&copy, token.as_deref(), now)).await;
    (judged.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())), request)
}

/// Headers as `name: value` lines, without what would let a reader pose as the sender. A trace that deserves the name
/// stands first, where the relay looks for it; any other is dropped.
fn kept_headers(source: &Source, headers: &HeaderMap) -> Bytes {
    let mut lines = Vec::with_capacity(512);
    let trace = Traceparent::of(headers);
    lines.extend(trace.iter().flat_map(|trace| trace.line().into_bytes()));
    for (name, value) in headers {
        let is_settled = name == TRACEPARENT || (name == TRACESTATE && trace.is_none());
        if !is_settled && !source.description().is_credential(name) {
            lines.extend_from_slice(name.as_str().as_bytes());
            lines.extend_from_slice(b": ");
            lines.extend_from_slice(value.as_bytes());
            lines.push(b'\n');
        }
    }
    lines.into()
}
