//! What the operator wrote about one sender, before it is compiled.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Description, Problem};
use crate::provider::scheme::{Address, Window};
use crate::secret::Secret;
use crate::verdict::OnRepeat;

/// What the operator wrote about a source.
#[derive(Clone, Debug, Default)]
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
        let description = Description::named(provider)?;
        Some(Self { name: name.to_owned(), provider: provider.to_owned(), description, ..Self::default() })
    }
}

/// A spec that is being compiled, and what is wrong with it so far.
#[derive(Debug)]
pub(crate) struct Compiling<'s> {
    pub(crate) spec: &'s SourceSpec,
    pub(crate) problems: Vec<Problem>,
    /// Counts in place of `public_url`, for finding out what is wrong with that.
    pub(crate) address: Option<Address>,
}

impl<'s> Compiling<'s> {
    pub(crate) fn new(spec: &'s SourceSpec) -> Self {
        Self { spec, problems: Vec::new(), address: None }
    }

    pub(crate) fn problem(&mut self, key: &str, message: &str, cure: &str) {
        self.problems.push(Problem::new(key, message, cure));
    }

    /// A setting that is given and not blank.
    pub(crate) fn setting(&self, name: &str) -> Option<&'s Secret> {
        self.spec.settings.get(name).filter(|value| !value.is_blank())
    }

    /// The same, as text.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.setting(name).and_then(|value| String::from_utf8(value.expose().to_vec()).ok())
    }

    /// A setting that the scheme cannot do without.
    pub(crate) fn need(&mut self, name: &str) -> Option<&'s Secret> {
        let value = self.setting(name);
        if value.is_none() {
            self.problem(name, "this provider needs this setting", "add it to the source");
        }
        value
    }

    /// Every live secret as a key.
    pub(crate) fn keys<K>(&mut self, make: impl Fn(&Secret) -> Option<K>) -> Vec<K> {
        if self.spec.secrets.is_empty() {
            self.no_secret("secrets");
        }
        self.keys_of("secrets", &self.spec.secrets, "copy it again in full", make)
    }

    pub(crate) fn no_secret(&mut self, name: &str) {
        self.problem(name, "there is no secret", "add secrets = [{ env = \"NAME\" }]");
    }

    /// Secrets as keys, without those that are blank or that `make` cannot use.
    pub(crate) fn keys_of<K>(
        &mut self,
        name: &str,
        secrets: &[Secret],
        cure: &str,
        make: impl Fn(&Secret) -> Option<K>,
    ) -> Vec<K> {
        let mut keys = Vec::new();
        for (index, secret) in secrets.iter().enumerate() {
            let name = format!("{name}[{index}]");
            if secret.is_blank() {
                let cure = "copy it from the vendor; an empty one would let anybody in";
                self.problem(&name, "the secret is empty", cure);
            } else if let Some(key) = make(secret) {
                keys.push(key);
            } else {
                self.problem(&name, "the secret does not have the form this provider uses", cure);
            }
        }
        keys
    }

    /// The vendor's window in seconds, or the operator's, both ways.
    pub(crate) fn window(&self, past: i64, future: i64) -> Window {
        let own = self.spec.tolerance.map(|tolerance| i64::try_from(tolerance.as_secs()).unwrap_or(i64::MAX));
        Window { past: own.unwrap_or(past), future: own.unwrap_or(future) }
    }
}
