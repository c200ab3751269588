//! Every vendor's check of the URL: what is answered, what is refused, and that none of it is an event.

use super::*;
use crate::verdict::Reply;

const PUBLIC_KEY: &str = "integration_public_key";

fn greeted(provider: &str) -> Source {
    let mut spec = spec(provider, &[SECRET]);
    spec.settings.insert("verify_token".to_owned(), Secret::new("meatyhamhock"));
    spec.settings.insert("public_key".to_owned(), Secret::new(PUBLIC_KEY));
    if spec.description.brings_secret() {
        spec.secrets.clear();
    }
    if provider == "mailchimp" {
        spec.secrets.clear();
        spec.path_token = Some(Secret::new("token"));
    }
    if provider == "discord-interactions" {
        spec.secrets = vec![Secret::new("11".repeat(32))];
    }
    Source::build(spec).unwrap()
}

fn ask(method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Request {
    let asked = request(headers, body.as_bytes());
    Request { method: method.parse().unwrap(), target: target.to_owned(), ..asked }
}

fn reply(source: &Source, request: &Request) -> Reply {
    let token = source.has_path_token().then_some("token");
    match judged(source, request, token, NOW) {
        Verdict::Handshake(reply) => reply,
        other => panic!("no handshake: {other:?}"),
    }
}

fn rejected(source: &Source, request: &Request) -> bool {
    matches!(source.judge(request, source.has_path_token().then_some("token"), NOW), Verdict::Reject(_))
}

/// What an unsigned handshake is answered with.
fn check(provider: &str, asked: &Request, content_type: &str, body: &str) {
    let reply = reply(&greeted(provider), asked);
    assert_eq!((reply.status.as_u16(), reply.content_type), (200, content_type), "{provider}");
    assert_eq!(reply.body, body, "{provider}");
}

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

#[test]
fn echoes_in_text_and_json() {
    let get = |target: &str| ask("GET", target, &[], "");
    check("dropbox", &get("/in/src?challenge=abc%20d"), TEXT, "abc d");
    let meta = "/in/src?hub.mode=subscribe&hub.verify_token=meatyhamhock&hub.challenge=1158201444";
    check("meta-whatsapp", &get(meta), TEXT, "1158201444");
    check("mailchimp", &get("/in/src"), TEXT, "");
    check(
        "microsoft-graph",
        &ask("POST", "/in/src?validationToken=Validation%3A%20a+b", &[], ""),
        TEXT,
        "Validation: a b",
    );
    let okta = ask("GET", "/in/src", &[("x-okta-verification-challenge", "abc")], "");
    check("okta", &okta, JSON, r#"{"verification":"abc"}"#);
    let monday = ask("POST", "/in/src", &[], r#"{"challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"}"#);
    check("monday", &monday, JSON, r#"{"challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"}"#);
    check("woocommerce", &ask("POST", "/in/src", &[], "webhook_id=7"), TEXT, "");
    for provider in ["trello", "mandrill"] {
        check(provider, &ask("HEAD", "/in/src", &[], ""), TEXT, "");
    }
}

#[test]
fn a_wrong_verify_token_is_refused() {
    let target = "/in/src?hub.mode=subscribe&hub.verify_token=wrong&hub.challenge=1";
    assert!(rejected(&greeted("meta-whatsapp"), &ask("GET", target, &[], "")));
}

#[test]
fn nothing_unprintable_or_long_is_echoed() {
    let source = greeted("dropbox");
    for target in ["/in/src?challenge=a%0d%0ab", "/in/src?challenge=%00", "/in/src?challenge=", "/in/src"] {
        assert!(rejected(&source, &ask("GET", target, &[], "")), "{target}");
    }
    for (length, refused) in [(1024, false), (1025, true)] {
        let target = format!("/in/src?challenge={}", "x".repeat(length));
        assert_eq!(rejected(&source, &ask("GET", &target, &[], "")), refused, "{length}");
    }
    let monday = greeted("monday");
    for challenge in ["", "<b>", "a\\u0000", "ä", &"x".repeat(1025)] {
        let body = format!(r#"{{"challenge":"{challenge}"}}"#);
        assert!(rejected(&monday, &ask("POST", "/in/src", &[], &body)), "{challenge}");
    }
    for body in [r#"{"challenge":{"a":1}}"#, r#"{"challenge":"a","challenge":"b"}"#, "[]", ""] {
        assert!(rejected(&monday, &ask("POST", "/in/src", &[], body)), "{body}");
    }
}

#[test]
fn nothing_like_a_page_is_echoed() {
    for page in ["%3Cscript%3E", "a%3E", "%3C"] {
        for (provider, method, name) in
            [("dropbox", "GET", "challenge"), ("microsoft-graph", "POST", "validationToken")]
        {
            let target = format!("/in/src?{name}={page}");
            assert!(rejected(&greeted(provider), &ask(method, &target, &[], "")), "{provider} {page}");
        }
        let asked = ask("POST", &format!("/in/src?validationToken={page}"), &[], "");
        match greeted("microsoft-graph").judge(&asked, None, NOW) {
            Verdict::Reject(rejection) => assert_eq!(rejection.reason, Reason::UnfitChallenge, "{page}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn replies_in_headers() {
    for provider in ["cloudevents-webhook", "azure-event-grid"] {
        let asked = ask("OPTIONS", "/in/src", &[("webhook-request-origin", "eventemitter.example.com")], "");
        let reply = reply(&greeted(provider), &asked);
        let headers: Vec<_> = reply.headers.iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
        let expected = ["webhook-allowed-origin: \"eventemitter.example.com\"", "webhook-allowed-rate: \"*\""];
        assert_eq!(headers, expected, "{provider}");
        assert!(rejected(&greeted(provider), &ask("OPTIONS", "/in/src", &[], "")), "{provider}");
    }
}

#[test]
fn event_grid_answers_its_code_behind_the_key() {
    let body = r#"[{"id":"1","eventType":"Microsoft.EventGrid.SubscriptionValidationEvent","data":{"validationCode":"512d38b6"}}]"#;
    let asked = ask("POST", &format!("/in/src?key={SECRET}"), &[], body);
    check("azure-event-grid", &asked, JSON, r#"{"validationResponse":"512d38b6"}"#);
    assert!(rejected(&greeted("azure-event-grid"), &ask("POST", "/in/src?key=other", &[], body)));
    let event = r#"[{"id":"1","topic":"t","eventType":"mine","data":{"validationCode":"512d38b6"}}]"#;
    let asked = ask("POST", &format!("/in/src?key={SECRET}"), &[], event);
    assert_eq!(line(&greeted("azure-event-grid"), &asked), "accept 1:t mine", "an event may have such a field");
}

#[test]
fn computed_replies() {
    let zoom = greeted("zoom");
    let body = br#"{"event":"endpoint.url_validation","payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"},"event_ts":1}"#;
    let signed = sign(&zoom, &[], body);
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET.as_bytes());
    let mac = |text: &str| ring::hmac::sign(&key, text.as_bytes());
    let hex = data_encoding::HEXLOWER.encode(mac("qgg8vlvZRS6UYooatFL8Aw").as_ref());
    let expected = format!(r#"{{"encryptedToken":"{hex}","plainToken":"qgg8vlvZRS6UYooatFL8Aw"}}"#);
    assert_eq!(reply(&zoom, &signed).body, expected);
    assert!(rejected(&zoom, &request(&[], body)), "an unsigned one is no oracle");

    let base64 = data_encoding::BASE64.encode(mac("challenge_string").as_ref());
    let asked = ask("GET", "/in/src?crc_token=challenge_string&nonce=1", &[], "");
    check("x-twitter", &asked, JSON, &format!(r#"{{"response_token":"sha256={base64}"}}"#));

    let answer =
        reply(&greeted("braintree"), &ask("GET", "/in/src?bt_challenge=20f9f8ed05f77439fe955c977e4c8a53", &[], ""));
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(text.starts_with("integration_public_key|") && text.len() == PUBLIC_KEY.len() + 41, "{text}");
}

#[test]
fn a_challenge_signs_no_event_for_strangers() {
    let source = greeted("x-twitter");
    for token in ["%7B%22id%22%3A1%7D", "a b", "a%26b", ""] {
        assert!(rejected(&source, &ask("GET", &format!("/in/src?crc_token={token}"), &[], "")), "{token}");
    }
    let token = "abcDEF0123==";
    let body = reply(&source, &ask("GET", &format!("/in/src?crc_token={token}"), &[], "")).body;
    let signature = std::str::from_utf8(&body).unwrap().split('"').nth(3).unwrap().to_owned();
    let forged = request(&[("x-twitter-webhooks-signature", &signature)], token.as_bytes());
    assert!(rejected(&source, &forged));

    // A token that ends where the body begins signs an empty one.
    let mut timed = spec("x-twitter", &[SECRET]);
    timed.description.set("msg", &toml::Value::from("{ts}.{body}")).unwrap();
    timed.description.set("ts", &toml::toml! { header = ["x-time"] }.into()).unwrap();
    let timed = Source::build(timed).unwrap();
    let seconds = (NOW / 1000).to_string();
    let body = reply(&timed, &ask("GET", &format!("/in/src?crc_token={seconds}."), &[], "")).body;
    let signature = std::str::from_utf8(&body).unwrap().split('"').nth(3).unwrap().to_owned();
    let forged = request(&[("x-twitter-webhooks-signature", &signature), ("x-time", &seconds)], b"");
    assert!(rejected(&timed, &forged));

    let source = greeted("braintree");
    for challenge in ["PG5vdGlmaWNhdGlvbj4=", "abc", "20F9F8ED05F77439FE955C977E4C8A53"] {
        assert!(rejected(&source, &ask("GET", &format!("/in/src?bt_challenge={challenge}"), &[], "")), "{challenge}");
    }
    let challenge = "20f9f8ed05f77439fe955c977e4c8a53";
    let pair = reply(&source, &ask("GET", &format!("/in/src?bt_challenge={challenge}"), &[], "")).body;
    let pair = String::from_utf8_lossy(&pair).replace('|', "%7C");
    assert!(rejected(&source, &request(&[], format!("bt_signature={pair}&bt_payload={challenge}").as_bytes())));
}

#[test]
fn signed_echoes_need_their_signature() {
    let twitch = greeted("twitch-eventsub");
    let headers =
        [("twitch-eventsub-message-id", "m1"), ("twitch-eventsub-message-type", "webhook_callback_verification")];
    let body = br#"{"challenge":"pogchamp-kappa-360noscope","subscription":{"type":"stream.online"}}"#;
    assert_eq!(reply(&twitch, &sign(&twitch, &headers, body)).body, "pogchamp-kappa-360noscope");
    assert!(rejected(&twitch, &request(&headers, body)));
    let event = sign(&twitch, &headers, br#"{"subscription":{"type":"stream.online"}}"#);
    assert_eq!(line(&twitch, &event), "accept m1 stream.online", "without a challenge it is an event");
    assert!(rejected(&greeted("discord-interactions"), &request(&[], br#"{"type":1}"#)));
}

#[test]
fn a_handshake_may_bring_the_secret() {
    let asana = greeted("asana");
    assert!(asana.awaits_secret() && asana.secrets_count() == 0);
    let asked = request(&[("x-hook-secret", "b537207f20cbfa02357cf448134da559")], b"{}");
    match asana.judge(&asked, None, NOW) {
        Verdict::Secret(brought) => {
            assert_eq!(brought.secret.expose(), b"b537207f20cbfa02357cf448134da559");
            assert_eq!(format!("{:?}", brought.secret), "***");
            let (name, value) = &brought.reply.headers[0];
            assert_eq!((name.as_str(), value.as_bytes()), ("x-hook-secret", brought.secret.expose()));
        }
        other => panic!("{other:?}"),
    }
    let notion = greeted("notion");
    assert!(notion.description().shows_secret() && !asana.description().shows_secret());
    assert_eq!(line(&notion, &request(&[], br#"{"verification_token":"secret_tMrlL1"}"#)), "secret secret_tMrlL1");
    let event = br#"{"id":"1","type":"page.created"}"#;
    assert_eq!(line(&notion, &request(&[("x-notion-signature", "sha256=00")], event)), "signature mismatch");
    let armed = notion.with_secret(Secret::new("secret_tMrlL1")).unwrap();
    assert_eq!(line(&armed, &sign(&armed, &[], event)), "accept 1 page.created");
}
