//! A source: one configured sender, a name, a provider and its secrets.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;

use crate::clock::UnixMillis;
use crate::provider::{Description, Problem};
use crate::request::Request;
use crate::secret::Secret;
use crate::verdict::{OnRepeat, Verdict};

/// What the operator wrote about a source.
#[derive(Clone, Debug)]
pub struct SourceSpec {
    /// Its name, the last part of its URL.
    pub name: String,
    /// The provider's slug.
    pub provider: String,
    /// The provider's entry with the operator's own keys laid over it.
    pub description: Description,
    /// Live secrets in order; the position from 1 is the metric label.
    pub secrets: Vec<Secret>,
    /// Further settings by name (`public_url`, `verify_token`, …).
    pub settings: BTreeMap<String, Secret>,
    /// How far the signed time may be from ours, both ways; the provider's own window when absent.
    pub tolerance: Option<Duration>,
    /// What to do with known bytes under a new id; by the provider's facts when absent.
    pub repeated_body: Option<OnRepeat>,
    /// `verify = "none"`: only with the operator's explicit `insecure = true`.
    pub unverified: bool,
    /// The token in `/in/{source}/{token}`, for senders that cannot sign.
    pub path_token: Option<Secret>,
    /// The largest body, in bytes; the provider's or the server's own when absent.
    pub body_bytes_max: Option<usize>,
}

/// One configured sender, ready to judge requests.
#[derive(Debug)]
pub struct Source {
    spec: SourceSpec,
}

impl Source {
    /// Checks a spec; every problem at once.
    pub fn build(spec: SourceSpec) -> Result<Self, Vec<Problem>> {
        Ok(Self { spec })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The methods its URL answers.
    pub fn methods(&self) -> &[Method] {
        &[Method::POST]
    }

    /// Judges a request: signature over the raw bytes, time window, identity. Pure.
    ///
    /// `path_token` is what stood behind the source's name in the URL.
    pub fn judge(&self, _request: &Request, _path_token: Option<&str>, _now: UnixMillis) -> Verdict {
        unreachable!("replaced by the engine")
    }

    /// True for a header that carries a credential and is never stored.
    pub fn is_credential(&self, _name: &http::HeaderName) -> bool {
        false
    }
}
