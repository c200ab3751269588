//! Schemes that no description can say: the door to the files that hold one each.
//!
//! A description names one with `scheme = "…"` in place of `mac`, `sig` and `msg`. Compiling it yields something that
//! verifies and signs; everything behind that (identity, handshakes, storage) is the same as for described schemes.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::adyen::Adyen;
use super::braintree::Braintree;
use super::contentful::Contentful;
use super::dropbox_sign::DropboxSign;
use super::mandrill::Mandrill;
use super::paypal::PayPal;
use super::sns::Sns;
use super::twilio::{Bodies, Twilio};
use crate::SecretForm;
use crate::provider::keys::Jwt;
use crate::provider::scheme::{Encoding, Verifier};
use crate::provider::{Compiling, SignError};
use crate::verdict::Reason;

/// A built-in scheme, with what people and the engine want to know about it.
#[derive(Debug)]
pub(crate) struct BuiltIn {
    /// The word of `scheme` in a description.
    pub(crate) word: &'static str,
    pub(crate) compile: fn(&mut Compiling<'_>) -> Option<Box<dyn Verifier>>,
    /// What is signed and where the signature stands.
    pub(crate) line: &'static str,
    /// The signature fixes what the whole body says.
    pub(crate) covers_body: bool,
    pub(crate) signs_time: bool,
    /// What is signed names one delivery, which then brings one event.
    pub(crate) names_delivery: bool,
    /// Headers whose values are always part of what is signed.
    pub(crate) signs: &'static [&'static str],
    pub(crate) settings: &'static [&'static str],
    /// The form of its secrets, where it takes one form only.
    pub(crate) secret: Option<SecretForm>,
}

/// The word of the scheme whose tokens the description's `jwt` table describes.
pub(crate) const JWT: &str = "jwt";

const USUAL: BuiltIn = BuiltIn {
    word: "",
    compile: |_| None,
    line: "",
    covers_body: true,
    signs_time: false,
    names_delivery: false,
    signs: &[],
    settings: &[],
    secret: None,
};

pub(crate) static BUILT_IN: [BuiltIn; 10] = [
    BuiltIn {
        word: "adyen-standard",
        compile: Adyen::compile,
        line: "hmac-sha256 over eight values of each item, in its additionalData/hmacSignature",
        covers_body: false,
        secret: Some(SecretForm::Hex),
        ..USUAL
    },
    BuiltIn {
        word: "braintree",
        compile: Braintree::compile,
        line: "hmac-sha1 over form field bt_payload, in form field bt_signature",
        settings: &["public_key"],
        ..USUAL
    },
    BuiltIn {
        word: "contentful",
        compile: Contentful::compile,
        line: "hmac-sha256 over method, path, listed headers and body, in x-contentful-signature, at most 300 s old",
        signs_time: true,
        signs: &["x-contentful-topic", "x-contentful-timestamp"],
        settings: &["public_url"],
        ..USUAL
    },
    BuiltIn {
        word: "dropbox-sign",
        compile: DropboxSign::compile,
        line: "hmac-sha256 over time and type of the event, in its event_hash, at most 36 h old",
        covers_body: false,
        signs_time: true,
        ..USUAL
    },
    BuiltIn {
        word: JWT,
        compile: Jwt::compile,
        line: "a signed token (JWT) with claims about the request",
        // A token may hash the body; the description's jwt.body says so.
        covers_body: false,
        ..USUAL
    },
    BuiltIn {
        word: "mandrill",
        compile: Mandrill::compile,
        line: "hmac-sha1 over the URL and the sorted form fields, in x-mandrill-signature",
        settings: &["public_url"],
        ..USUAL
    },
    BuiltIn {
        word: "paypal",
        compile: PayPal::compile,
        line: "rsa-sha256 over transmission id, time, webhook id and the body's CRC-32, by certificate, in paypal-transmission-sig, at most 78 h old",
        // A checksum fixes nothing.
        covers_body: false,
        signs_time: true,
        names_delivery: true,
        settings: &["webhook_id", "cert_url"],
        secret: Some(SecretForm::Rsa),
        ..USUAL
    },
    BuiltIn {
        word: "sns",
        compile: Sns::compile,
        line: "rsa-sha256 (rsa-sha1 for version 1) over fields of the body, by certificate, in /Signature",
        signs_time: true,
        settings: &["topic_arn", "cert_url"],
        secret: Some(SecretForm::Rsa),
        ..USUAL
    },
    BuiltIn {
        word: "twilio",
        compile: |compiling| Twilio::compile(compiling, Bodies::FormOrHash),
        line: "hmac-sha1 over the URL and the sorted form fields, in x-twilio-signature",
        settings: &["public_url"],
        ..USUAL
    },
    BuiltIn {
        word: "twilio-event-streams",
        compile: |compiling| Twilio::compile(compiling, Bodies::Hash),
        line: "hmac-sha1 over the URL, which holds the body's SHA-256, in x-twilio-signature",
        settings: &["public_url"],
        ..USUAL
    },
];

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

pub(crate) fn signature(headers: &HeaderMap, name: &HeaderName, enc: Encoding) -> Result<Vec<u8>, Reason> {
    decoded(line(headers, name)?, enc)
}

pub(crate) fn decoded(text: &str, enc: Encoding) -> Result<Vec<u8>, Reason> {
    enc.decode(text).filter(|bytes| !bytes.is_empty()).ok_or(Reason::MalformedSignature)
}

pub(crate) fn insert(headers: &mut HeaderMap, name: impl TryInto<HeaderName>, value: &str) -> Result<(), SignError> {
    let name = name.try_into().map_err(|_invalid| SignError::Incomplete)?;
    let value = HeaderValue::from_str(value).map_err(|_invalid| SignError::Incomplete)?;
    headers.insert(name, value);
    Ok(())
}
