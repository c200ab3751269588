//! Amazon SNS: named fields of the body, signed by a certificate that the body itself points to.
//!
//! Any AWS customer can have a message signed, so the topic must be ours before anything else counts, and the
//! certificate's address is held against Amazon's hosts before it is fetched. Version 1 (RSA with SHA-1) is taken beside
//! version 2 because topics still use it unless their owner changed them; a forger would need a second preimage, since
//! the topic stands at the end of what is signed and no value but the message may hold a line feed. Message attributes
//! are not signed: the digest that the referees see is that of the signed text.

use data_encoding::BASE64;

use super::builtin::{self, BuiltIn, reject};
use super::json::Pointer;
use super::keyring::Keyring;
use super::mac::Encoding;
use super::pin::Pin;
use super::place::{Place, Reading, View, Wants};
use super::public_key::Algorithm;
use super::scheme::Verified;
use super::sign::SignError;
use super::timestamp::{Unit, Window};
use super::vendor_keys::{Missing, VendorKeys, first_match, text};
use super::{Problem, builtin::problem};
use crate::clock::UnixMillis;
use crate::event::sha256;
use crate::request::Request;
use crate::source::SourceSpec;
use crate::verdict::{KeyWanted, NamedBy, Reason, Rejection, Step};

const HOSTS: &[&str] = &["sns.*.amazonaws.com", "sns.*.amazonaws.com.cn"];
const CERTIFICATES: Pin = Pin { hosts: HOSTS, suffix: ".pem" };
const CONFIRMATIONS: Pin = Pin { hosts: HOSTS, suffix: "" };
/// How old a message may be: retries of the usual policy end long before.
const PAST_SECONDS: i64 = 3600;
const FUTURE_SECONDS: i64 = 300;

const NOTIFICATION: &[&str] = &["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"];
const CONFIRMATION: &[&str] = &["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"];
const UNSIGNED: &[&str] = &["SignatureVersion", "Signature", "SigningCertURL", "SigningCertUrl"];

/// The scheme with a topic.
#[derive(Debug)]
pub(crate) struct Sns {
    keys: VendorKeys,
    topic: String,
    window: Window,
    wants: Wants,
}

impl Sns {
    /// Compiles a spec; adds what is wrong to `problems`.
    pub(crate) fn compile(spec: &SourceSpec, problems: &mut Vec<Problem>) -> Option<Self> {
        let keys = VendorKeys::compile(spec, Algorithm::RsaSha256, true, problems);
        let topic = text(spec, "topic_arn");
        if topic.as_deref().is_none_or(|topic| !topic.starts_with("arn:")) {
            let cure = "add topic_arn = \"arn:aws:sns:…\": any AWS customer can send signed messages of another topic";
            problems.push(problem("topic_arn", "the topic is not known", cure));
        }
        let tolerance = spec.tolerance.map(|tolerance| i64::try_from(tolerance.as_secs()).unwrap_or(i64::MAX));
        let (past, future) = tolerance.map_or((PAST_SECONDS, FUTURE_SECONDS), |both| (both, both));
        let names = NOTIFICATION.iter().chain(CONFIRMATION).chain(UNSIGNED);
        let places: Vec<Place> = names.filter_map(|name| place(name)).collect();
        let wants = Wants::new(&places);
        Some(Self { keys, topic: topic?, window: Window { past, future }, wants })
    }

    fn read(&self, request: &Request) -> Result<Message, Rejection> {
        let view = View::new(request, &self.wants);
        let get = |name: &str| match place(name).map(|place| view.read(&place)) {
            Some(Reading::Text(text)) => Ok(Some(text.into_owned())),
            Some(Reading::Missing) | None => Ok(None),
            Some(Reading::Ambiguous | Reading::Unusable | Reading::Unreadable) => {
                Err(reject(Reason::MalformedSignature))
            }
        };
        Message::read(get)
    }

    fn named(&self, message: &Message) -> Result<Option<KeyWanted>, Rejection> {
        if self.keys.are_settled() {
            return Ok(None);
        }
        let url = CERTIFICATES.admit(&message.certificate).ok_or_else(|| reject(Reason::ForeignKey))?;
        Ok(Some(KeyWanted { url, named_by: NamedBy::Request, proof: None }))
    }
}

impl BuiltIn for Sns {
    fn verify(&self, request: &Request, now: UnixMillis) -> Result<Verified, Rejection> {
        let message = self.read(request)?;
        if message.topic != self.topic {
            return Err(reject(Reason::WrongClaim));
        }
        let keys = self.keys.find(self.named(&message)?, None, now);
        let keys = keys.map_err(|_missing| reject(Reason::UnknownKey))?;
        let text = message.signed.as_bytes();
        let secret = first_match(&keys, message.algorithm, text, &message.signature, now)?;
        let bad = Rejection { step: Step::Window, reason: Reason::BadTimestamp, off_by_seconds: None };
        let time = Unit::Rfc3339.parse(&message.timestamp).ok_or(bad)?;
        Unit::Rfc3339.check(time, now, self.window)?;
        Ok(Verified { secret, covered: Some(sha256(text)), opened: None, signed_at: None })
    }

    fn sign(&self, mut request: Request, now: UnixMillis) -> Result<Request, SignError> {
        let signer = self.keys.signer().ok_or(SignError::PrivateKey)?;
        let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let mut fields = body.as_object().cloned().unwrap_or_default();
        let region = self.topic.split(':').nth(3).unwrap_or_default();
        let certificate = format!("https://sns.{region}.amazonaws.com/SimpleNotificationService-sample.pem");
        let usual = [("Type", "Notification"), ("Message", "{}"), ("SigningCertURL", &certificate)];
        for (name, value) in usual {
            fields.entry(name).or_insert_with(|| value.into());
        }
        fields.insert("TopicArn".to_owned(), self.topic.as_str().into());
        fields.insert("Timestamp".to_owned(), Unit::Rfc3339.format(now).into());
        fields.insert("SignatureVersion".to_owned(), "2".into());
        fields.insert("Signature".to_owned(), "AAAA".into());
        request.body = serde_json::Value::from(fields.clone()).to_string().into();
        let message = self.read(&request).map_err(|_unreadable| SignError::Incomplete)?;
        let signature = signer.sign(Algorithm::RsaSha256, message.signed.as_bytes()).ok_or(SignError::PrivateKey)?;
        fields.insert("Signature".to_owned(), BASE64.encode(&signature).into());
        request.body = serde_json::Value::from(fields).to_string().into();
        Ok(request)
    }

    fn has_signed_time(&self) -> bool {
        true
    }

    fn key_wanted(&self, request: &Request, now: UnixMillis) -> Option<KeyWanted> {
        let message = self.read(request).ok()?;
        match self.keys.find(self.named(&message).ok()?, None, now) {
            Err(Missing::Fetch(wanted)) => Some(wanted),
            _ => None,
        }
    }

    fn keyring(&self) -> Option<&Keyring> {
        Some(self.keys.ring())
    }

    fn visit(&self, request: &Request) -> Option<String> {
        let message = self.read(request).ok()?;
        message.subscribe.filter(|_| message.kind == "SubscriptionConfirmation")
    }
}

/// The fields of a message that count.
#[derive(Debug)]
struct Message {
    kind: String,
    topic: String,
    timestamp: String,
    certificate: String,
    algorithm: Algorithm,
    signature: Vec<u8>,
    signed: String,
    /// The confirmation's URL, only if it is Amazon's.
    subscribe: Option<String>,
}

impl Message {
    fn read(get: impl Fn(&str) -> Result<Option<String>, Rejection>) -> Result<Self, Rejection> {
        let malformed = || reject(Reason::MalformedSignature);
        let need = |name: &str| get(name)?.ok_or_else(malformed);
        let signature = get("Signature")?.filter(|text| !text.is_empty());
        let signature =
            builtin::decoded(&signature.ok_or_else(|| reject(Reason::MissingSignature))?, Encoding::Base64)?;
        let algorithm = match need("SignatureVersion")?.as_str() {
            "1" => Algorithm::RsaSha1,
            "2" => Algorithm::RsaSha256,
            _ => return Err(malformed()),
        };
        let kind = need("Type")?;
        let names = match kind.as_str() {
            "Notification" => NOTIFICATION,
            "SubscriptionConfirmation" | "UnsubscribeConfirmation" => CONFIRMATION,
            _ => return Err(malformed()),
        };
        let mut signed = String::new();
        for name in names {
            let value = if *name == "Subject" { get(name)? } else { Some(need(name)?) };
            let Some(value) = value else { continue };
            // Otherwise the border between two values could move under one signature.
            if *name != "Message" && value.contains('\n') {
                return Err(malformed());
            }
            signed.push_str(&format!("{name}\n{value}\n"));
        }
        let subscribe = get("SubscribeURL")?;
        // A confirmation that points elsewhere is no confirmation; it is refused before its certificate is fetched.
        if kind == "SubscriptionConfirmation" && subscribe.as_deref().and_then(|url| CONFIRMATIONS.admit(url)).is_none()
        {
            return Err(reject(Reason::WrongClaim));
        }
        let certificate = get("SigningCertURL")?.or(get("SigningCertUrl")?).unwrap_or_default();
        let (topic, timestamp) = (need("TopicArn")?, need("Timestamp")?);
        let subscribe = subscribe.and_then(|url| CONFIRMATIONS.admit(&url));
        Ok(Self { kind, topic, timestamp, certificate, algorithm, signature, signed, subscribe })
    }
}

fn place(name: &str) -> Option<Place> {
    Pointer::parse(&format!("/{name}")).map(Place::Json)
}
