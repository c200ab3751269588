//! What makes two requests one event, and what is held.

use super::*;
use crate::digest::sha256;
use crate::verdict::{IdentityKind, OnOtherBody};

/// Judges a signed Stripe body.
fn check(body: &str, expected: &str) {
    let source = source("stripe");
    let request = sign(&source, &[], body.as_bytes());
    assert_eq!(line(&source, &request), expected, "{}", &body[..body.len().min(80)]);
}

fn github(id: &str, body: &str) -> Identified {
    let source = source("github");
    let request = sign(&source, &[("x-github-delivery", id), ("x-github-event", "push")], body.as_bytes());
    only(&source, &request)
}

#[test]
fn json_ids() {
    check(r#"{"id":"evt_1","type":"a.b"}"#, "accept evt_1 a.b");
    check(r#"{"id":12345678901234567890123,"type":"t"}"#, "accept 12345678901234567890123 t");
    check(r#"{"id":"\u0065vt","type":7}"#, "accept evt 7");
    check("{\"id\":\"\u{202e}🦀\"}", "accept \u{202e}🦀");
    check(r#"{"type":"t"}"#, "held no_id");
    check(r#"{"id":null}"#, "held no_id");
    for unusable in [r#""""#, "1.0", "1e3", "1e400", "true", "{}", "[]", r#""\u0000""#, r#""a\u0000b""#, r#""\ud800""#]
    {
        check(&format!(r#"{{"id":{unusable}}}"#), "held unusable_id");
    }
    check(&format!(r#"{{"id":"{}"}}"#, "x".repeat(255)), &format!("accept {}", "x".repeat(255)));
    check(&format!(r#"{{"id":"{}"}}"#, "x".repeat(256)), "held unusable_id");
    check(&format!(r#"{{"id":{}}}"#, "1".repeat(400)), "held unusable_id");
}

#[test]
fn a_number_and_the_string_of_its_digits_are_one_id() {
    let source = source("stripe");
    let number = only(&source, &sign(&source, &[], br#"{"id":12}"#));
    let string = only(&source, &sign(&source, &[], br#"{"id":"12"}"#));
    assert_eq!(number.identity, string.identity);
}

#[test]
fn ambiguous_and_unreadable_bodies_are_held() {
    check(r#"{"id":"a","id":"b"}"#, "held ambiguous_id");
    check(r#"{"id":"a","\u0069d":"a"}"#, "held ambiguous_id");
    check(r#"{"id":"a","other":1,"other":2}"#, "accept a");
    for body in ["", " ", "hello", "{", r#"{"id":"a""#, "\u{feff}{\"id\":\"a\"}", "payload=%7B%7D", "[1]x"] {
        check(body, "held unreadable");
    }
    check("[]", "held no_id");
    let source = source("stripe");
    let request = sign(&source, &[], b"{\"id\":\"a\",\"x\":\"\xff\"}");
    assert_eq!(line(&source, &request), "held unreadable");
}

#[test]
fn a_doubtful_type_is_held() {
    check(r#"{"id":"a","type":"x","type":"y"}"#, "held ambiguous_type");
    check(r#"{"id":"a","type":"x\u0007"}"#, "held unusable_type");
    check(&format!(r#"{{"id":"a","type":"{}"}}"#, "x".repeat(400)), "held unusable_type");
    check(r#"{"id":"a","type":""}"#, "accept a");
    check(r#"{"id":"a","type":null}"#, "accept a");
    check(r#"{"id":"a","id":"b","type":"x","type":"y"}"#, "held ambiguous_id");
}

#[test]
fn depth_and_size_do_no_harm() {
    let deep = |depth: usize| format!(r#"{{"x":{}{},"id":"a"}}"#, "[".repeat(depth), "]".repeat(depth));
    check(&deep(10_000), "accept a");
    check(&deep(100_000), "accept a");
    check(&"[".repeat(10_000_000), "held unreadable");
    check(&format!(r#"{{"n":1e200000,"m":{},"id":"a"}}"#, "9".repeat(400)), "accept a");
}

#[test]
fn held_events_keep_their_bytes_under_a_digest() {
    let source = source("stripe");
    let event = only(&source, &sign(&source, &[], b"hello"));
    assert_eq!(event.event_id, format!("body_{}", data_encoding::HEXLOWER.encode(&sha256(b"hello"))));
    assert_eq!((event.identity_kind, event.body.as_ref()), (IdentityKind::Body, b"hello".as_slice()));
}

#[test]
fn header_ids() {
    let source = source("github");
    let judge = |headers: &[(&str, &str)]| line(&source, &sign(&source, headers, b"{}"));
    assert_eq!(judge(&[("x-github-delivery", "d")]), "accept d");
    assert_eq!(judge(&[]), "held no_id");
    assert_eq!(judge(&[("x-github-delivery", "")]), "held unusable_id");
    assert_eq!(judge(&[("x-github-delivery", "a"), ("x-github-delivery", "a")]), "held ambiguous_id");
    assert_eq!(judge(&[("x-github-delivery", "ünï")]), "accept ünï");
    assert_eq!(judge(&[("x-github-delivery", "a\tb")]), "held unusable_id");
    let mut request = sign(&source, &[], b"{}");
    request.headers.insert("x-github-delivery", HeaderValue::from_bytes(b"a\xff").unwrap());
    assert_eq!(line(&source, &request), "held unusable_id");
}

#[test]
fn an_unsigned_id_is_believed_only_with_its_body() {
    let (a, b) = (github("1", "{}"), github("1", "[]"));
    assert_ne!(a.identity, b.identity);
    assert_eq!(a.identity_kind, IdentityKind::IdAndBody);
    let replayed = github("2", "{}");
    assert_ne!(a.identity, replayed.identity);
    assert_eq!(a.fingerprint, replayed.fingerprint);
    assert!(a.fingerprint.is_some() && a.on_repeat == OnRepeat::Hold);
}

#[test]
fn a_signed_id_stands_alone() {
    let svix = source("svix");
    let event = only(&svix, &signed(&svix, "id1"));
    assert_eq!((event.identity_kind, event.on_repeat), (IdentityKind::Id, OnRepeat::Run));
    assert_eq!(event.on_other_body, OnOtherBody::Conflict);
    assert!(event.fingerprint.is_some());
    let stripe = source("stripe");
    let event = only(&stripe, &signed(&stripe, "id1"));
    assert_eq!((event.identity_kind, event.fingerprint), (IdentityKind::Id, None));
}

#[test]
fn identities_are_scoped_by_source() {
    let mut other = spec("stripe", &[SECRET]);
    other.name = "other".to_owned();
    let (one, other) = (source("stripe"), Source::build(other).unwrap());
    let request = signed(&one, "id1");
    assert_ne!(only(&one, &request).identity, only(&other, &request).identity);
}

#[test]
fn shopify_topics_may_share_a_body() {
    let source = source("shopify");
    let event = |id: &str, topic: &str| {
        only(&source, &sign(&source, &[("x-shopify-webhook-id", id), ("x-shopify-topic", topic)], b"{}"))
    };
    assert_eq!(event("1", "orders/create").fingerprint, event("2", "orders/create").fingerprint);
    assert_ne!(event("1", "orders/create").fingerprint, event("1", "orders/paid").fingerprint);
}

#[test]
fn the_operator_may_say_what_a_repeated_body_means() {
    let mut spec = spec("github", &[SECRET]);
    spec.repeated_body = Some(OnRepeat::Duplicate);
    let source = Source::build(spec).unwrap();
    assert_eq!(only(&source, &signed(&source, "1")).on_repeat, OnRepeat::Duplicate);
}

#[test]
fn github_types() {
    let source = source("github");
    let judge = |event: &str, body: &str| {
        line(&source, &sign(&source, &[("x-github-delivery", "d"), ("x-github-event", event)], body.as_bytes()))
    };
    assert_eq!(judge("pull_request", r#"{"action":"opened"}"#), "accept d pull_request.opened");
    assert_eq!(judge("ping", r#"{"zen":"x"}"#), "accept d ping");
    assert_eq!(judge("issues", "payload=%7B%22action%22%3A%22closed%22%7D"), "accept d issues.closed");
    assert_eq!(judge("push", "not json"), "accept d push");
    assert_eq!(judge("push", r#"{"action":["x"]}"#), "accept d push");
}

#[test]
fn slack_bodies() {
    let source = source("slack");
    let judge = |body: &str| line(&source, &sign(&source, &[], body.as_bytes()));
    assert_eq!(judge(r#"{"type":"url_verification","challenge":"abc123"}"#), "reply abc123");
    assert_eq!(judge(r#"{"type":"url_verification","challenge":"<é>"}"#), "held no_id");
    let long = format!(r#"{{"type":"url_verification","challenge":"{}"}}"#, "x".repeat(1025));
    assert_eq!(judge(&long), "held no_id");
    assert_eq!(
        judge("payload=%7B%22type%22%3A%22block_actions%22%2C%22trigger_id%22%3A%221.2%22%7D"),
        "accept 1.2 block_actions"
    );
    assert_eq!(judge("payload=%7B%7D"), "held no_id");
    assert_eq!(judge("payload=x"), "held unreadable");
    assert_eq!(judge(r#"{"event_id":"Ev1","event":{"type":"message"}}"#), "accept Ev1 message");
    let mut forged = sign(&source, &[], br#"{"type":"url_verification","challenge":"abc"}"#);
    forged.body = Bytes::from_static(br#"{"type":"url_verification","challenge":"abd"}"#);
    assert_eq!(line(&source, &forged), "signature mismatch");
}

#[test]
fn twilio_bodies() {
    let source = source("twilio");
    let judge = |headers: &[(&str, &str)], body: &str| line(&source, &sign(&source, headers, body.as_bytes()));
    assert_eq!(judge(&[], "MessageSid=SM1&MessageStatus=sent"), "accept SM1:sent sent");
    assert_eq!(judge(&[], "MessageSid=SM1&SmsStatus=received"), "accept SM1:received received");
    assert_eq!(judge(&[], "CallSid=CA1&CallStatus=ringing&SequenceNumber=0"), "accept CA1:ringing:0 ringing");
    assert_eq!(judge(&[], "CallSid=CA1&CallStatus=ringing"), "accept CA1:ringing ringing");
    assert_eq!(judge(&[], "MessageSid=SM1&MessageSid=SM2&MessageStatus=sent"), "held ambiguous_id");
    assert_eq!(judge(&[], "To=1"), "held no_id");
    let token = [("i-twilio-idempotency-token", "t1")];
    assert_eq!(judge(&token, "MessageSid=SM1&MessageStatus=sent"), "accept t1 sent");
    match source.judge(&signed(&source, "t1"), None, NOW) {
        Verdict::Accept(Accepted { reply: Some(reply), .. }) => {
            assert_eq!(reply.body, r#"<?xml version="1.0" encoding="UTF-8"?><Response/>"#);
            assert!(reply.content_type.starts_with("text/xml"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_twilio_request_without_its_token_or_in_other_escapes_is_seen_as_a_repeat() {
    let source = source("twilio");
    let first =
        only(&source, &sign(&source, &[("i-twilio-idempotency-token", "t1")], b"MessageSid=SM1&MessageStatus=sent"));
    let bare = only(&source, &sign(&source, &[], b"MessageStatus=s%65nt&MessageSid=SM1"));
    assert_ne!(first.identity, bare.identity);
    assert_eq!(first.fingerprint, bare.fingerprint);
    assert_eq!(bare.on_repeat, OnRepeat::Hold);
}

#[test]
fn joined_ids_do_not_run_together() {
    let source = custom(JOINED, &["s"]).unwrap();
    let event = |body: &[u8]| only(&source, &sign(&source, &[], body));
    let (one, other) = (event(br#"{"a":"x:y","b":"z"}"#), event(br#"{"a":"x","b":"y:z"}"#));
    assert_eq!((one.event_id.as_str(), other.event_id.as_str()), ("x:y:z", "x:y:z"));
    assert_ne!(one.identity, other.identity);
    assert_eq!(line(&source, &sign(&source, &[], br#"{"a":"x"}"#)), "held no_id");
    assert_ne!(one.identity, event(br#"{"c":"x:y:z"}"#).identity);
}

const JOINED: &str = r#"
mac = "hmac-sha256"
msg = "{body}"
sig = { header = ["x-sig"] }
id = ["json:/a+json:/b", "json:/c"]
"#;

#[test]
fn identity_rules() {
    let keys = |identity: &str| JOINED.replace("id = [", &format!("identity = \"{identity}\"\nid = ["));
    let digest = custom(&keys("digest"), &["s"]).unwrap();
    let event = only(&digest, &sign(&digest, &[], b"anything"));
    assert_eq!((event.identity_kind, event.held), (IdentityKind::Body, None));
    assert!(event.event_id.starts_with("body_"));
    let none = custom(&keys("none"), &["s"]).unwrap();
    assert_eq!(only(&none, &sign(&none, &[], b"x")).identity_kind, IdentityKind::Arrival);
    let varying = format!("{JOINED}body_varies = true");
    let varying = custom(&varying.replace("\"json:/c\"", "\"header:x-id\""), &["s"]).unwrap();
    let event = only(&varying, &sign(&varying, &[("x-id", "1")], b"{}"));
    assert_eq!(event.on_other_body, OnOtherBody::Duplicate);
    assert_eq!((event.identity_kind, event.fingerprint), (IdentityKind::Id, None));
}

#[test]
fn batches_are_events_of_their_own_bytes() {
    let keys = r#"
        mac = "hmac-sha256"
        msg = "{body}"
        sig = { header = ["x-sig"] }
        each = "/events"
        id = "json:/id"
        type = "json:/t"
    "#;
    let source = custom(keys, &["s"]).unwrap();
    let judge = |body: &str| line(&source, &sign(&source, &[], body.as_bytes()));
    assert_eq!(judge(r#"{"events":[{"id":1,"t":"x"}, {"id": "2"},{}]}"#), "accept 1 x, accept 2, held no_id");
    assert_eq!(judge(r#"{"events":[]}"#), "reply ");
    for body in [r#"{"events":{}}"#, "{}", "x", r#"{"events":[1],"events":[2]}"#, r#"{"events":[1,]}"#] {
        assert_eq!(judge(body), "held unreadable", "{body}");
    }
    match source.judge(&sign(&source, &[], b"{\"events\":[ { \"id\" : 1 } ]}"), None, NOW) {
        Verdict::Accept(accepted) => {
            assert!(accepted.batch);
            assert_eq!(accepted.events[0].body, "{ \"id\" : 1 }");
            assert_eq!(accepted.events[0].body_sha256, sha256(b"{ \"id\" : 1 }"));
        }
        other => panic!("{other:?}"),
    }
    let whole = custom(&keys.replace("/events", ""), &["s"]).unwrap();
    assert_eq!(line(&whole, &sign(&whole, &[], br#"[{"id":"a"},{"id":"a"}]"#)), "accept a, accept a");
}
