//! What vendors ask when they check a URL, signed as they sign, and what somebody else might ask.

use ring::hmac;
use ring::signature::Ed25519KeyPair;
use serde_json::{Value, json};
use testkit::oracle::crypto;
pub(super) use testkit::oracle::crypto::hex;
use testkit::sender::{self, Signed};
use testkit::vendor;
pub(super) use testkit::vendor::{SNS_CERTIFICATE, TOPIC};

use crate::world::{GITHUB, SLACK, now};

/// The secret of every source that shares one.
pub(super) const SECRET: &str = "canary-greeting-6Ud1";

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// A request to a source.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) method: &'static str,
    pub(super) source: &'static str,
    /// What stands behind the source in the URL.
    pub(super) rest: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
}

/// The answer the vendor wants.
pub(super) struct Wanted {
    pub(super) content_type: &'static str,
    pub(super) headers: Vec<(&'static str, &'static str)>,
    pub(super) body: String,
}

impl Ask {
    pub(super) fn new(method: &'static str, source: &'static str, rest: impl Into<String>) -> Self {
        Self { method, source, rest: rest.into(), headers: Vec::new(), body: Vec::new() }
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    fn unsigned(mut self) -> Self {
        self.headers.retain(|(name, _)| !name.contains("signature"));
        self
    }

    fn tampered(mut self) -> Self {
        self.body.push(b' ');
        self
    }
}

/// What anybody may ask, because the vendor signs no such request.
pub(super) fn unsigned_and_answered() -> Vec<(Ask, Wanted)> {
    let meta = "?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=agreed";
    let graph = "?validationToken=Validation%3a+Testing+client+application+reachability";
    let origin = |source| Ask::new("OPTIONS", source, "").header("webhook-request-origin", "emitter.example.com");
    let allowed = || Wanted {
        headers: vec![("webhook-allowed-origin", "emitter.example.com"), ("webhook-allowed-rate", "*")],
        ..text("")
    };
    let crc = crypto::base256(SECRET, &[b"Y2hhbGxlbmdl"]);
    let key = crypto::sha1(SECRET.as_bytes());
    let braintree = hex(&crypto::mac(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &key, &[BRAINTREE.as_bytes()]));
    vec![
        (Ask::new("GET", "dropbox", "?challenge=abc123"), text("abc123")),
        (Ask::new("GET", "meta-whatsapp", meta), text("1158201444")),
        (Ask::new("POST", "microsoft-graph", graph), text("Validation: Testing client application reachability")),
        (
            Ask::new("GET", "okta", "").header("x-okta-verification-challenge", "Pg5y-7x"),
            json_text(r#"{"verification":"Pg5y-7x"}"#),
        ),
        (monday(r#"{"challenge":"3eZbrw1aBm2rZgRNFdxV"}"#), json_text(r#"{"challenge":"3eZbrw1aBm2rZgRNFdxV"}"#)),
        (origin("azure-event-grid"), allowed()),
        (origin("cloudevents-webhook"), allowed()),
        (Ask::new("HEAD", "trello", ""), text("")),
        (Ask::new("HEAD", "mandrill", ""), text("")),
        (Ask::new("GET", "mailchimp", "/path-token-000001"), text("")),
        (Ask::new("POST", "woocommerce", "").body("webhook_id=7"), text("")),
        (
            Ask::new("GET", "x-twitter", "?crc_token=Y2hhbGxlbmdl&nonce=1"),
            json_text(&format!(r#"{{"response_token":"sha256={crc}"}}"#)),
        ),
        (
            Ask::new("GET", "braintree", format!("?bt_challenge={BRAINTREE}")),
            text(&format!("our_public_key|{braintree}")),
        ),
    ]
}

/// What only the vendor may ask.
pub(super) fn signed_and_answered() -> Vec<(Ask, Wanted)> {
    let code = json_text(r#"{"validationResponse":"512d38b6-c7b8-40c8-89fe-f46f9e9622b6"}"#);
    let encrypted = crypto::hex256(SECRET, &[b"qgg8vlvZRS6UYooatFL8Aw"]);
    let zoomed = format!(r#"{{"encryptedToken":"{encrypted}","plainToken":"qgg8vlvZRS6UYooatFL8Aw"}}"#);
    vec![
        (slack(), text("3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P")),
        (twitch(), text("pogchamp-kappa-360noscope-vohiyo")),
        (zoom(), json_text(&zoomed)),
        (discord(), json_text(r#"{"type":1}"#)),
        (event_grid(&format!("?key={SECRET}")), code),
        (xero(SECRET), text("")),
        (line(SECRET), text("")),
        (mandrill(SECRET), text("")),
        (sns(&[("Type", "UnsubscribeConfirmation"), ("SubscribeURL", AMAZON), ("Token", "t")]), text("")),
    ]
}

/// What is refused as if it were any forged request.
pub(super) fn refused() -> Vec<Ask> {
    let long = "x".repeat(1025);
    let mut asks = Vec::new();
    for bad in [long.as_str(), "", "%00", "a%0d%0aset-cookie:b", "%3Cscript%3Ealert(1)%3C/script%3E", "a%3e", "%C3%A4"]
    {
        let meta = format!("?hub.mode=subscribe&hub.verify_token=agreed&hub.challenge={bad}");
        asks.extend([
            Ask::new("GET", "dropbox", format!("?challenge={bad}")),
            Ask::new("GET", "meta-whatsapp", meta),
            Ask::new("POST", "microsoft-graph", format!("?validationToken={bad}")),
            Ask::new("GET", "x-twitter", format!("?crc_token={bad}")),
            Ask::new("GET", "braintree", format!("?bt_challenge={bad}")),
        ]);
    }
    for bad in [long.as_str(), "", "<script>alert(1)</script>", "\u{e4}"] {
        asks.extend([
            Ask::new("GET", "okta", "").header("x-okta-verification-challenge", bad),
            Ask::new("OPTIONS", "azure-event-grid", "").header("webhook-request-origin", bad),
            Ask::new("OPTIONS", "cloudevents-webhook", "").header("webhook-request-origin", bad),
            monday(&json!({ "challenge": bad }).to_string()),
        ]);
    }
    for token in ["&hub.verify_token=wrong", "&hub.verify_token=", "", "&hub.verify_token=agreed&hub.verify_token=x"] {
        asks.push(Ask::new("GET", "meta-whatsapp", format!("?hub.mode=subscribe&hub.challenge=7{token}")));
    }
    asks.extend([slack(), twitch(), zoom(), discord()].map(Ask::unsigned));
    asks.extend(
        [slack(), twitch(), zoom(), discord(), xero(SECRET), line(SECRET), mandrill(SECRET)].map(Ask::tampered),
    );
    asks.extend([xero("another"), line("another"), mandrill("another"), event_grid(""), event_grid("?key=another")]);
    // A text that would be an event, to be signed for a stranger.
    asks.push(Ask::new("GET", "x-twitter", "?crc_token=%7B%22id%22%3A1%7D"));
    asks.push(Ask::new("GET", "braintree", "?bt_challenge=PG5vdGlmaWNhdGlvbj4="));
    asks.extend(["", "/wrong"].map(|rest| Ask::new("GET", "mailchimp", rest)));
    let confirm = [("Type", "SubscriptionConfirmation"), ("SubscribeURL", AMAZON), ("Token", "t")];
    asks.push(sns(&[&confirm[..], &[("TopicArn", "arn:aws:sns:eu-central-1:666:orders")]].concat()));
    for elsewhere in [
        "https://evil.example/confirm",
        "http://sns.eu-central-1.amazonaws.com/confirm",
        "https://sns.eu-central-1.amazonaws.com.evil.example/confirm",
        "https://sns.eu-central-1.amazonaws.com@evil.example/confirm",
        "https://127.0.0.1/confirm",
    ] {
        asks.push(sns(&[("Type", "SubscriptionConfirmation"), ("SubscribeURL", elsewhere), ("Token", "t")]));
    }
    let mut forged: Value = serde_json::from_slice(&sns(&confirm).body).expect("JSON");
    forged["Token"] = "other".into();
    asks.push(Ask::new("POST", "aws-sns", "").body(forged.to_string()));
    asks
}

/// Test events, which vendors send like any other.
pub(super) fn pings() -> Vec<(&'static str, Signed, &'static str)> {
    let signed = |header: &str, signature: String, body: &str| Signed {
        headers: vec![(header.to_owned(), signature)],
        body: body.as_bytes().to_vec(),
    };
    let intercom = r#"{"type":"notification_event","topic":"ping","id":"notif_1"}"#;
    let pagerduty = r#"{"event":{"id":"01","event_type":"pagey.ping","data":{"message":"Hello"}}}"#;
    let figma =
        json!({ "event_type": "PING", "passcode": SECRET, "timestamp": "2026-01-01T00:00:00Z", "webhook_id": "22" });
    vec![
        ("github", sender::github(GITHUB, "ping-1", "ping", &json!({ "zen": "Keep it", "hook_id": 1 })), "ping"),
        (
            "intercom",
            signed("x-hub-signature", format!("sha1={}", crypto::hex1(SECRET, &[intercom.as_bytes()])), intercom),
            "ping",
        ),
        (
            "pagerduty-v3",
            signed(
                "x-pagerduty-signature",
                format!("v1={}", crypto::hex256(SECRET, &[pagerduty.as_bytes()])),
                pagerduty,
            ),
            "pagey.ping",
        ),
        ("figma", Signed { headers: Vec::new(), body: figma.to_string().into_bytes() }, "PING"),
    ]
}

/// The event by which Dropbox Sign tests a callback.
pub(super) fn dropbox_sign() -> Ask {
    let (time, kind) = (now().to_string(), "callback_test");
    let hash = crypto::hex256(SECRET, &[time.as_bytes(), kind.as_bytes()]);
    let event = json!({ "event": { "event_type": kind, "event_time": time, "event_hash": hash } }).to_string();
    let ask = Ask::new("POST", "dropbox-sign", "").header("content-type", "application/x-www-form-urlencoded");
    ask.body(crypto::form(&[("json", &event)]))
}

/// The pair that Discord signs with.
pub(super) fn discord_key() -> Ed25519KeyPair {
    crypto::ed25519("discord")
}

const BRAINTREE: &str = "20f9f8ed05f77439fe955c977e4c8a53";
const AMAZON: &str = "https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription&Token=t";

fn text(body: &str) -> Wanted {
    Wanted { content_type: TEXT, headers: Vec::new(), body: body.to_owned() }
}

fn json_text(body: &str) -> Wanted {
    Wanted { content_type: JSON, ..text(body) }
}

fn monday(body: &str) -> Ask {
    Ask::new("POST", "monday", "").body(body)
}

fn slack() -> Ask {
    let body =
        r#"{"token":"t","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}"#;
    let time = now().to_string();
    let signature = format!("v0={}", crypto::hex256(SLACK, &[b"v0:", time.as_bytes(), b":", body.as_bytes()]));
    let ask = Ask::new("POST", "slack", "").header("x-slack-request-timestamp", time);
    ask.header("x-slack-signature", signature).body(body)
}

fn twitch() -> Ask {
    let body = r#"{"challenge":"pogchamp-kappa-360noscope-vohiyo","subscription":{"type":"stream.online"}}"#;
    let time = crypto::rfc3339(now(), "");
    let signature = crypto::hex256(SECRET, &[b"m-1", time.as_bytes(), body.as_bytes()]);
    Ask::new("POST", "twitch-eventsub", "")
        .header("twitch-eventsub-message-id", "m-1")
        .header("twitch-eventsub-message-timestamp", time)
        .header("twitch-eventsub-message-type", "webhook_callback_verification")
        .header("twitch-eventsub-message-signature", format!("sha256={signature}"))
        .body(body)
}

fn zoom() -> Ask {
    let body = r#"{"payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"},"event_ts":1654503849680,"event":"endpoint.url_validation"}"#;
    let time = now().to_string();
    let signature = crypto::hex256(SECRET, &[b"v0:", time.as_bytes(), b":", body.as_bytes()]);
    let ask = Ask::new("POST", "zoom", "").header("x-zm-request-timestamp", time);
    ask.header("x-zm-signature", format!("v0={signature}")).body(body)
}

fn discord() -> Ask {
    let (body, time) = (r#"{"application_id":"1","id":"2","type":1,"version":1}"#, now().to_string());
    let signature = discord_key().sign(format!("{time}{body}").as_bytes());
    let ask = Ask::new("POST", "discord-interactions", "").header("x-signature-timestamp", time);
    ask.header("x-signature-ed25519", hex(signature.as_ref())).body(body)
}

fn event_grid(rest: &str) -> Ask {
    let check = json!([{ "id": "2d1781af", "topic": "/subscriptions/1", "subject": "",
        "data": { "validationCode": "512d38b6-c7b8-40c8-89fe-f46f9e9622b6", "validationUrl": "https://example.com/" },
        "eventType": "Microsoft.EventGrid.SubscriptionValidationEvent", "eventTime": "2026-01-01T00:00:00Z" }]);
    Ask::new("POST", "azure-event-grid", rest).body(check.to_string())
}

fn xero(secret: &str) -> Ask {
    let body = r#"{"events":[],"firstEventSequence":0,"lastEventSequence":0,"entropy":"S0m3r4nd0mt3xt"}"#;
    Ask::new("POST", "xero", "").header("x-xero-signature", crypto::base256(secret, &[body.as_bytes()])).body(body)
}

fn line(secret: &str) -> Ask {
    let body = r#"{"destination":"U1","events":[]}"#;
    Ask::new("POST", "line", "").header("x-line-signature", crypto::base256(secret, &[body.as_bytes()])).body(body)
}

fn mandrill(secret: &str) -> Ask {
    let signed = crypto::base1(secret, &[b"https://hooks.example.com/in/mandrill", b"mandrill_events", b"[]"]);
    Ask::new("POST", "mandrill", "").header("x-mandrill-signature", signed).body("mandrill_events=%5B%5D")
}

fn sns(changes: &[(&str, &str)]) -> Ask {
    let now = crypto::rfc3339(now(), ".000");
    let mut changes: Vec<(&str, Value)> = changes.iter().map(|(name, value)| (*name, (*value).into())).collect();
    changes.push(("Timestamp", now.into()));
    Ask::new("POST", "aws-sns", "").body(vendor::sns(&changes).to_string())
}
