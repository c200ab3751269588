//! Where messages may go, as its operator wants it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;

use crate::delivery::retry::RetryPolicy;
use crate::lane::rate::Rate;
use crate::outgoing::forward::SigningKey;
use crate::outgoing::{Outgoing, Target};
use crate::store::DestinationFacts;

/// A dead node's messages wait at least so long, so that a short deadline does not make a hiccup a second call.
const LEASE_MIN: Duration = Duration::from_secs(30);

/// A destination as its operator wants it.
#[derive(Clone)]
pub struct DestinationSpec {
    /// Its name.
    pub name: Arc<str>,
    /// Where it is; a message may add a path below it.
    pub target: Target,
    /// The client to call with.
    pub client: Outgoing,
    /// Headers of every call, credentials included; they win over a message's own.
    pub headers: HeaderMap,
    /// Signs every call by Standard Webhooks.
    pub signing: Option<SigningKey>,
    /// How long a call may take in all.
    pub timeout: Duration,
    /// Calls at once.
    pub concurrency: usize,
    /// Calls in a time, at most, spread evenly.
    pub rate: Option<Rate>,
    /// When to try again and when to give up.
    pub retry: RetryPolicy,
    /// Statuses that are tried again though they look final.
    pub retry_on: Vec<u16>,
    /// Whether messages of one order key go out one after the other.
    pub ordered: bool,
}

impl DestinationSpec {
    /// What the database must know about it.
    pub fn facts(&self) -> DestinationFacts {
        DestinationFacts { name: self.name.to_string(), attempts: self.retry.attempts, ordered: self.ordered }
    }

    /// How long a message may be kept: it may wait for a few others before its own call.
    pub(super) fn lease(&self) -> Duration {
        (self.timeout * 6).max(LEASE_MIN)
    }
}

impl fmt::Debug for DestinationSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DestinationSpec")
            .field("name", &self.name)
            .field("host", &self.target.host())
            .finish_non_exhaustive()
    }
}
