//! A source: one configured sender, a name, a provider and its secrets.
//!
//! Building one checks everything the operator wrote and compiles it; judging a request is then pure: no clock, no
//! store, no allocation beyond what the answer needs.

mod head;
mod path_token;

use std::time::Duration;

use http::Method;

use crate::UnixMillis;
use crate::provider::SignError;
use crate::provider::description::describe::{Handshake, IdentityRule};
use crate::provider::description::{Description, Problem};
use crate::provider::identity::IdentityRules;
use crate::provider::identity::handshake::HandshakeRules;
use crate::provider::keys::Keyring;
use crate::provider::scheme::{Refused, Verified, Verifier, View, verifier};
use crate::provider::sign::Draft;
use crate::provider::spec::{Compiling, SourceSpec};
use crate::request::Request;
use crate::secret::Secret;
use crate::verdict::{Accepted, KeyWanted, OnRepeat, Reason, Reply, Verdict, Visit};
pub use head::HeadVerdict;
use path_token::{fits_a_path, is_token};

/// One configured sender, ready to judge requests.
#[derive(Debug)]
pub struct Source {
    spec: SourceSpec,
    verifier: Option<Box<dyn Verifier>>,
    handshakes: HandshakeRules,
    identity: IdentityRules,
    methods: Vec<Method>,
    success: Option<Reply>,
}

/// Why a source cannot be built: every problem at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
#[non_exhaustive]
pub struct SourceError {
    /// What is wrong, key by key.
    pub problems: Vec<Problem>,
}

impl Source {
    /// A provider of the catalogue with its secrets and nothing else said; [`Source::build`] takes all there is to say.
    pub fn of_provider(
        name: &str,
        provider: &str,
        secrets: impl IntoIterator<Item = Secret>,
    ) -> Result<Self, SourceError> {
        let Some(mut spec) = SourceSpec::named(name, provider) else {
            let message = format!("{provider:?} is not in the catalogue");
            let cure = "write one of provider_names(), or describe the sender in a SourceSpec";
            return Err(SourceError { problems: vec![Problem::new("provider", message, cure)] });
        };
        spec.secrets = secrets.into_iter().collect();
        Self::build(spec)
    }

    /// Checks a spec; every problem at once.
    pub fn build(spec: SourceSpec) -> Result<Self, SourceError> {
        let mut compiling = Compiling::new(&spec);
        // A secret that is still to arrive is one: until then nothing is taken for an event.
        let awaits_secret = spec.description.brings_secret();
        let by_token_only = spec.secrets.is_empty() && spec.path_token.is_some() && !awaits_secret;
        let verifier = if spec.unverified || by_token_only { None } else { verifier::compile(&mut compiling) };
        check_rest(&mut compiling);
        let handshakes = HandshakeRules::compile(&mut compiling);
        let problems = compiling.problems;
        if !problems.is_empty() {
            return Err(SourceError { problems });
        }
        let identity = IdentityRules::new(&spec, &handshakes, verifier.as_deref());
        let mut methods = vec![Method::POST];
        for Handshake { method, .. } in &spec.description.handshake {
            if !methods.contains(method) {
                methods.push(method.clone());
            }
        }
        let success = spec.description.success.as_ref();
        let success = success.map(|success| Reply::ok(success.content_type, success.body.clone()));
        Ok(Self { spec, verifier, handshakes, identity, methods, success })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Its provider's slug.
    pub fn provider(&self) -> &str {
        &self.spec.provider
    }

    /// Its provider's description, with the operator's own keys laid over it.
    pub fn description(&self) -> &Description {
        &self.spec.description
    }

    /// The methods its URL answers.
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// The largest body in bytes: the operator's, else the provider's, else none of its own.
    pub fn body_bytes_max(&self) -> Option<usize> {
        self.spec.body_bytes_max.or(self.spec.description.body_limit())
    }

    /// True when nothing proves who sent a request, or only a token in the URL where the provider signs.
    pub fn is_unverified(&self) -> bool {
        self.verifier.is_none() && (self.spec.path_token.is_none() || self.spec.description.signs())
    }

    /// True when its URL ends with a token.
    pub fn has_path_token(&self) -> bool {
        self.spec.path_token.is_some()
    }

    /// What becomes of a known body under a new identity.
    pub fn on_repeat(&self) -> OnRepeat {
        self.identity.on_repeat
    }

    /// True when the signature covers a time, so that an old request is refused.
    pub fn signs_time(&self) -> bool {
        self.verifier.is_some() && self.spec.description.signs_time()
    }

    /// True when its secret arrives by a handshake.
    pub fn awaits_secret(&self) -> bool {
        self.spec.description.brings_secret()
    }

    /// The same source with a secret that arrived added behind those of the config.
    pub fn with_secret(&self, secret: Secret) -> Result<Self, SourceError> {
        let mut spec = self.spec.clone();
        spec.secrets.push(secret);
        Self::build(spec)
    }

    /// The name of a secret by its position from 1, where it has one.
    pub fn secret_name(&self, position: usize) -> Option<&str> {
        self.spec.secrets.get(position.checked_sub(1)?)?.name()
    }

    /// How many secrets are live.
    pub fn secrets_count(&self) -> usize {
        self.spec.secrets.len()
    }

    /// Judges a request: signature over the raw bytes, time window, identity. Pure.
    ///
    /// `path_token` is what stood behind the source's name in the URL.
    pub fn judge(&self, request: &Request, path_token: Option<&str>, now: UnixMillis) -> Verdict {
        match self.try_judge(request, path_token, now) {
            Ok(verdict) => verdict,
            Err(Refused::Rejected(rejection)) => Verdict::Reject(rejection),
            Err(Refused::NeedsKey(wanted)) => Verdict::NeedsKey(wanted),
        }
    }

    /// Keeps what the address of a key answered, for the requests to come; false when there is no key in it.
    pub fn learn(&self, wanted: &KeyWanted, text: &[u8], max_age: Option<Duration>, now: UnixMillis) -> bool {
        self.keyring().is_some_and(|ring| ring.put(wanted, text, max_age, now))
    }

    /// True when a key may be fetched now; counted, so that forged key names make no storm of fetches.
    pub fn may_fetch_key(&self, wanted: &KeyWanted, now: UnixMillis) -> bool {
        self.keyring().is_some_and(|ring| ring.may_start(wanted, now))
    }

    /// True when a key was fetched a moment ago, so that nobody has to fetch it again.
    pub fn has_just_fetched(&self, wanted: &KeyWanted, now: UnixMillis) -> bool {
        self.keyring().is_some_and(|ring| ring.is_just_fetched(&wanted.url, now))
    }

    /// Remembers for a while that a key could not be fetched.
    pub fn key_failed(&self, wanted: &KeyWanted, now: UnixMillis) {
        if let Some(ring) = self.keyring() {
            ring.failed(wanted, now);
        }
    }

    /// Keys that are in use and should be fetched again before they expire.
    pub fn keys_due(&self, now: UnixMillis) -> Vec<KeyWanted> {
        self.keyring().map(|ring| ring.due(now)).unwrap_or_default()
    }

    /// Takes over the keys that an earlier form of this source fetched, if it is still of the same provider.
    pub fn inherit_keys(&self, earlier: &Self) {
        if let (true, Some(ring), Some(known)) =
            (self.spec.provider == earlier.spec.provider, self.keyring(), earlier.keyring())
        {
            ring.inherit(known);
        }
    }

    fn keyring(&self) -> Option<&Keyring> {
        self.verifier.as_deref().and_then(Verifier::keyring)
    }

    /// Signs a draft as the provider would, with the first secret, so that [`Source::judge`] accepts it.
    pub fn sign(&self, draft: Draft, now: UnixMillis) -> Result<Request, SignError> {
        let Draft { target, headers, body } = draft;
        let request = Request { method: Method::POST, target, headers, body };
        match &self.verifier {
            Some(verifier) => verifier.sign(request, now),
            None => Ok(request),
        }
    }

    pub(crate) fn verifier(&self) -> Option<&dyn Verifier> {
        self.verifier.as_deref()
    }

    /// What it was built from.
    pub fn spec(&self) -> &SourceSpec {
        &self.spec
    }

    fn try_judge(&self, request: &Request, path_token: Option<&str>, now: UnixMillis) -> Result<Verdict, Refused> {
        if !self.methods.contains(&request.method) {
            return Err(Reason::Method.into());
        }
        self.check_path_token(path_token)?;
        let view = View::new(request, &self.identity.wants_of_whole);
        if let Some(answer) = self.handshakes.answer(request, &view, self.verifier(), false) {
            return Ok(answer?);
        }
        let verified = match &self.verifier {
            Some(verifier) => {
                let verified = verifier.verify_in(request, &view, now).map_err(|refused| {
                    // A handshake that cannot be answered is no request without a signature.
                    let is_unfit = self.handshakes.wants_too_much(request, &view);
                    if is_unfit { Reason::UnfitChallenge.into() } else { refused }
                })?;
                // Anybody can have such a signature made.
                if request.method == Method::POST && self.handshakes.may_have_signed(&request.body) {
                    return Err(Reason::Mismatch.into());
                }
                verified
            }
            None => {
                let secret = usize::from(self.spec.path_token.is_some());
                Verified { secret, ..Verified::by_key(0) }
            }
        };
        if let Some(url) = self.verifier.as_ref().and_then(|verifier| verifier.visit(request)) {
            return Ok(Verdict::Visit(Visit { url, reply: nothing_to_store() }));
        }
        if let Some(answer) = self.handshakes.answer(request, &view, self.verifier(), true) {
            return Ok(answer?);
        }
        if request.method != Method::POST {
            return Err(Reason::Method.into());
        }
        let events = self.identity.identify(request, &view, &verified, now);
        if events.is_empty() {
            return Ok(Verdict::Handshake(self.success.clone().unwrap_or_else(nothing_to_store)));
        }
        Ok(Verdict::Accept(Accepted {
            secret: verified.secret,
            signed_at: verified.signed_at,
            events,
            batch: self.spec.description.each.is_some(),
            reply: self.success.clone(),
        }))
    }

    fn check_path_token(&self, given: Option<&str>) -> Result<(), Reason> {
        match (&self.spec.path_token, given) {
            (None, None) => Ok(()),
            (Some(token), Some(given)) if is_token(token, given) => Ok(()),
            (Some(_), None) => Err(Reason::MissingSignature),
            _ => Err(Reason::Mismatch),
        }
    }
}

/// The answer to what holds no event, such as an empty batch, by which senders check that the URL is alive.
fn nothing_to_store() -> Reply {
    Reply::ok("text/plain; charset=utf-8", "")
}

fn check_rest(compiling: &mut Compiling<'_>) {
    let spec = compiling.spec;
    let mut add = |key: &str, message: &str, cure: &str| compiling.problem(key, message, cure);
    if spec.path_token.as_ref().is_some_and(Secret::is_blank) {
        add("path_token", "the token is blank", "make one with `openssl rand -hex 32`");
    } else if !spec.path_token.as_ref().is_none_or(fits_a_path) {
        add(
            "path_token",
            "is . or .., or holds a control character, which no URL can carry",
            "make one with `openssl rand -hex 32`",
        );
    }
    if spec.description.id_signed && !spec.description.signs_its_ids() {
        add("id_signed", "the id's header is not part of what is signed", "add {header:…} to msg, or remove id_signed");
    }
    if !spec.description.signs_its_delivery() {
        let cure = "name something that is in msg, or remove delivery";
        add("delivery", "this is not part of what is signed, so anybody could change it", cure);
    }
    if spec.description.delivery.is_some() && spec.description.each.is_some() {
        add("delivery", "a delivery that carries a batch brings many events", "remove delivery or each");
    }
    if spec.description.identity == IdentityRule::Id && spec.description.id.is_empty() {
        add(
            "id",
            "nothing says what identifies an event",
            "add id = \"json:/id\", or identity = \"digest\" or \"none\"",
        );
    }
}

#[cfg(test)]
mod tests;
