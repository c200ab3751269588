//! What the operator wrote about one sender, before it is compiled.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Description;
use crate::secret::Secret;
use crate::verdict::OnRepeat;

/// What the operator wrote about a source.
#[derive(Clone, Debug)]
pub struct SourceSpec {
    /// Its name, the last part of its URL.
    pub name: String,
    /// The provider's slug.
    pub provider: String,
    /// The provider's entry with the operator's own keys laid over it.
    pub description: Description,
    /// Live secrets in order; the position from 1, and a secret's own name, are labels of a metric.
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
    /// Events that happened longer ago than this, by their sender's word, are held; none lets them run.
    pub stale_after: Option<Duration>,
}

impl SourceSpec {
    /// A spec with the catalogue's description and nothing else; none when the slug is not known.
    pub fn named(name: &str, provider: &str) -> Option<Self> {
        Some(Self {
            name: name.to_owned(),
            provider: provider.to_owned(),
            description: Description::named(provider)?,
            secrets: Vec::new(),
            settings: BTreeMap::new(),
            tolerance: None,
            repeated_body: None,
            unverified: false,
            path_token: None,
            body_bytes_max: None,
            stale_after: None,
        })
    }
}
