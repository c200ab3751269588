//! Schemes that no description can say: the door to the files that hold one each.
//!
//! A description names one with `scheme = "…"` in place of `mac`, `sig` and `msg`. Compiling it yields something that
//! verifies and signs; everything behind that (identity, handshakes, storage) is the same as for described schemes.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::Problem;
use crate::UnixMillis;
use crate::provider::SourceSpec;
use crate::provider::keys::jwt::Jwt;
use crate::provider::keys::keyring::Keyring;
use crate::provider::scheme::Verified;
use crate::provider::scheme::address::Address;
use crate::provider::scheme::mac::Encoding;
use crate::provider::sign::SignError;
use crate::provider::vendor::adyen::Adyen;
use crate::provider::vendor::braintree::Braintree;
use crate::provider::vendor::contentful::Contentful;
use crate::provider::vendor::dropbox_sign::DropboxSign;
use crate::provider::vendor::mandrill::Mandrill;
use crate::provider::vendor::paypal::PayPal;
use crate::provider::vendor::sns::Sns;
use crate::provider::vendor::twilio::{Bodies, Twilio};
use crate::request::Request;
use crate::secret::Secret;
use crate::verdict::{KeyWanted, Reason, Rejection};

/// The built-in schemes by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The URL and sorted form pairs, or the URL with a hash of the body in it.
    Twilio,
    /// The URL with a hash of the body in it.
    TwilioEventStreams,
    /// The URL and sorted form pairs.
    Mandrill,
    /// Eight values of each item.
    AdyenStandard,
    /// A form field of base64 XML.
    Braintree,
    /// A request with the headers that it lists.
    Contentful,
    /// Time and type of the event.
    DropboxSign,
    /// A token with claims about the request.
    Jwt,
    /// Amazon SNS: fields of the body, a certificate.
    Sns,
    /// PayPal: headers and a checksum of the body, a certificate.
    PayPal,
}

/// What people and the engine want to know about a built-in scheme.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KindFacts {
    /// What is signed and where the signature stands.
    pub(crate) line: &'static str,
    /// The signature fixes what the whole body says.
    pub(crate) covers_body: bool,
    /// The time is part of what is signed.
    pub(crate) signs_time: bool,
    /// What is signed names one delivery, which then brings one event.
    pub(crate) names_delivery: bool,
    /// Headers whose values are always part of what is signed.
    pub(crate) signs: &'static [&'static str],
    /// The settings it reads.
    pub(crate) settings: &'static [&'static str],
}

/// The words of `scheme` in a description.
pub(crate) const KINDS: &[(&str, Kind)] = &[
    ("adyen-standard", Kind::AdyenStandard),
    ("braintree", Kind::Braintree),
    ("contentful", Kind::Contentful),
    ("dropbox-sign", Kind::DropboxSign),
    ("jwt", Kind::Jwt),
    ("mandrill", Kind::Mandrill),
    ("paypal", Kind::PayPal),
    ("sns", Kind::Sns),
    ("twilio", Kind::Twilio),
    ("twilio-event-streams", Kind::TwilioEventStreams),
];

/// A built-in scheme with its keys.
pub(crate) trait BuiltIn: fmt::Debug + Send + Sync {
    /// Judges signature, then time.
    fn verify(&self, request: &Request, now: UnixMillis) -> Result<Verified, Rejection>;

    /// Refuses by the head alone what `verify` would refuse with any body.
    fn judge_head(&self, _headers: &HeaderMap, _now: UnixMillis) -> Result<(), Rejection> {
        Ok(())
    }

    /// Adds time and signature to a request, so that `verify` accepts it.
    fn sign(&self, request: Request, now: UnixMillis) -> Result<Request, SignError>;

    /// True when the time is part of what is signed.
    fn has_signed_time(&self) -> bool {
        false
    }

    /// What the scheme's own key makes of a challenge; none where that would sign something else.
    fn answer(&self, _challenge: &str) -> Option<String> {
        None
    }

    /// The public URL, where it is signed.
    fn address(&self) -> Option<&Address> {
        None
    }

    /// The same scheme at another public URL, for finding out what is wrong with the one in the config.
    fn moved_to(&self, _address: Address) -> Option<Box<dyn BuiltIn>> {
        None
    }

    /// The key that must be fetched before the request can be judged, after `verify` said that it is not known.
    fn key_wanted(&self, _request: &Request, _now: UnixMillis) -> Option<KeyWanted> {
        None
    }

    /// The fetched keys, where there may be some.
    fn keyring(&self) -> Option<&Keyring> {
        None
    }

    /// The URL that a verified request wants visited in place of being stored.
    fn visit(&self, _request: &Request) -> Option<String> {
        None
    }
}

impl Kind {
    /// Compiles a spec; adds what is wrong to `problems`.
    pub(crate) fn compile(self, spec: &SourceSpec, problems: &mut Vec<Problem>) -> Option<Box<dyn BuiltIn>> {
        match self {
            Self::Twilio => boxed(Twilio::compile(spec, Bodies::FormOrHash, problems)),
            Self::TwilioEventStreams => boxed(Twilio::compile(spec, Bodies::Hash, problems)),
            Self::Mandrill => boxed(Mandrill::compile(spec, problems)),
            Self::AdyenStandard => boxed(Some(Adyen::compile(spec, problems))),
            Self::Braintree => boxed(Braintree::compile(spec, problems)),
            Self::Contentful => boxed(Contentful::compile(spec, problems)),
            Self::DropboxSign => boxed(Some(DropboxSign::compile(spec, problems))),
            Self::Jwt => boxed(Jwt::compile(spec, problems)),
            Self::Sns => boxed(Sns::compile(spec, problems)),
            Self::PayPal => boxed(PayPal::compile(spec, problems)),
        }
    }

    /// What people and the engine want to know about it.
    pub(crate) fn facts(self) -> KindFacts {
        let plain = KindFacts {
            line: "",
            covers_body: true,
            signs_time: false,
            names_delivery: false,
            signs: &[],
            settings: &[],
        };
        match self {
            Self::Twilio => KindFacts {
                line: "hmac-sha1 over the URL and the sorted form fields, in x-twilio-signature",
                settings: &["public_url"],
                ..plain
            },
            Self::TwilioEventStreams => KindFacts {
                line: "hmac-sha1 over the URL, which holds the body's SHA-256, in x-twilio-signature",
                settings: &["public_url"],
                ..plain
            },
            Self::Mandrill => KindFacts {
                line: "hmac-sha1 over the URL and the sorted form fields, in x-mandrill-signature",
                settings: &["public_url"],
                ..plain
            },
            Self::AdyenStandard => KindFacts {
                line: "hmac-sha256 over eight values of each item, in its additionalData/hmacSignature",
                covers_body: false,
                ..plain
            },
            Self::Braintree => KindFacts {
                line: "hmac-sha1 over form field bt_payload, in form field bt_signature",
                settings: &["public_key"],
                ..plain
            },
            Self::Contentful => KindFacts {
                line: "hmac-sha256 over method, path, listed headers and body, in x-contentful-signature, at most 300 s old",
                signs_time: true,
                signs: &["x-contentful-topic", "x-contentful-timestamp"],
                settings: &["public_url"],
                ..plain
            },
            Self::DropboxSign => KindFacts {
                line: "hmac-sha256 over time and type of the event, in its event_hash, at most 36 h old",
                covers_body: false,
                signs_time: true,
                ..plain
            },
            Self::Jwt => KindFacts {
                line: "a signed token (JWT) with claims about the request",
                // A token may hash the body; the description's jwt.body says so.
                covers_body: false,
                ..plain
            },
            Self::Sns => KindFacts {
                line: "rsa-sha256 (rsa-sha1 for version 1) over fields of the body, by certificate, in /Signature",
                signs_time: true,
                settings: &["topic_arn", "cert_url"],
                ..plain
            },
            Self::PayPal => KindFacts {
                line: "rsa-sha256 over transmission id, time, webhook id and the body's CRC-32, by certificate, in paypal-transmission-sig, at most 78 h old",
                // A checksum fixes nothing.
                covers_body: false,
                signs_time: true,
                names_delivery: true,
                settings: &["webhook_id", "cert_url"],
                ..plain
            },
        }
    }
}

fn boxed(scheme: Option<impl BuiltIn + 'static>) -> Option<Box<dyn BuiltIn>> {
    scheme.map(|scheme| Box::new(scheme) as Box<dyn BuiltIn>)
}

/// Every live secret as a key; adds those that are blank or of the wrong form to `problems`.
pub(crate) fn keys<K>(spec: &SourceSpec, problems: &mut Vec<Problem>, make: impl Fn(&Secret) -> Option<K>) -> Vec<K> {
    let mut keys = Vec::new();
    if spec.secrets.is_empty() {
        problems.push(problem("secrets", "there is no secret", "add secrets = [{ env = \"NAME\" }]"));
    }
    for (index, secret) in spec.secrets.iter().enumerate() {
        let key = format!("secrets[{index}]");
        if secret.is_blank() {
            let cure = "copy it from the vendor; an empty one would let anybody in";
            problems.push(problem(&key, "the secret is empty", cure));
            continue;
        }
        match make(secret) {
            Some(ready) => keys.push(ready),
            None => problems.push(problem(
                &key,
                "the secret does not have the form this provider uses",
                "copy it again in full",
            )),
        }
    }
    keys
}

/// A setting that the scheme cannot do without.
pub(crate) fn setting(spec: &SourceSpec, name: &str, problems: &mut Vec<Problem>) -> Option<Secret> {
    let value = spec.settings.get(name).filter(|value| !value.is_blank()).cloned();
    if value.is_none() {
        problems.push(problem(name, "this provider needs this setting", "add it to the source"));
    }
    value
}

/// The one line of a header, without which nothing is signed.
pub(crate) fn line<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a str, Reason> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next().ok_or(Reason::MissingSignature)?;
    if lines.next().is_some() {
        return Err(Reason::TooManySignatures);
    }
    match std::str::from_utf8(line.as_bytes()) {
        Ok(text) if text.trim().is_empty() => Err(Reason::MissingSignature),
        Ok(text) => Ok(text),
        Err(_not_utf8) => Err(Reason::MalformedSignature),
    }
}

/// The one signature in a header, decoded.
pub(crate) fn signature(headers: &HeaderMap, name: &HeaderName, enc: Encoding) -> Result<Vec<u8>, Reason> {
    decoded(line(headers, name)?, enc)
}

/// A signature, decoded.
pub(crate) fn decoded(text: &str, enc: Encoding) -> Result<Vec<u8>, Reason> {
    enc.decode(text).filter(|bytes| !bytes.is_empty()).ok_or(Reason::MalformedSignature)
}

/// Writes a header that signing makes.
pub(crate) fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) -> Result<(), SignError> {
    let value = HeaderValue::from_str(value).map_err(|_invalid| SignError::Incomplete)?;
    headers.insert(name, value);
    Ok(())
}

pub(crate) fn problem(key: &str, message: &str, cure: &str) -> Problem {
    Problem { key: key.to_owned(), message: message.to_owned(), cure: cure.to_owned() }
}
