//! Receiving webhooks inside an application: verify, claim the identity, run the application's writes in one
//! transaction, commit, and only then answer.
//!
//! A [`Receiver`] turns a request into [`Verified`] events or into the [`Answer`] that ends it. Nothing here knows a web
//! framework; the feature `axum` adds an extractor. An [`Answer`] of success cannot be made by hand: it is what
//! [`Verified::once`] gives after the commit.

mod answer;
mod marks;
mod run;

use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;

pub use answer::{Answer, Outcome};

use crate::clock::{Clock, UnixMillis};
use crate::database::verb::once::Once;
use crate::database::{Claimed, StoreError, Transaction};
use crate::delivery::handler_error::HandlerError;
use crate::vendor::client::VendorClient;
use crate::vendor::key_fetcher::KeyFetcher;
use marks::Marks;
use oncebox_verify::{Accepted, HeldReason, Identified, Reply, Request, Source, Verdict};

/// What a body may have where neither source nor provider says otherwise.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Judges the requests of one source. Cheap to clone.
///
/// ```
/// use oncebox::verify::{Secret, Source};
/// use oncebox::{Clock, Receiver};
///
/// let source = Source::of_provider("payments", "stripe", [Secret::new("whsec_0123456789abcdef")])?;
/// let receiver = Receiver::new(source, Clock::system());
/// assert_eq!(receiver.source().name(), "payments");
/// # Ok::<(), oncebox::verify::SourceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Receiver {
    source: Arc<Source>,
    clock: Clock,
    vendors: Arc<KeyFetcher>,
}

/// An event that its sender is known to have sent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// The source's name.
    pub source: Arc<str>,
    /// The sender's id.
    pub id: String,
    /// The sender's type; empty where there is none.
    pub event_type: String,
    /// The exact bytes.
    pub body: Bytes,
    /// When it came.
    pub received_at: UnixMillis,
    marks: Marks,
}

/// The events of a request whose signature is good.
#[derive(Debug)]
#[must_use = "nothing was done about these events yet"]
pub struct Verified {
    /// What can be handled, in the order it stood in the request; one unless the provider sends batches.
    pub events: Vec<Event>,
    /// What cannot be told apart from other events (no id, or one that cannot be believed), and why.
    pub held: Vec<(Event, HeldReason)>,
    reply: Option<Reply>,
}

impl Receiver {
    /// Judges by the source's rules and the clock that is handed in.
    pub fn new(source: Source, clock: Clock) -> Self {
        Self { source: Arc::new(source), clock, vendors: Arc::default() }
    }

    /// The same, with somebody who fetches vendors' keys and visits confirmations; without, both are refused.
    pub fn with_vendor_client(self, vendor_client: Arc<dyn VendorClient>) -> Self {
        Self { vendors: Arc::new(KeyFetcher::new(vendor_client)), ..self }
    }

    /// Fetches keys that are in use again before they expire; call it every minute or so where the provider has such keys.
    pub async fn refresh_keys(&self) {
        self.vendors.refresh(&self.source, &self.clock).await;
    }

    /// The source whose requests it judges.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The largest body in bytes; refuse longer ones before they are read.
    pub fn body_bytes_max(&self) -> usize {
        self.source.body_bytes_max().unwrap_or(BODY_BYTES_MAX)
    }

    /// Judges a request: its events, or the answer that ends it (a handshake, a refusal). `path_token` is what stood
    /// behind the source's name in the URL, where the sender cannot sign.
    pub async fn receive(&self, request: &Request, path_token: Option<&str>) -> Result<Verified, Answer> {
        if request.body.len() > self.body_bytes_max() {
            return Err(Answer::too_large());
        }
        let mut verdict = self.source.judge(request, path_token, self.clock.now());
        if let Verdict::NeedsKey(wanted) = &verdict {
            if self.vendors.fetch_key(&self.source, wanted, &self.clock).await.is_err() {
                return Err(Answer::unavailable());
            }
            verdict = self.source.judge(request, path_token, self.clock.now());
        }
        match verdict {
            Verdict::Accept(accepted) => Ok(self.verified(accepted)),
            Verdict::Handshake(reply) => Err(Answer::handshake(reply)),
            Verdict::Visit(visit) => match self.vendors.visit(&visit).await {
                Ok(()) => Err(Answer::handshake(visit.reply)),
                Err(_) => Err(Answer::unavailable()),
            },
            Verdict::NeedsKey(_) => Err(Answer::unavailable()),
            // There is no place where a secret that arrives could be kept.
            Verdict::Secret(_) => Err(Answer::unauthorized()),
            Verdict::Reject(rejection) => {
                let (step, reason) = (rejection.step.as_str(), rejection.reason.as_str());
                tracing::warn!(source = self.source.name(), step, reason, "a request was refused");
                Err(Answer::refused(&rejection, self.source.methods()))
            }
        }
    }

    fn verified(&self, accepted: Accepted) -> Verified {
        let (source, now) = (Arc::from(self.source.name()), self.clock.now());
        let mut verified = Verified { events: Vec::new(), held: Vec::new(), reply: accepted.reply };
        for identified in accepted.events {
            let held = identified.held;
            let event = Event::new(&source, identified, now);
            match held {
                None => verified.events.push(event),
                Some(reason) => verified.held.push((event, reason)),
            }
        }
        verified
    }
}

impl Event {
    fn new(source: &Arc<str>, identified: Identified, received_at: UnixMillis) -> Self {
        let marks = Marks::of(source, &identified);
        let Identified { event_id: id, event_type, body, .. } = identified;
        Self { source: source.clone(), id, event_type, body, received_at, marks }
    }

    /// An event that the gateway stored.
    pub(crate) fn stored(claimed: Claimed) -> Self {
        let Claimed { key, source, event_id: id, event_type, body, received_at, .. } = claimed;
        Self { source: source.into(), id, event_type, body, received_at, marks: Marks::Stored(key) }
    }

    /// Claims the event's identity in your own open transaction, as [`once`](crate::database::verb::once::once) does for an id.
    ///
    /// Known bytes under a new id that no signature covers count as a duplicate too, unless the source's
    /// `repeated_body` says that they run: whoever saw one webhook could send it again under any id.
    pub async fn once<T: Transaction>(&self, tx: &mut T) -> Result<Once, StoreError> {
        self.marks.claim(tx, (&self.source, &self.id, &self.body)).await
    }

    /// Reads the body as JSON; one that cannot be read will not get better, so it is a rejection.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        serde_json::from_slice(&self.body).map_err(HandlerError::reject)
    }
}

#[cfg(test)]
mod tests;
