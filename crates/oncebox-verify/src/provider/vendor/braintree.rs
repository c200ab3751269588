//! Braintree's scheme: a form with base64 XML and, for every API key pair, `public|hex` of a keyed SHA-1 over the base64.
//!
//! Before an account's first webhook a GET brings a challenge that is answered with the same key. That must not sign
//! payloads for strangers: a challenge is a short run of hex digits, and a payload that could be one is refused.

use std::borrow::Cow;

use data_encoding::{BASE64, HEXLOWER};
use ring::digest;
use serde_json::json;
use subtle::ConstantTimeEq;

use crate::UnixMillis;
use crate::digest::sha256;
use crate::provider::scheme::{Encoding, Key, KeyForm, Mac, Refused, SIGNATURES_MAX, Verified, Verifier};
use crate::provider::vendor::builtin;
use crate::provider::{Compiling, SignError};
use crate::read::{NoText, form, xml};
use crate::request::Request;
use crate::secret::Secret;
use crate::verdict::Reason;

const SIGNATURE: &str = "bt_signature";
pub(crate) const PAYLOAD: &str = "bt_payload";

#[derive(Clone, Debug)]
pub(crate) struct Braintree {
    public: Secret,
    keys: Vec<Key>,
}

impl Braintree {
    pub(crate) fn compile(compiling: &mut Compiling<'_>) -> Option<Box<dyn Verifier>> {
        let keys = compiling.keys(|secret| {
            let hashed = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, secret.expose());
            Key::new(Mac::HmacSha1, KeyForm::Utf8, &Secret::new(hashed.as_ref()))
        });
        Some(Box::new(Self { public: compiling.need("public_key")?.clone(), keys }))
    }

    /// The signatures beside our public key.
    fn signatures(&self, text: &str) -> Result<Vec<Vec<u8>>, Reason> {
        let mut signatures = Vec::new();
        for (index, pair) in text.split('&').enumerate() {
            if index == SIGNATURES_MAX {
                return Err(Reason::TooManySignatures);
            }
            let (public, signature) = pair.split_once('|').ok_or(Reason::MalformedSignature)?;
            if bool::from(public.as_bytes().ct_eq(self.public.expose())) {
                signatures.push(builtin::decoded(signature, Encoding::Hex)?);
            }
        }
        if signatures.is_empty() { Err(Reason::Mismatch) } else { Ok(signatures) }
    }

    fn pair(&self, key: &Key, text: &str) -> Option<String> {
        let signature = HEXLOWER.encode(&key.sign(&[Cow::Borrowed(text.as_bytes())])?);
        Some(format!("{}|{signature}", String::from_utf8_lossy(self.public.expose())))
    }
}

impl Verifier for Braintree {
    fn verify(&self, request: &Request, _now: UnixMillis) -> Result<Verified, Refused> {
        let signature = field(&request.body, SIGNATURE)?;
        let payload = field(&request.body, PAYLOAD)?;
        let bare = payload.strip_suffix('\n').unwrap_or(&payload);
        if is_challenge(bare) {
            return Err(Reason::Mismatch.into());
        }
        let given = self.signatures(&signature)?;
        let spellings = [[bare.as_bytes().into()], [Cow::Owned([bare.as_bytes(), b"\n"].concat())]];
        let fits = |key: &Key| spellings.iter().any(|message| key.verify(message, &given));
        let index = self.keys.iter().position(fits).ok_or(Reason::Mismatch)?;
        let covered = Some(sha256(bare.as_bytes()));
        Ok(Verified { covered, opened: Some(open(bare).into()), ..Verified::by_key(index) })
    }

    fn sign(&self, mut request: Request, _now: UnixMillis) -> Result<Request, SignError> {
        let key = self.keys.first().ok_or(SignError::Incomplete)?;
        let Ok(payload) = form::field(&request.body, PAYLOAD) else { return Err(SignError::Incomplete) };
        let pair = self.pair(key, &payload).ok_or(SignError::Incomplete)?;
        request.body = format!("{SIGNATURE}={}&{PAYLOAD}={}", form::encode(&pair), form::encode(&payload)).into();
        Ok(request)
    }

    fn answer(&self, challenge: &str) -> Option<String> {
        if !is_challenge(challenge) {
            return None;
        }
        self.pair(self.keys.first()?, challenge)
    }
}

fn is_challenge(text: &str) -> bool {
    (20..=32).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn field<'a>(body: &'a [u8], name: &str) -> Result<Cow<'a, str>, Reason> {
    match form::field(body, name) {
        Ok(text) if text.trim().is_empty() => Err(Reason::MissingSignature),
        Ok(text) => Ok(text),
        Err(NoText::Missing) => Err(Reason::MissingSignature),
        Err(NoText::Ambiguous) => Err(Reason::TooManySignatures),
        Err(NoText::Unusable | NoText::Unreadable) => Err(Reason::MalformedSignature),
    }
}

/// What identifies a notification, as the document that ids are read from; what cannot be read is left out, and then the
/// event waits for a person.
fn open(payload: &str) -> String {
    let packed: String = payload.chars().filter(|letter| !letter.is_ascii_whitespace()).collect();
    let Ok(bytes) = BASE64.decode(packed.as_bytes()) else { return String::new() };
    let Ok(text) = std::str::from_utf8(&bytes) else { return String::new() };
    let Some(found) = xml::find(text, &[&["notification", "kind"], &["notification", "timestamp"], SUBJECT_ID]) else {
        return String::new();
    };
    let [kind, timestamp, subject] = found.as_slice() else { return String::new() };
    // Some subjects have no id (a check, a disconnected merchant): their bytes name them.
    let subject = subject.clone().unwrap_or_else(|| HEXLOWER.encode(&sha256(&bytes)[..16]));
    json!({ "kind": kind, "timestamp": timestamp, "subject": subject }).to_string()
}

const SUBJECT_ID: &[&str] = &["notification", "subject", "*", "id"];
