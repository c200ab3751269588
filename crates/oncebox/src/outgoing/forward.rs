//! What leaves for a target, and what its answer means: the part of an `http` handler that needs no network.
//!
//! The sender's bytes and headers go on as they came, without what belonged to the connection and without credentials.
//! Our own headers are made of our own keys and numbers alone, so nothing that a sender chose can end a line early.

mod answer;

use bytes::Bytes;
use data_encoding::BASE64;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use ring::hmac;

pub use answer::{Answered, judge, judge_message, reached_without_answer, refusal, retry_after};

use crate::clock::UnixMillis;
use crate::event::{EventKey, Mark};
use crate::trace;
use oncebox_verify::Secret;

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(crate) const ONCEBOX_ATTEMPT: HeaderName = HeaderName::from_static("oncebox-attempt");

/// What belongs to one connection.
pub(crate) const OF_CONNECTION: [HeaderName; 9] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// What belongs to one hop, or would let a reader pose as somebody else; ours are made anew.
const NOT_FORWARDED: [HeaderName; 11] = [
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::EXPECT,
    header::ACCEPT_ENCODING,
    header::AUTHORIZATION,
    header::COOKIE,
    IDEMPOTENCY_KEY,
    ONCEBOX_ATTEMPT,
    WEBHOOK_ID,
    WEBHOOK_TIMESTAMP,
    WEBHOOK_SIGNATURE,
];

/// What proxies say about a request's way, or about who sent it, and what changes its method or path: nobody signed any
/// of it, and an application behind a proxy of its own may believe it.
const BY_PROXIES: [&str; 31] = [
    "forwarded",
    "via",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "fastly-client-ip",
    "x-host",
    "x-rewrite-url",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "remote-user",
    "x-remote-user",
    "x-remote-groups",
    "x-authenticated-user",
    "x-ssl-client-cert",
    "x-client-cert",
    "x-accel-redirect",
    "x-user",
    "x-webauth-user",
    "x-authenticated-userid",
    "x-ssl-client-verify",
    "x-ssl-client-s-dn",
    "x-consumer-username",
    "x-middleware-subrequest",
    "x-api-key",
    "proxy",
    "impersonate-user",
    "baggage",
];
const BY_PROXIES_BEGIN: [&str; 12] = [
    "x-forwarded-",
    "x-original-",
    "x-envoy-",
    "x-auth-request-",
    "x-amzn-oidc-",
    "x-goog-iap-",
    "x-goog-authenticated-user-",
    "x-ms-client-principal",
    "cf-access-",
    "tailscale-user-",
    "x-hasura-",
    "oncebox-",
];

/// Signs calls as Standard Webhooks has it.
#[derive(Clone, Debug)]
pub struct SigningKey(hmac::Key);

impl SigningKey {
    /// The key in a secret: base64, with or without `whsec_` in front; any other text is the key itself.
    pub fn new(secret: &Secret) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, &oncebox_verify::webhook_key(secret)))
    }

    pub(crate) fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(format!("{id}.{seconds}.").as_bytes());
        context.update(body);
        format!("v1,{}", BASE64.encode(context.sign().as_ref()))
    }
}

/// One call to a target about one event.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// The event.
    pub key: EventKey,
    /// The handler that makes the call.
    pub handler: &'a str,
    /// Which of the handler's calls it is, where it makes several.
    pub step: Option<&'a str>,
    /// The attempt, counted from 1.
    pub attempt: u32,
    /// The sender's headers as they were stored: `name: value` lines.
    pub headers: &'a [u8],
    /// The sender's bytes.
    pub body: &'a Bytes,
}

impl Call<'_> {
    /// The same for every attempt, after every restart: what a target tells repetitions by.
    pub fn idempotency_key(&self) -> Mark {
        let step = self.step.map(str::as_bytes);
        let parts = [self.key.as_bytes().as_slice(), self.handler.as_bytes(), step.unwrap_or_default()];
        Mark::of_parts(b"idempotency", &parts[..2 + usize::from(step.is_some())])
    }

    /// All headers of the call at this time.
    pub fn headers(&self, now: UnixMillis, signing: Option<&SigningKey>) -> HeaderMap {
        let mut headers = forwarded(self.headers);
        // Stored before we were strict about it, perhaps.
        trace::keep_valid(&mut headers);
        stamp(&mut headers, &self.key.to_string(), self.body, now, signing);
        set(&mut headers, IDEMPOTENCY_KEY, &self.idempotency_key().to_string());
        set(&mut headers, ONCEBOX_ATTEMPT, &self.attempt.to_string());
        headers
    }
}

/// The stored headers that go on. A line that is none, which only a hand in the database can have made, is left out.
fn forwarded(lines: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n') {
        let Some(colon) = line.windows(2).position(|pair| pair == b": ") else { continue };
        let (name, value) = (HeaderName::from_bytes(&line[..colon]), HeaderValue::from_bytes(&line[colon + 2..]));
        if let (Ok(name), Ok(value)) = (name, value)
            && !is_by_proxies(&name)
        {
            headers.append(name, value);
        }
    }
    let named: Vec<HeaderName> = headers.get_all(header::CONNECTION).iter().flat_map(named_in).collect();
    for name in OF_CONNECTION.iter().chain(&NOT_FORWARDED).chain(&named) {
        headers.remove(name);
    }
    headers
}

fn is_by_proxies(name: &HeaderName) -> bool {
    let name = name.as_str();
    // Many applications read `_` as `-`.
    name.contains('_') || BY_PROXIES.contains(&name) || BY_PROXIES_BEGIN.iter().any(|begin| name.starts_with(begin))
}

/// The headers that `Connection` declares to be of this hop only.
fn named_in(value: &HeaderValue) -> Vec<HeaderName> {
    let names = value.as_bytes().split(|byte| *byte == b',');
    names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok()).collect()
}

/// The headers of Standard Webhooks, in place of whatever stands there.
pub(crate) fn stamp(headers: &mut HeaderMap, id: &str, body: &[u8], now: UnixMillis, signing: Option<&SigningKey>) {
    let seconds = now.div_euclid(1000);
    set(headers, WEBHOOK_ID, id);
    set(headers, WEBHOOK_TIMESTAMP, &seconds.to_string());
    headers.remove(WEBHOOK_SIGNATURE);
    if let Some(signing) = signing {
        set(headers, WEBHOOK_SIGNATURE, &signing.sign(id, seconds, body));
    }
}

/// Keys, numbers and base64 always fit into a header.
pub(crate) fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn call<'a>(headers: &'a [u8], body: &'a Bytes) -> Call<'a> {
        Call { key: EventKey::from_bytes([7; 16]), handler: "mail", step: None, attempt: 3, headers, body }
    }

    fn check(stored: &str, expected: &[(&str, &str)]) {
        let body = Bytes::from_static(b"{}");
        let headers = call(stored.as_bytes(), &body).headers(1_731_700_000_123, None);
        let ours = ["webhook-id", "webhook-timestamp", "idempotency-key", "oncebox-attempt"];
        let mut found: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().expect("text"))).collect();
        found.retain(|(name, _)| !ours.contains(name));
        assert_eq!(found, expected, "{stored}");
        assert_eq!(headers["webhook-id"], "07070707-0707-0707-0707-070707070707");
        assert_eq!(headers["webhook-timestamp"], "1731700000");
        assert_eq!(headers["oncebox-attempt"], "3");
    }

    #[test]
    fn headers_go_on_without_those_of_the_hop() {
        check("content-type: application/json\n", &[("content-type", "application/json")]);
        check("stripe-signature: t=1,v1=ab\nhost: h\n", &[("stripe-signature", "t=1,v1=ab")]);
        check("x-a: 1\nx-a: 2\n", &[("x-a", "1"), ("x-a", "2")]);
        check("connection: close, x-hop\nx-hop: 1\nx-b: 2\ntransfer-encoding: chunked\n", &[("x-b", "2")]);
        check("authorization: Bearer x\ncookie: a=b\naccept-encoding: gzip\n", &[]);
        check("webhook-id: theirs\nwebhook-signature: v1,x\nidempotency-key: theirs\noncebox-attempt: 9\n", &[]);
        for name in [
            "x_forwarded_user",
            "proxy",
            "oncebox-source",
            "x-forwarded-user",
            "x-http-method-override",
            "x-original-url",
            "x-real-ip",
            "baggage",
            "forwarded",
        ] {
            check(&format!("{name}: x\nx-b: 2\n"), &[("x-b", "2")]);
        }
        check("x-amzn-oidc-identity: x\nx-goog-channel-id: 1\n", &[("x-goog-channel-id", "1")]);
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        check(&format!("traceparent: {trace}\ntracestate: a=b\n"), &[("traceparent", trace), ("tracestate", "a=b")]);
        check("traceparent: nonsense\ntracestate: a=b\n", &[]);
        check("no line\n: empty\nbad name: 1\nx: \u{1}\n\nx-b: 2", &[("x-b", "2")]);
    }

    #[test]
    fn the_idempotency_key_is_stable_and_of_its_own() {
        let body = Bytes::new();
        let first = call(b"", &body);
        let same = Call { attempt: 9, headers: b"x: y\n", ..first.clone() };
        assert_eq!(first.idempotency_key(), same.idempotency_key());
        for other in [
            Call { key: EventKey::from_bytes([8; 16]), ..first.clone() },
            Call { handler: "mai", ..first.clone() },
            Call { step: Some(""), ..first.clone() },
            Call { step: Some("notify"), ..first.clone() },
        ] {
            assert_ne!(first.idempotency_key(), other.idempotency_key(), "{other:?}");
        }
        // Written down, because it must be the same in every version of this program.
        assert_eq!(first.idempotency_key().to_string(), "e1e39cf1-9444-3bb6-4187-51b3d9a988b9");
    }

    #[test]
    fn signatures() {
        let body = Bytes::from_static(br#"{"test": 2432232314}"#);
        // The example of the Standard Webhooks specification.
        let key = SigningKey::new(&Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(key.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, &body), expected);
        let bare = SigningKey::new(&Secret::new("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
        assert_eq!(bare.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, &body), expected);
        let plain = SigningKey::new(&Secret::new("not base64!"));
        assert_ne!(plain.sign("msg", 1, &body), key.sign("msg", 1, &body));
    }

    proptest! {
        /// Whatever is stored, the call is built and nothing of it is a line of its own.
        #[test]
        fn any_stored_bytes_make_a_call(stored: Vec<u8>, handler in ".{0,20}", attempt: u32, now: i64) {
            let body = Bytes::copy_from_slice(&stored);
            let call = Call { handler: &handler, attempt, ..call(&stored, &body) };
            let headers = call.headers(now, Some(&SigningKey::new(&Secret::new("key"))));
            prop_assert!(headers.contains_key("webhook-signature"));
            prop_assert!(headers.values().all(|value| !value.as_bytes().contains(&b'\n')));
        }
    }
}
