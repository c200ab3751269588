//! Amazon SNS: named fields of the body, signed by a certificate that the body itself points to.
//!
//! Any AWS customer can have a message signed, so the topic must be ours before anything else counts. The certificate's
//! address must be that of the topic's own region before it is fetched, and what is fetched must be a certificate that
//! authorities issued to Amazon SNS. One that the operator gives is trusted as it is. Version 1 (RSA with SHA-1) is taken beside
//! version 2 because topics still use it unless their owner changed them; a forger would need a second preimage, since
//! the topic stands at the end of what is signed and no value but the message may hold a line feed. Message attributes
//! are not signed: the digest that the referees see is that of the signed text.

use std::sync::LazyLock;

use data_encoding::BASE64;

use crate::UnixMillis;
use crate::digest::sha256;
use crate::provider::keys::{Algorithm, Keyring, Pin, VendorKeys, first_match};
use crate::provider::scheme::{Encoding, Refused, Unit, Verified, Verifier, Window};
use crate::provider::vendor::builtin;
use crate::provider::{Compiling, SignError};
use crate::read::NoText;
use crate::read::json::{self, Wanted};
use crate::request::Request;
use crate::verdict::{KeyWanted, NamedBy, Proof, Reason};

/// How old a message may be: retries of the usual policy end long before.
const PAST_SECONDS: i64 = 3600;
const FUTURE_SECONDS: i64 = 300;

const NOTIFICATION: &[&str] = &["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"];
const CONFIRMATION: &[&str] = &["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"];
const READ: [&str; 12] = [
    "/Message",
    "/MessageId",
    "/Subject",
    "/Timestamp",
    "/TopicArn",
    "/Type",
    "/SubscribeURL",
    "/Token",
    "/SignatureVersion",
    "/Signature",
    "/SigningCertURL",
    "/SigningCertUrl",
];

#[derive(Debug)]
pub(crate) struct Sns {
    keys: VendorKeys,
    topic: String,
    region: Region,
    window: Window,
}

impl Sns {
    pub(crate) fn compile(compiling: &mut Compiling<'_>) -> Option<Box<dyn Verifier>> {
        let keys = VendorKeys::compile(compiling, Algorithm::RsaSha256, true);
        let topic = compiling.text("topic_arn");
        let region = topic.as_deref().and_then(Region::of);
        if region.is_none() {
            let message = if topic.is_some() { "this is no ARN of a topic" } else { "the topic is not known" };
            let cure = "add topic_arn = \"arn:aws:sns:REGION:ACCOUNT:NAME\": any AWS customer can send signed messages of \
                        another topic, and its region says where the certificate is";
            compiling.problem("topic_arn", message, cure);
        }
        let window = compiling.window(PAST_SECONDS, FUTURE_SECONDS);
        Some(Box::new(Self { keys, topic: topic?, region: region?, window }))
    }

    fn read(&self, request: &Request) -> Result<Message, Reason> {
        static WANTED: LazyLock<Wanted> = LazyLock::new(|| Wanted::of(&READ));
        let hits = WANTED.find(&request.body).map_err(|json::Unreadable| Reason::MalformedSignature)?;
        let get = |name: &str| {
            let index = READ.iter().position(|pointer| pointer[1..] == *name);
            match index.map_or(Err(NoText::Missing), |index| WANTED.read(&hits, WANTED.at(index))) {
                Ok(text) => Ok(Some(text.into_owned())),
                Err(NoText::Missing) => Ok(None),
                Err(_) => Err(Reason::MalformedSignature),
            }
        };
        Message::read(get, &self.region.pin(None))
    }

    fn named(&self, message: &Message) -> Result<Option<KeyWanted>, Reason> {
        if self.keys.are_settled() {
            return Ok(None);
        }
        let url = self.region.pin(Some(is_certificate)).admit(&message.certificate);
        let url = url.ok_or(Reason::ForeignKey)?;
        Ok(Some(KeyWanted { url, named_by: NamedBy::Request, proof: Some(Proof::Named(self.region.names())) }))
    }
}

impl Verifier for Sns {
    fn verify(&self, request: &Request, now: UnixMillis) -> Result<Verified, Refused> {
        let message = self.read(request)?;
        if message.topic != self.topic {
            return Err(Reason::WrongClaim.into());
        }
        let keys = self.keys.find(self.named(&message)?, None, now)?;
        let text = message.signed.as_bytes();
        let secret = first_match(&keys, message.algorithm, text, &message.signature, now)?;
        let time = Unit::Rfc3339.parse(&message.timestamp).ok_or(Reason::BadTimestamp)?;
        Unit::Rfc3339.check(time, now, self.window)?;
        Ok(Verified { secret, covered: Some(sha256(text)), ..Verified::by_key(0) })
    }

    fn sign(&self, mut request: Request, now: UnixMillis) -> Result<Request, SignError> {
        let signer = self.keys.signer.as_ref().ok_or(SignError::PrivateKey)?;
        let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let mut fields = body.as_object().cloned().unwrap_or_default();
        let certificate = format!("https://{}/SimpleNotificationService-{}.pem", self.region.host(), "0".repeat(32));
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

    fn keyring(&self) -> Option<&Keyring> {
        Some(&self.keys.ring)
    }

    fn visit(&self, request: &Request) -> Option<String> {
        let message = self.read(request).ok()?;
        message.subscribe.filter(|_| message.kind == "SubscriptionConfirmation")
    }
}

#[derive(Debug)]
struct Message {
    kind: String,
    topic: String,
    timestamp: String,
    certificate: String,
    algorithm: Algorithm,
    signature: Vec<u8>,
    signed: String,
    /// The confirmation's URL, only if it is that of the topic's region.
    subscribe: Option<String>,
}

impl Message {
    fn read(get: impl Fn(&str) -> Result<Option<String>, Reason>, own: &Pin) -> Result<Self, Reason> {
        let need = |name: &str| get(name)?.ok_or(Reason::MalformedSignature);
        let signature = get("Signature")?.filter(|text| !text.is_empty());
        let signature = builtin::decoded(&signature.ok_or(Reason::MissingSignature)?, Encoding::Base64)?;
        let algorithm = match need("SignatureVersion")?.as_str() {
            "1" => Algorithm::RsaSha1,
            "2" => Algorithm::RsaSha256,
            _ => return Err(Reason::MalformedSignature),
        };
        let kind = need("Type")?;
        let names = match kind.as_str() {
            "Notification" => NOTIFICATION,
            "SubscriptionConfirmation" | "UnsubscribeConfirmation" => CONFIRMATION,
            _ => return Err(Reason::MalformedSignature),
        };
        let mut signed = String::new();
        for name in names {
            let value = if *name == "Subject" { get(name)? } else { Some(need(name)?) };
            let Some(value) = value else { continue };
            // Otherwise the border between two values could move under one signature.
            if *name != "Message" && value.contains('\n') {
                return Err(Reason::MalformedSignature);
            }
            signed.push_str(&format!("{name}\n{value}\n"));
        }
        let subscribe = get("SubscribeURL")?;
        // A confirmation that points elsewhere is no confirmation; it is refused before its certificate is fetched.
        let subscribe = subscribe.and_then(|url| own.admit(&url));
        if kind == "SubscriptionConfirmation" && subscribe.is_none() {
            return Err(Reason::WrongClaim);
        }
        let certificate = get("SigningCertURL")?.or(get("SigningCertUrl")?).unwrap_or_default();
        let (topic, timestamp) = (need("TopicArn")?, need("Timestamp")?);
        Ok(Self { kind, topic, timestamp, certificate, algorithm, signature, signed, subscribe })
    }
}

/// Where a topic lives: its certificates and confirmations are at this region's host and nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Region {
    name: String,
    domain: &'static str,
}

impl Region {
    /// The region of a topic's ARN; none for what is no topic, and for partitions that are not on the public net.
    fn of(topic: &str) -> Option<Self> {
        let parts: Vec<&str> = topic.split(':').collect();
        let ["arn", partition, "sns", name, account, topic] = parts[..] else { return None };
        let domain = match partition {
            "aws" | "aws-us-gov" => "amazonaws.com",
            "aws-cn" => "amazonaws.com.cn",
            _ => return None,
        };
        let is_label = |text: &str| text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        let is_whole = !name.is_empty() && is_label(name) && !account.is_empty() && !topic.is_empty();
        is_whole.then(|| Self { name: name.to_owned(), domain })
    }

    fn host(&self) -> String {
        format!("sns.{}.{}", self.name, self.domain)
    }

    fn pin(&self, path: Option<fn(&str) -> bool>) -> Pin {
        Pin { hosts: vec![self.host()], path }
    }

    /// What Amazon calls itself in the certificates of this region: older regions share one name, newer ones have their
    /// own, and both regions of GovCloud use that of the first.
    fn names(&self) -> Vec<String> {
        let Self { name, domain } = self;
        let mut names = vec![format!("sns.{domain}"), self.host()];
        names.extend([format!("sns-signing.{name}.{domain}"), format!("sns-{name}.{domain}")]);
        if name.starts_with("us-gov-") {
            names.push(format!("sns-us-gov-west-1.{domain}"));
        }
        names
    }
}

/// `/SimpleNotificationService-`, 32 hex digits, `.pem`.
fn is_certificate(path: &str) -> bool {
    let digits = path.strip_prefix("/SimpleNotificationService-").and_then(|rest| rest.strip_suffix(".pem"));
    digits.is_some_and(|digits| {
        digits.len() == 32 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_says_its_region() {
        for (topic, host) in [
            ("arn:aws:sns:eu-central-1:123456789012:orders", Some("sns.eu-central-1.amazonaws.com")),
            ("arn:aws:sns:us-east-2:123456789012:orders.fifo", Some("sns.us-east-2.amazonaws.com")),
            ("arn:aws-us-gov:sns:us-gov-east-1:1:orders", Some("sns.us-gov-east-1.amazonaws.com")),
            ("arn:aws-cn:sns:cn-north-1:1:orders", Some("sns.cn-north-1.amazonaws.com.cn")),
            ("arn:aws-iso:sns:us-iso-east-1:1:orders", None),
            ("arn:aws:sqs:eu-central-1:1:orders", None),
            ("arn:aws:sns::1:orders", None),
            ("arn:aws:sns:evil.example/:1:orders", None),
            ("arn:aws:sns:eu-central-1:1:orders:subscription", None),
            ("arn:aws:sns:eu-central-1", None),
            ("", None),
        ] {
            assert_eq!(Region::of(topic).map(|region| region.host()).as_deref(), host, "{topic}");
        }
    }

    #[test]
    fn only_the_shape_of_a_certificates_path() {
        assert!(is_certificate("/SimpleNotificationService-7ff5318490ec183fbaddaa2a969abfda.pem"));
        for path in [
            "/x.pem",
            "/SimpleNotificationService.pem",
            "/SimpleNotificationService-7ff5318490ec183fbaddaa2a969abfd.pem",
            "/SimpleNotificationService-7ff5318490ec183fbaddaa2a969abfda0.pem",
            "/SimpleNotificationService-7FF5318490EC183FBADDAA2A969ABFDA.pem",
            "/SimpleNotificationService-7ff5318490ec183fbaddaa2a969abfda.crt",
            "/b/SimpleNotificationService-7ff5318490ec183fbaddaa2a969abfda.pem",
        ] {
            assert!(!is_certificate(path), "{path}");
        }
    }
}
