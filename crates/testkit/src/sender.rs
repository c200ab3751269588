//! Signed webhooks, built from the vendors' descriptions and not from the library's code.
//!
//! Each provider has two functions: one that signs any bytes (`stripe_bytes`), and one that makes a usual body for an
//! id and a type first (`stripe`). Times are Unix seconds and are always handed in. Providers whose id sits in a
//! header (GitHub, Shopify, Twilio) do not repeat it in the body: vary `extra` where bodies must differ.

use std::io;

use data_encoding::{BASE64, HEXLOWER};
use ring::{digest, hmac};
use serde_json::{Value, json};

use crate::http::{self, Answer};

/// A request as its sender would make it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// Its headers, signature included.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Signed {
    /// The whole request to `/in/{source}`.
    pub fn raw(&self, source: &str, host: &str) -> Vec<u8> {
        http::encode(host, "POST", &format!("/in/{source}"), &self.header_refs(), &self.body)
    }

    /// Sends it to `/in/{source}`.
    pub fn post(&self, addr: &str, source: &str) -> Answer {
        http::post(addr, &format!("/in/{source}"), &self.header_refs(), &self.body)
    }

    /// Sends it where there may be nobody to answer.
    pub fn try_post(&self, addr: &str, source: &str) -> io::Result<Answer> {
        http::request(addr, "POST", &format!("/in/{source}"), &self.header_refs(), &self.body)
    }

    /// Sets a header, in place of one of that name.
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self = self.without_header(name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Takes a header away.
    pub fn without_header(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// Changes one byte of the body after signing; an empty body gets one.
    pub fn tampered(mut self) -> Self {
        match self.body.last_mut() {
            Some(byte) => *byte ^= 1,
            None => self.body.push(b' '),
        }
        self
    }

    /// SHA-256 of the body in hex, as `events_v1` shows it.
    pub fn body_sha256(&self) -> String {
        sha256_hex(&self.body)
    }

    fn new(content_type: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Self {
        let content_type = ("content-type", content_type);
        let headers = std::iter::once(&content_type).chain(headers);
        Self { headers: headers.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(), body }
    }

    fn header_refs(&self) -> Vec<(&str, &str)> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }
}

/// A Stripe event whose object is `extra`.
pub fn stripe(secret: &str, now: i64, id: &str, kind: &str, extra: &Value) -> Signed {
    let body = json!({"id": id, "object": "event", "type": kind, "created": now, "data": {"object": extra}});
    stripe_bytes(secret, now, body.to_string().into_bytes())
}

/// Any bytes, signed as Stripe does: the whole `whsec_…` text is the key.
pub fn stripe_bytes(secret: &str, now: i64, body: Vec<u8>) -> Signed {
    let mac = hmac_sha256(secret.as_bytes(), &[now.to_string().as_bytes(), b".", &body]);
    let signature = format!("t={now},v1={}", HEXLOWER.encode(&mac));
    Signed::new(JSON, &[("Stripe-Signature", &signature)], body)
}

/// A GitHub event; a type `pull_request.opened` is the event `pull_request` with the action `opened` over `extra`.
pub fn github(secret: &str, id: &str, kind: &str, extra: &Value) -> Signed {
    let (event, action) = kind.split_once('.').map_or((kind, None), |(event, action)| (event, Some(action)));
    let mut body = extra.clone();
    if let (Some(action), Value::Object(fields)) = (action, &mut body) {
        fields.insert("action".to_owned(), action.into());
    }
    github_bytes(secret, id, event, body.to_string().into_bytes())
}

/// Any bytes, signed as GitHub does.
pub fn github_bytes(secret: &str, id: &str, event: &str, body: Vec<u8>) -> Signed {
    let signature = format!("sha256={}", HEXLOWER.encode(&hmac_sha256(secret.as_bytes(), &[&body])));
    let headers = [("X-GitHub-Event", event), ("X-GitHub-Delivery", id), ("X-Hub-Signature-256", &signature)];
    Signed::new(JSON, &headers, body)
}

/// A Shopify webhook of this topic with `extra` as its body.
pub fn shopify(secret: &str, id: &str, topic: &str, extra: &Value) -> Signed {
    shopify_bytes(secret, id, topic, extra.to_string().into_bytes())
}

/// Any bytes, signed as Shopify does.
pub fn shopify_bytes(secret: &str, id: &str, topic: &str, body: Vec<u8>) -> Signed {
    let signature = BASE64.encode(&hmac_sha256(secret.as_bytes(), &[&body]));
    let headers =
        [("X-Shopify-Topic", topic), ("X-Shopify-Webhook-Id", id), ("X-Shopify-Hmac-Sha256", signature.as_str())];
    Signed::new(JSON, &headers, body)
}

/// A Slack event with `extra` beside its type.
pub fn slack(secret: &str, now: i64, id: &str, kind: &str, extra: &Value) -> Signed {
    let mut event = extra.clone();
    if let Value::Object(fields) = &mut event {
        fields.insert("type".to_owned(), kind.into());
    }
    let body = json!({"type": "event_callback", "event_id": id, "event_time": now, "event": event});
    slack_bytes(secret, now, body.to_string().into_bytes())
}

/// Any bytes, signed as Slack does.
pub fn slack_bytes(secret: &str, now: i64, body: Vec<u8>) -> Signed {
    let now = now.to_string();
    let mac = hmac_sha256(secret.as_bytes(), &[b"v0:", now.as_bytes(), b":", &body]);
    let signature = format!("v0={}", HEXLOWER.encode(&mac));
    Signed::new(JSON, &[("X-Slack-Request-Timestamp", &now), ("X-Slack-Signature", &signature)], body)
}

/// A Twilio form post to `url`, the full public address that it was told to call; `id` is its idempotency token.
pub fn twilio(secret: &str, url: &str, id: &str, fields: &[(&str, &str)]) -> Signed {
    let mut sorted = fields.to_vec();
    sorted.sort_unstable();
    let pairs: String = sorted.iter().flat_map(|(name, value)| [*name, *value]).collect();
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.as_bytes());
    let signature = BASE64.encode(hmac::sign(&key, format!("{url}{pairs}").as_bytes()).as_ref());
    let encoded = fields.iter().map(|(name, value)| format!("{}={}", form_encode(name), form_encode(value)));
    let body = encoded.collect::<Vec<_>>().join("&").into_bytes();
    Signed::new(FORM, &[("X-Twilio-Signature", &signature), ("I-Twilio-Idempotency-Token", id)], body)
}

/// A Standard Webhooks event with `extra` as its data.
pub fn standard_webhooks(secret: &str, now: i64, id: &str, kind: &str, extra: &Value) -> Signed {
    standard_webhooks_bytes(secret, now, id, json!({"type": kind, "data": extra}).to_string().into_bytes())
}

/// Any bytes, signed by Standard Webhooks.
pub fn standard_webhooks_bytes(secret: &str, now: i64, id: &str, body: Vec<u8>) -> Signed {
    standard("webhook", secret, now, id, body)
}

/// A Svix event with `extra` as its data.
pub fn svix(secret: &str, now: i64, id: &str, kind: &str, extra: &Value) -> Signed {
    svix_bytes(secret, now, id, json!({"type": kind, "data": extra}).to_string().into_bytes())
}

/// Any bytes, signed as Svix does.
pub fn svix_bytes(secret: &str, now: i64, id: &str, body: Vec<u8>) -> Signed {
    standard("svix", secret, now, id, body)
}

/// SHA-256 in lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// HMAC-SHA256 over parts laid end to end.
pub fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    for part in parts {
        context.update(part);
    }
    context.sign().as_ref().to_vec()
}

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

/// `{id}.{time}.{body}` under the key that stands in base64 behind `whsec_`.
fn standard(prefix: &str, secret: &str, now: i64, id: &str, body: Vec<u8>) -> Signed {
    let encoded = secret.strip_prefix("whsec_").unwrap_or(secret);
    let key = BASE64.decode(encoded.as_bytes()).expect("a test secret is `whsec_` and base64");
    let now = now.to_string();
    let mac = hmac_sha256(&key, &[id.as_bytes(), b".", now.as_bytes(), b".", &body]);
    let signature = format!("v1,{}", BASE64.encode(&mac));
    let name = |what: &str| format!("{prefix}-{what}");
    let (id_name, time_name, signature_name) = (name("id"), name("timestamp"), name("signature"));
    Signed::new(JSON, &[(&id_name, id), (&time_name, &now), (&signature_name, &signature)], body)
}

fn form_encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*' => encoded.push(char::from(byte)),
            b' ' => encoded.push('+'),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against what the vendors publish.
    #[test]
    fn published_examples_come_out_the_same() {
        let check = |signed: Signed, header: &str, expected: &str| {
            let found = signed.headers.iter().find(|(name, _)| name == header);
            assert_eq!(found.map(|(_, value)| value.as_str()), Some(expected), "{header}");
        };
        check(
            github_bytes("It's a Secret to Everybody", "1", "ping", b"Hello, World!".to_vec()),
            "X-Hub-Signature-256",
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        );
        check(
            standard_webhooks_bytes(
                "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                1_614_265_330,
                "msg_p5jXN8AQM9LWM0D4loKWxJek",
                br#"{"test": 2432232314}"#.to_vec(),
            ),
            "webhook-signature",
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        );
        let slack_body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V\
            &channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=\
            &response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN\
            &trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        check(
            slack_bytes("8f742231b10e8888abcd99yyyzzz85a5", 1_531_420_618, slack_body.as_bytes().to_vec()),
            "X-Slack-Signature",
            "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        );
        let fields = [
            ("CallSid", "CA1234567890ABCDE"),
            ("Digits", "1234"),
            ("From", "+14158675309"),
            ("To", "+18005551212"),
            ("Caller", "+14158675309"),
        ];
        check(
            twilio("12345", "https://mycompany.com/myapp.php?foo=1&bar=2", "t", &fields),
            "X-Twilio-Signature",
            "RSOYDt4T1cUTdK1PDd93/VVr8B8=",
        );
    }

    #[test]
    fn a_request_is_whole_and_can_be_spoilt() {
        let signed = stripe("whsec_x", 1_700_000_000, "evt_1", "invoice.paid", &json!({"id": "in_1"}));
        let wire = String::from_utf8(signed.raw("stripe", "localhost:8080")).expect("it is text");
        assert!(wire.starts_with("POST /in/stripe HTTP/1.1\r\nhost: localhost:8080\r\n"), "{wire}");
        assert!(wire.contains(&format!("content-length: {}\r\n", signed.body.len())), "{wire}");
        assert_ne!(signed.clone().tampered().body, signed.body);
        assert_eq!(signed.without_header("stripe-signature").headers.len(), 1);
        let form = twilio("s", "u", "t", &[("Body", "a b&c")]);
        assert_eq!(form.body, b"Body=a+b%26c");
    }
}
