//! The schemes that are code: published vectors, and what each of them must refuse.

use data_encoding::BASE64;
use serde_json::{Value, json};

use super::*;

const ADYEN_KEY: &str = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056";

fn built(provider: &str, secret: &str) -> Source {
    let mut spec = spec(provider, &[secret]);
    spec.settings.insert("public_key".to_owned(), Secret::new("pub"));
    Source::build(spec).unwrap()
}

fn adyen_item(change: impl Fn(&mut Value)) -> Value {
    let mut item = json!({
        "pspReference": "7914073381342284", "originalReference": "", "merchantAccountCode": "TestMerchant",
        "merchantReference": "TestPayment-1407325143704", "amount": { "value": 1130, "currency": "EUR" },
        "eventCode": "AUTHORISATION", "success": "true",
        "additionalData": { "hmacSignature": "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0=" },
    });
    change(&mut item);
    json!({ "NotificationRequestItem": item })
}

fn adyen(items: &[Value]) -> String {
    let body = json!({ "live": "false", "notificationItems": items }).to_string();
    line(&built("adyen-standard", ADYEN_KEY), &request(&[], body.as_bytes()))
}

#[test]
fn adyen_published_vector() {
    let good = adyen_item(|_| {});
    let accepted = "accept 7914073381342284:AUTHORISATION:true AUTHORISATION";
    assert_eq!(adyen(std::slice::from_ref(&good)), accepted);
    assert_eq!(adyen(&[good.clone(), good.clone()]), format!("{accepted}, {accepted}"));
    assert_eq!(adyen(&[adyen_item(|item| item["reason"] = "unsigned".into())]), accepted);
    assert_eq!(adyen(&[]), "signature missing_signature");
    assert_eq!(adyen(&[good.clone(), adyen_item(|item| item["success"] = "false".into())]), "signature mismatch");
    assert_eq!(adyen(&[adyen_item(|item| item["additionalData"] = json!({}))]), "signature missing_signature");
    let moved = |item: &mut Value| {
        item["pspReference"] = "7914073381342284:".into();
        item["originalReference"] = Value::Null;
    };
    assert_eq!(adyen(&[adyen_item(moved)]), "signature malformed_signature");
}

#[test]
fn a_sample_is_accepted_and_a_changed_one_is_not() {
    let cases = [
        ("twilio-event-streams", "accept x1 com.twilio.messaging.message.delivered"),
        ("mandrill", "accept x1:open:1731700000 open"),
        ("adyen-standard", "accept x1:AUTHORISATION:true AUTHORISATION"),
        ("braintree", "accept subscription_charged_successfully:x1:1731700000 subscription_charged_successfully"),
        ("contentful", "accept x1:3:ContentManagement.Entry.publish ContentManagement.Entry.publish"),
        ("dropbox-sign", "accept signature_request_sent:1731700000:x1 signature_request_sent"),
    ];
    for (provider, expected) in cases {
        let source = built(provider, ADYEN_KEY);
        let request = signed(&source, "x1");
        assert_eq!(line(&source, &request), expected);
        let mut changed = request.clone();
        changed.body = [&request.body[..], b"0"].concat().into();
        assert!(line(&source, &changed).starts_with("signature "), "{provider}");
        let other = built(provider, "ab12");
        assert_eq!(line(&other, &request), "signature mismatch", "{provider}");
        let bare = self::request(&[], b"");
        assert_eq!(line(&source, &bare), "signature missing_signature", "{provider}");
    }
}

#[test]
fn event_streams_need_the_hash_in_the_url() {
    let source = built("twilio-event-streams", "12345");
    let mut request = signed(&source, "x1");
    request.target = "/in/src".to_owned();
    assert_eq!(line(&source, &request), "signature malformed_signature");
}

#[test]
fn mandrill_elements_keep_their_own_bytes() {
    let source = built("mandrill", "key");
    let body = "mandrill_events=%5B%7B%22event%22%3A+%22send%22%2C%22_id%22%3A%22a%22%2C%22ts%22%3A1%7D%2C%7B%7D%5D";
    let request = sign(&source, &[], body.as_bytes());
    assert_eq!(line(&source, &request), "accept a:send:1 send, held no_id");
    let Verdict::Accept(accepted) = source.judge(&request, None, NOW) else { panic!() };
    assert_eq!(accepted.events[0].body, r#"{"event": "send","_id":"a","ts":1}"#);
    assert_eq!(line(&source, &sign(&source, &[], b"other=1")), "held unreadable");
}

#[test]
fn braintree_takes_the_pair_of_our_public_key_with_or_without_the_last_newline() {
    let source = built("braintree", "private");
    let xml = "<notification><kind>check</kind><timestamp>2026-01-01T00:00:00Z</timestamp><subject/></notification>";
    let payload = BASE64.encode(xml.as_bytes());
    let sha1 = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, b"private");
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, sha1.as_ref());
    let post = |signed: &str, pairs: &str, sent: &str| {
        let mac = data_encoding::HEXLOWER.encode(ring::hmac::sign(&key, signed.as_bytes()).as_ref());
        let pairs = form_encode(&pairs.replace("MAC", &mac));
        line(&source, &request(&[], format!("bt_signature={pairs}&bt_payload={}", form_encode(sent)).as_bytes()))
    };
    let ended = format!("{payload}\n");
    for (signed, sent) in [(&payload, &payload), (&ended, &payload), (&payload, &ended), (&ended, &ended)] {
        let found = post(signed, "other|00&pub|MAC", sent);
        assert!(found.starts_with("accept check:") && found.ends_with(":2026-01-01T00:00:00Z check"), "{found}");
    }
    assert_eq!(post(&payload, "other|MAC", &payload), "signature mismatch");
    assert_eq!(post(&payload, "MAC", &payload), "signature malformed_signature");
    let nine = ["pub|MAC"; 9].join("&");
    assert_eq!(post(&payload, &nine, &payload), "signature too_many_signatures");
    let garbage = BASE64.encode(b"<notification>");
    assert_eq!(post(&garbage, "pub|MAC", &garbage), "held unreadable");
}

#[test]
fn contentful_relies_only_on_what_is_listed() {
    let source = built("contentful", "secret");
    let request = signed(&source, "x1");
    let change = |name: &'static str, value: &str| {
        let mut changed = request.clone();
        set(&mut changed, name, value);
        line(&source, &changed)
    };
    assert_eq!(change("x-contentful-topic", "Other"), "signature mismatch");
    assert_eq!(change("x-contentful-timestamp", "1731700000001"), "signature mismatch");
    assert_eq!(change("x-contentful-timestamp", "1731700000"), "window bad_timestamp");
    for list in
        ["x-contentful-timestamp", "x-contentful-topic", "x-contentful-timestamp,x-contentful-topic,missing", ""]
    {
        let found = change("x-contentful-signed-headers", list);
        assert!(matches!(&*found, "signature malformed_signature" | "signature missing_signature"), "{list}: {found}");
    }
    assert_eq!(line_at(&source, &request, NOW + 300_000), line(&source, &request));
    assert_eq!(line_at(&source, &request, NOW + 300_001), "window too_old");
    assert_eq!(line_at(&source, &request, NOW - 300_001), "window too_new");
}

/// Signed by the vendor's library.
#[test]
fn contentful_toolkit_vector() {
    let secret = format!("{}{}", "a".repeat(32), "b".repeat(32));
    let mut spec = spec("contentful", &[&secret]);
    spec.settings
        .insert("public_url".to_owned(), Secret::new("https://x.example/trigger/SW5zdGFuY2VGbG93Q29uZmlnOjE="));
    let headers = [
        ("content-type", "application/vnd.contentful.management.v1+json"),
        ("x-contentful-topic", "ContentManagement.Entry.publish"),
        ("x-contentful-signature", "8dec81505760a10b542fbc36d3aa0a772b11f759eca7b2351daaf5bba8c7c6f1"),
        (
            "x-contentful-signed-headers",
            "content-type,x-contentful-signed-headers,x-contentful-timestamp,x-contentful-topic",
        ),
        ("x-contentful-timestamp", "1767225600000"),
    ];
    let body = r#"{"sys":{"id":"5KsDBWseXY6QegucYAoacS","type":"Entry"},"fields":{"title":{"en-US":"Hello, World!"}}}"#;
    let found = line_at(&Source::build(spec).unwrap(), &request(&headers, body.as_bytes()), 1_767_225_600_000);
    assert_eq!(found, "held no_id", "verified; this one has no version");
}

#[test]
fn dropbox_sign_keeps_time_and_type_apart() {
    let source = built("dropbox-sign", "key");
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"key");
    let hash = data_encoding::HEXLOWER.encode(ring::hmac::sign(&key, b"1731700000signed").as_ref());
    let post = |time: &str, kind: &str| {
        let json = json!({ "event": { "event_hash": hash, "event_time": time, "event_type": kind } });
        line(&source, &request(&[], format!("json={}", form_encode(&json.to_string())).as_bytes()))
    };
    assert_eq!(post("1731700000", "signed"), "accept signed:1731700000 signed");
    assert_eq!(post("173170000", "0signed"), "signature malformed_signature");
    assert_eq!(post("1731700000s", "igned"), "signature malformed_signature");
    assert_eq!(post("1731700001", "signed"), "signature mismatch");
}

fn form_encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
