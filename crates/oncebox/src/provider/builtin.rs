//! Schemes that no description can say: the door to the files that hold one each.
//!
//! A description names one with `scheme = "…"` in place of `mac`, `sig` and `msg`. Compiling it yields something that
//! verifies and signs; everything behind that (identity, handshakes, storage) is the same as for described schemes.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::Problem;
use super::address::Address;
use super::mac::Encoding;
use super::scheme::Verified;
use super::sign::SignError;
use super::twilio::Twilio;
use crate::clock::UnixMillis;
use crate::request::Request;
use crate::secret::Secret;
use crate::source::SourceSpec;
use crate::verdict::{Reason, Rejection, Step};

/// The built-in schemes by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The configured URL and sorted form pairs, or the URL with a hash of the body in it.
    Twilio,
}

/// The words of `scheme` in a description.
pub(crate) const KINDS: &[(&str, Kind)] = &[("twilio", Kind::Twilio)];

/// A built-in scheme with its keys.
pub(crate) trait BuiltIn: fmt::Debug + Send + Sync {
    /// Judges signature, then time.
    fn verify(&self, request: &Request, now: UnixMillis) -> Result<Verified, Rejection>;

    /// Adds time and signature to a request, so that `verify` accepts it.
    fn sign(&self, request: Request, now: UnixMillis) -> Result<Request, SignError>;

    /// True when the time is part of what is signed.
    fn has_signed_time(&self) -> bool {
        false
    }

    /// The public URL, where it is signed.
    fn address(&self) -> Option<&Address> {
        None
    }

    /// The same scheme at another public URL, for finding out what is wrong with the one in the config.
    fn moved_to(&self, _address: Address) -> Option<Box<dyn BuiltIn>> {
        None
    }
}

impl Kind {
    /// Compiles a spec; adds what is wrong to `problems`.
    pub(crate) fn compile(self, spec: &SourceSpec, problems: &mut Vec<Problem>) -> Option<Box<dyn BuiltIn>> {
        match self {
            Self::Twilio => boxed(Twilio::compile(spec, problems)),
        }
    }

    /// True when the signature fixes what the whole body says.
    pub(crate) fn covers_body(self) -> bool {
        match self {
            Self::Twilio => true,
        }
    }

    /// What is signed and where the signature stands, in a line.
    pub(crate) fn signature_line(self) -> &'static str {
        match self {
            Self::Twilio => "hmac-sha1 over the URL and the sorted form fields, in x-twilio-signature",
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
        let key = format!("secrets[{}]", index + 1);
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
pub(crate) fn line<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a str, Rejection> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next().ok_or_else(|| reject(Reason::MissingSignature))?;
    if lines.next().is_some() {
        return Err(reject(Reason::TooManySignatures));
    }
    match std::str::from_utf8(line.as_bytes()) {
        Ok(text) if text.trim().is_empty() => Err(reject(Reason::MissingSignature)),
        Ok(text) => Ok(text),
        Err(_not_utf8) => Err(reject(Reason::MalformedSignature)),
    }
}

/// The one signature in a header, decoded.
pub(crate) fn signature(headers: &HeaderMap, name: &HeaderName, enc: Encoding) -> Result<Vec<u8>, Rejection> {
    decoded(line(headers, name)?, enc)
}

/// A signature, decoded.
pub(crate) fn decoded(text: &str, enc: Encoding) -> Result<Vec<u8>, Rejection> {
    enc.decode(text).filter(|bytes| !bytes.is_empty()).ok_or_else(|| reject(Reason::MalformedSignature))
}

/// Writes a header that signing makes.
pub(crate) fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) -> Result<(), SignError> {
    let value = HeaderValue::from_str(value).map_err(|_invalid| SignError::Incomplete)?;
    headers.insert(name, value);
    Ok(())
}

pub(crate) fn reject(reason: Reason) -> Rejection {
    Rejection { step: Step::Signature, reason, off_by_seconds: None }
}

pub(crate) fn problem(key: &str, message: &str, cure: &str) -> Problem {
    Problem { key: key.to_owned(), message: message.to_owned(), cure: cure.to_owned() }
}
