//! What a provider is, as data: a [`Description`] from the catalogue, a user's own, or one laid over the other.

pub(crate) mod describe;
pub(crate) mod facts;
pub(crate) mod field;

use describe::{IdentityRule, RepeatScope};

use crate::provider::catalogue;
use crate::provider::identity::batch;
use crate::provider::keys::{self, jwt, public_key};
use crate::provider::scheme::{mac, place, template};
use crate::provider::vendor::builtin;

/// A provider described as data: a catalogue entry, a user's own description, or one laid over the other.
#[derive(Clone, Debug, Default)]
pub struct Description {
    pub(crate) scheme: Option<&'static builtin::BuiltIn>,
    pub(crate) jwt: Option<jwt::Rule>,
    pub(crate) mac: Option<mac::Mac>,
    pub(crate) enc: mac::Encoding,
    pub(crate) key: mac::KeyForm,
    pub(crate) msg: Option<template::Template>,
    pub(crate) sig: Option<describe::SignatureLocation>,
    pub(crate) sig2: Option<describe::SignatureLocation>,
    pub(crate) ts: Option<describe::Time>,
    pub(crate) require: Vec<describe::Required>,
    pub(crate) require_value: Vec<(http::HeaderName, String)>,
    pub(crate) identity: IdentityRule,
    pub(crate) id: Vec<place::Composite>,
    /// What stands in for an id that is not there.
    pub(crate) otherwise: Option<IdentityRule>,
    pub(crate) id_signed: bool,
    pub(crate) id_unique: Option<bool>,
    pub(crate) body_covered: Option<bool>,
    pub(crate) body_varies: bool,
    pub(crate) repeat_scope: RepeatScope,
    /// Something that is signed for one delivery alone, where the body is not covered.
    pub(crate) delivery: Option<place::Part>,
    /// Types that may share a body though they did not come before.
    pub(crate) topics: Vec<String>,
    /// What whoever saw a request can still do with it, and why nothing stops that.
    pub(crate) open: String,
    pub(crate) event_type: Vec<place::Part>,
    pub(crate) order: Option<(place::Part, place::Part)>,
    /// When the event happened, by its sender; a retry or a resend repeats it.
    pub(crate) time: Option<place::Part>,
    pub(crate) each: Option<batch::Batch>,
    pub(crate) handshake: Vec<describe::Handshake>,
    pub(crate) success: Option<describe::Success>,
    pub(crate) body_limit: Option<u32>,
    pub(crate) retry_window: Option<u32>,
    pub(crate) deadline: Option<u32>,
    pub(crate) title: String,
    pub(crate) setup: String,
    pub(crate) secret_hint: String,
    pub(crate) docs: String,
    pub(crate) confidence: String,
}

/// The form in which a provider's secret is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretForm {
    /// Any text.
    Text,
    /// Hexadecimal.
    Hex,
    /// Base64.
    Base64,
    /// Base64 behind `whsec_`.
    Whsec,
    /// `user:password`.
    UserPassword,
    /// An Ed25519 key: the vendor's public one, or for samples a private one (PKCS#8).
    Ed25519,
    /// A P-256 key: the vendor's public one, or for samples a private one (PKCS#8).
    P256,
    /// An RSA key or a certificate: the vendor's, or for samples a private key (PKCS#8).
    Rsa,
    /// None: the token in the URL is all there is.
    PathToken,
}

/// Why a description's key was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}: {cure}")]
pub struct Problem {
    /// The key it is about, as written in the config (`sig`, `ts.past`, `secrets`, …).
    pub key: String,
    /// What is wrong, in lower case without a full stop; it never quotes the value.
    pub message: String,
    /// What to write instead.
    pub cure: String,
}

impl Problem {
    pub(crate) fn new(key: impl Into<String>, message: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into(), cure: cure.into() }
    }
}

impl Description {
    /// The keys a description may have.
    pub const KEYS: &'static [&'static str] = describe::KEYS;

    /// The catalogue entry of this slug.
    pub fn named(slug: &str) -> Option<Self> {
        catalogue::entries().get(slug).cloned()
    }

    /// Sets one key from its TOML value.
    pub fn set(&mut self, key: &str, value: &toml::Value) -> Result<(), Problem> {
        describe::set(self, &field::Field::new(key, value), key)
    }

    /// The largest body the sender makes, in bytes, where that is above the ordinary limit.
    pub fn body_limit(&self) -> Option<usize> {
        self.body_limit.and_then(|bytes| usize::try_from(bytes).ok())
    }

    /// True when a header carries a credential itself, which must not be stored, shown or forwarded.
    pub fn is_credential(&self, header: &http::HeaderName) -> bool {
        let is_token = self.mac.is_some_and(mac::Mac::is_token);
        [http::header::AUTHORIZATION, http::header::PROXY_AUTHORIZATION, http::header::COOKIE].contains(header)
            || is_token && [&self.sig, &self.sig2].into_iter().flatten().any(|carrier| carrier.is_in(header))
    }

    /// The query field that carries a credential itself, if one does.
    pub fn credential_query(&self) -> Option<&str> {
        let carriers = [&self.sig, &self.sig2].into_iter().flatten();
        carriers.filter_map(describe::SignatureLocation::query).next()
    }

    /// True when the sender sends the secret itself, so that nothing is signed.
    pub fn sends_token(&self) -> bool {
        self.mac.is_some_and(mac::Mac::is_token)
    }

    /// The header in which the sender sends the secret itself, if it does so in one.
    pub fn token_header(&self) -> Option<&str> {
        let by_default = (self.mac == Some(mac::Mac::Basic)).then_some("authorization");
        let named = self.sig.as_ref().and_then(describe::SignatureLocation::header);
        named.or(by_default).filter(|_| self.sends_token())
    }

    /// The form of the secrets its described scheme takes; none where a scheme with code decides.
    pub fn secret_form(&self) -> Option<SecretForm> {
        use keys::curve::Curve;
        use mac::{KeyForm, Mac};
        use public_key::Algorithm;
        match self.jwt.as_ref().map(|rule| rule.alg) {
            Some(jwt::Signing::Public(Algorithm::P256Fixed)) => return Some(SecretForm::P256),
            Some(jwt::Signing::Public(_)) => return Some(SecretForm::Rsa),
            _ => {}
        }
        if let Some(form) = self.scheme.and_then(|scheme| scheme.secret) {
            return Some(form);
        }
        Some(match (self.mac?, self.key) {
            (Mac::Nothing, _) => SecretForm::PathToken,
            (Mac::Basic, _) => SecretForm::UserPassword,
            (Mac::Public(Curve::Ed25519), _) => SecretForm::Ed25519,
            (Mac::Public(Curve::P256), _) => SecretForm::P256,
            (_, KeyForm::Hex) => SecretForm::Hex,
            (_, KeyForm::Base64) => SecretForm::Base64,
            (_, KeyForm::Whsec | KeyForm::WhsecOrUtf8) => SecretForm::Whsec,
            (_, KeyForm::Utf8 | KeyForm::Nfkd) => SecretForm::Text,
        })
    }

    /// True when nothing is signed, so that only the token in the URL tells who sends.
    pub fn needs_path_token(&self) -> bool {
        self.mac == Some(mac::Mac::Nothing)
    }

    /// True when the provider signs its requests, or sends a token of its own with them.
    pub fn signs(&self) -> bool {
        self.scheme.is_some() || self.mac.is_some_and(|mac| mac != mac::Mac::Nothing)
    }

    /// True when every id outside the body is part of the signed message, as `id_signed` claims.
    pub(crate) fn signs_its_ids(&self) -> bool {
        self.id_places().filter(|place| !place.is_in_body()).all(|place| self.signs_place(place))
    }

    pub(crate) fn id_places(&self) -> impl Iterator<Item = &place::Place> + Clone {
        self.id.iter().flat_map(place::Composite::parts).flat_map(place::Part::places)
    }

    /// True when what stands there is part of the signed message, besides the body.
    pub(crate) fn signs_place(&self, place: &place::Place) -> bool {
        let own = self.scheme.map(|scheme| scheme.signs).unwrap_or_default();
        let is_own = matches!(place, place::Place::Header(name) if own.contains(&name.as_str()));
        is_own || self.msg.as_ref().is_some_and(|msg| msg.covers(place))
    }

    /// True when what `delivery` names is part of the signed message.
    pub(crate) fn signs_its_delivery(&self) -> bool {
        let mut places = self.delivery.iter().flat_map(place::Part::places);
        places.all(|place| self.msg.as_ref().is_some_and(|msg| msg.covers(place)))
    }

    /// True when what is signed names one delivery, which then brings one event.
    pub(crate) fn names_delivery(&self) -> bool {
        self.delivery.is_some() || self.scheme.is_some_and(|scheme| scheme.names_delivery)
    }

    /// True when the time is part of what is signed, so that a replay is refused after the window.
    pub(crate) fn signs_time(&self) -> bool {
        let in_token = || self.jwt.as_ref().is_some_and(|rule| rule.max_age.is_some() || rule.expires);
        match self.scheme {
            None => self.ts.is_some(),
            Some(scheme) => scheme.signs_time || scheme.word == builtin::JWT && in_token(),
        }
    }

    /// True when the secret arrives by a handshake and need not be configured.
    pub fn brings_secret(&self) -> bool {
        self.handshake.iter().any(|handshake| handshake.secret.is_some())
    }

    /// True when a secret that arrives by a handshake must also be typed in at the vendor.
    pub fn shows_secret(&self) -> bool {
        self.handshake.iter().any(|handshake| handshake.secret.is_some() && handshake.show)
    }

    /// True when the signature covers the whole body.
    pub fn body_covered(&self) -> bool {
        let covered = || match self.scheme {
            Some(scheme) if scheme.word == builtin::JWT => self.jwt.as_ref().is_some_and(|rule| rule.body.is_some()),
            Some(scheme) => scheme.covers_body,
            None => self.msg.as_ref().is_some_and(|msg| msg.holds(&template::Piece::Body)),
        };
        self.body_covered.unwrap_or_else(covered)
    }
}

/// Names of the further settings that the description's scheme reads (`public_url`, `verify_token`, …).
pub const SETTINGS: &[&str] = &[
    "public_url",
    "verify_token",
    "app_key",
    "secondary",
    "next",
    "public_key",
    "topic_arn",
    "cert_url",
    "audience",
    "issuer",
    "service_account",
    "kid",
    "webhook_id",
];
