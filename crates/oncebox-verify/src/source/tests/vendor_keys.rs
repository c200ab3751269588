//! Tokens and certificates from the outside: the right ones, and what an attacker would send in their place.

use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER};
use ring::hmac;
use serde_json::{Value, json};
use testkit::vendor::{self, CERTIFICATE_URL, TOPIC, sns};

use super::*;
use crate::digest::sha256;

const BODY: &[u8] = br#"{"webhook_type":"ITEM","webhook_code":"ERROR","item_id":"i1"}"#;

fn with(provider: &str, secrets: &[&str], settings: &[(&str, &str)]) -> Source {
    let mut spec = spec(provider, secrets);
    for (name, value) in settings {
        spec.settings.insert((*name).to_owned(), Secret::new(*value));
    }
    Source::build(spec).unwrap_or_else(|problems| panic!("{provider}: {problems:?}"))
}

fn hs256(secret: &[u8]) -> impl Fn(&[u8]) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    move |message| hmac::sign(&key, message).as_ref().to_vec()
}

fn plaid_claims() -> Value {
    json!({ "iat": NOW / 1000, "request_body_sha256": HEXLOWER.encode(&sha256(BODY)) })
}

fn plaid_line(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let source = with("plaid", &[&vendor::p256_jwk("k1").to_string()], &[]);
    line(&source, &request(&[("plaid-verification", &vendor::jwt(header, claims, sign))], BODY))
}

#[test]
fn the_algorithm_is_fixed_by_the_description() {
    let good = json!({ "alg": "ES256", "kid": "k1", "typ": "JWT" });
    let accepted = plaid_line(&good, &plaid_claims(), vendor::es256);
    assert!(accepted.starts_with("accept ") && accepted.ends_with(" ITEM.ERROR"), "{accepted}");
    let jwk = vendor::p256_jwk("k1");
    let point = [&[4], decode(&jwk["x"]).as_slice(), &decode(&jwk["y"])].concat();
    for (header, sign) in [
        (json!({ "alg": "none", "kid": "k1" }), Box::new(|_: &[u8]| Vec::new()) as Box<dyn Fn(&[u8]) -> Vec<u8>>),
        (json!({ "alg": "None", "kid": "k1" }), Box::new(|_: &[u8]| Vec::new())),
        (json!({ "kid": "k1" }), Box::new(vendor::es256)),
        (json!({ "alg": "HS256", "kid": "k1" }), Box::new(hs256(&point))),
        (json!({ "alg": "HS256", "kid": "k1" }), Box::new(hs256(jwk.to_string().as_bytes()))),
        (json!({ "alg": "RS256", "kid": "k1" }), Box::new(vendor::rsa_sha256)),
        (json!({ "alg": "ES256", "kid": "k1", "crit": ["b64"] }), Box::new(vendor::es256)),
        (json!({ "alg": ["ES256"], "kid": "k1" }), Box::new(vendor::es256)),
    ] {
        assert_eq!(plaid_line(&header, &plaid_claims(), sign), "signature malformed_signature", "{header}");
    }
    assert_eq!(plaid_line(&good, &plaid_claims(), hs256(&point)), "signature mismatch");
    assert_eq!(plaid_line(&good, &plaid_claims(), |_| Vec::new()), "signature mismatch");
    let other = json!({ "alg": "ES256", "kid": "k2" });
    assert_eq!(plaid_line(&other, &plaid_claims(), vendor::es256), "signature unknown_key");
}

fn decode(text: &Value) -> Vec<u8> {
    BASE64URL_NOPAD.decode(text.as_str().unwrap().as_bytes()).unwrap()
}

#[test]
fn a_public_key_is_no_shared_secret() {
    for provider in ["netlify", "monday"] {
        let wrong = Source::build(spec(provider, &[vendor::SNS_CERTIFICATE])).unwrap_err();
        assert_eq!(wrong.problems[0].key, "secrets[0]", "{provider}");
    }
    assert!(Source::build(spec("plaid", &["just text"])).is_err());
    assert!(Source::build(spec("plaid", &[vendor::SNS_CERTIFICATE])).is_err(), "an RSA key is not for ES256");
    assert_eq!(Source::build(spec("plaid", &[])).unwrap_err().problems[0].key, "secrets");
}

#[test]
fn times_and_hashes_of_a_token() {
    let header = json!({ "alg": "ES256", "kid": "k1" });
    let check = |name: &str, value: Value, expected: &str| {
        let mut claims = plaid_claims();
        claims[name] = value;
        let found = plaid_line(&header, &claims, vendor::es256);
        assert!(found.starts_with(expected), "{claims}: {found}");
    };
    let now = NOW / 1000;
    check("iat", json!(now - 300), "accept");
    check("iat", json!(now - 301), "window too_old");
    check("iat", json!(now + 61), "window too_new");
    check("iat", json!("now"), "window bad_timestamp");
    check("iat", Value::Null, "window bad_timestamp");
    check("exp", json!(now - 61), "window too_old");
    check("nbf", json!(now + 61), "window too_new");
    check("request_body_sha256", json!(HEXLOWER.encode(&sha256(b"other"))), "signature mismatch");
    check("request_body_sha256", json!(""), "signature mismatch");
    check("request_body_sha256", Value::Null, "signature mismatch");
}

#[test]
fn pubsub_wants_its_issuer_audience_and_account() {
    let settings = [("audience", "https://hooks.example.com"), ("service_account", "push@p.iam.gserviceaccount.com")];
    let source = with("google-pubsub", &[&json!({ "keys": [vendor::rsa_jwk("g1")] }).to_string()], &settings);
    let body =
        br#"{"subscription":"projects/p/subscriptions/s","message":{"messageId":"7","attributes":{"type":"t"}}}"#;
    let good = json!({ "iss": "https://accounts.google.com", "aud": "https://hooks.example.com", "exp": NOW / 1000 + 60,
        "email": "push@p.iam.gserviceaccount.com", "email_verified": true });
    let judge = |claims: &Value, bearer: &str| {
        let token = vendor::jwt(&json!({ "alg": "RS256", "kid": "g1" }), claims, vendor::rsa_sha256);
        line(&source, &request(&[("authorization", &format!("{bearer}{token}"))], body))
    };
    assert_eq!(judge(&good, "Bearer "), "accept projects/p/subscriptions/s:7 t");
    assert_eq!(judge(&good, "bearer "), "accept projects/p/subscriptions/s:7 t");
    assert_eq!(judge(&good, "Basic "), "signature malformed_signature");
    for (name, value) in [
        ("iss", json!("https://evil.example")),
        ("aud", json!("https://hooks.example.com/other")),
        ("aud", json!(["a", "b"])),
        ("email", json!("other@p.iam.gserviceaccount.com")),
        ("email_verified", json!(false)),
    ] {
        let mut claims = good.clone();
        claims[name] = value;
        assert_eq!(judge(&claims, "Bearer "), "signature wrong_claim", "{claims}");
    }
    let mut endless = good.clone();
    endless.as_object_mut().unwrap().remove("exp");
    assert_eq!(judge(&endless, "Bearer "), "window bad_timestamp");
}

#[test]
fn qstash_takes_padded_hashes_and_the_next_key() {
    let source = with("qstash", &["current"], &[("next", "next")]);
    let body = br#"{"type":"t"}"#;
    let judge = |hash: String, url: &str, secret: &str| {
        let claims = json!({ "iss": "Upstash", "sub": url, "body": hash, "exp": NOW / 1000 + 60 });
        let token = vendor::jwt(&json!({ "alg": "HS256" }), &claims, hs256(secret.as_bytes()));
        line(&source, &request(&[("upstash-signature", &token), ("upstash-message-id", "m1")], body))
    };
    let hash = BASE64URL_NOPAD.encode(&sha256(body));
    let url = "https://hooks.example.com/in/src";
    assert_eq!(judge(hash.clone(), url, "current"), "accept m1 t");
    assert_eq!(judge(format!("{hash}="), url, "next"), "accept m1 t");
    assert_eq!(judge(hash.clone(), url, "other"), "signature mismatch");
    assert_eq!(judge(hash, "https://evil.example/", "current"), "signature mismatch");
}

fn sns_line(source: &Source, message: &Value) -> String {
    line(source, &request(&[], message.to_string().as_bytes()))
}

#[test]
fn sns_by_a_given_certificate() {
    let source = with("aws-sns", &[vendor::SNS_CERTIFICATE], &[("topic_arn", TOPIC)]);
    assert_eq!(sns_line(&source, &sns(&[])), "accept m-1 Notification");
    assert_eq!(sns_line(&source, &sns(&[("Subject", Value::Null)])), "accept m-1 Notification");
    for (name, value, expected) in [
        ("TopicArn", json!("arn:aws:sns:eu-central-1:666:orders"), "signature wrong_claim"),
        ("Timestamp", json!("2024-11-15T18:46:39.000Z"), "window too_old"),
        ("Timestamp", json!("2024-11-15T20:46:40.000Z"), "window too_new"),
        ("Timestamp", json!("soon"), "window bad_timestamp"),
        ("SignatureVersion", json!("3"), "signature malformed_signature"),
        ("SignatureVersion", json!("1"), "signature mismatch"),
        ("MessageId", json!("a\nb"), "signature malformed_signature"),
        ("Type", json!("Other"), "signature malformed_signature"),
    ] {
        assert_eq!(sns_line(&source, &sns(&[(name, value)])), expected, "{name}");
    }
    let mut changed = sns(&[]);
    changed["Message"] = "other".into();
    assert_eq!(sns_line(&source, &changed), "signature mismatch");
    changed["Signature"] = "".into();
    assert_eq!(sns_line(&source, &changed), "signature missing_signature");
    assert_eq!(Source::build(spec("aws-sns", &[])).unwrap_err().problems[0].key, "topic_arn");
}

#[test]
fn sns_wants_the_certificate_of_amazon_only() {
    let source = with("aws-sns", &[], &[("topic_arn", TOPIC)]);
    assert_eq!(sns_line(&source, &sns(&[])), format!("fetch {CERTIFICATE_URL}"));
    for url in [
        "http://sns.eu-central-1.amazonaws.com/a.pem",
        "https://sns.eu-central-1.amazonaws.com.evil.example/a.pem",
        "https://sns.eu-central-1.amazonaws.com@evil.example/a.pem",
        "https://evil.example/a.pem",
        "https://127.0.0.1/a.pem",
        "https://sns.s3.amazonaws.com/SimpleNotificationService-7ff5318490ec183fbaddaa2a969abfda.pem",
        "https://sns.s3-us-gov-west-1.amazonaws.com/SimpleNotificationService-7ff5318490ec183fbaddaa2a969abfda.pem",
        "https://sns.s3-accelerate.amazonaws.com/SimpleNotificationService-7ff5318490ec183fbaddaa2a969abfda.pem",
        "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-7ff5318490ec183fbaddaa2a969abfda.pem",
        "https://sns.eu-central-1.amazonaws.com/x.pem",
        "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-7ff5318490ec183fbaddaa2a969abfda.pem?a",
    ] {
        assert_eq!(sns_line(&source, &sns(&[("SigningCertURL", url.into())])), "signature foreign_key", "{url}");
    }
    let other_topic = sns(&[("TopicArn", "arn:aws:sns:eu-central-1:666:orders".into())]);
    assert_eq!(sns_line(&source, &other_topic), "signature wrong_claim", "nothing is fetched for strangers");

    let Verdict::NeedsKey(wanted) = source.judge(&request(&[], sns(&[]).to_string().as_bytes()), None, NOW) else {
        panic!("a key is wanted");
    };
    assert!(!source.learn(&wanted, b"no key", None, NOW));
    assert!(source.learn(&wanted, vendor::SNS_CERTIFICATE.as_bytes(), None, NOW));
    assert_eq!(sns_line(&source, &sns(&[])), "accept m-1 Notification");
    for other in [vendor::RSA_KEY, &vendor::rsa_jwk("k").to_string()] {
        assert!(!source.learn(&wanted, other.as_bytes(), None, NOW), "only a certificate counts");
    }
    assert!(source.learn(&wanted, vendor::EXPIRED_CERTIFICATE.as_bytes(), None, NOW));
    assert_eq!(sns_line(&source, &sns(&[])), "signature expired_key");
}

#[test]
fn sns_subscriptions() {
    let source = with("aws-sns", &[vendor::SNS_CERTIFICATE], &[("topic_arn", TOPIC)]);
    let url = "https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription&Token=t";
    let confirm =
        |kind: &str, url: &str| sns(&[("Type", kind.into()), ("SubscribeURL", url.into()), ("Token", "t".into())]);
    assert_eq!(sns_line(&source, &confirm("SubscriptionConfirmation", url)), format!("visit {url}"));
    assert_eq!(sns_line(&source, &confirm("UnsubscribeConfirmation", url)), "reply ");
    for elsewhere in [
        "https://evil.example/",
        "http://sns.eu-central-1.amazonaws.com/",
        "https://169.254.169.254/",
        "https://sns.us-east-1.amazonaws.com/",
        "https://sns.s3.amazonaws.com/",
    ] {
        let found = sns_line(&source, &confirm("SubscriptionConfirmation", elsewhere));
        assert_eq!(found, "signature wrong_claim", "{elsewhere}");
    }
    let mut forged = confirm("SubscriptionConfirmation", url);
    forged["Token"] = "other".into();
    assert_eq!(sns_line(&source, &forged), "signature mismatch");
}

#[test]
fn unknown_key_names_are_asked_for_once_a_minute() {
    let settings = [("audience", "a"), ("service_account", "s")];
    let source = with("google-pubsub", &[], &settings);
    let token = |kid: &str| vendor::jwt(&json!({ "alg": "RS256", "kid": kid }), &json!({}), vendor::rsa_sha256);
    let judge = |kid: &str, now| line_at(&source, &request(&[("authorization", &token(kid))], b"{}"), now);
    let wanted = "fetch https://www.googleapis.com/oauth2/v3/certs";
    assert_eq!(judge("g1", NOW), wanted);
    let Verdict::NeedsKey(key) = source.judge(&request(&[("authorization", &token("g1"))], b"{}"), None, NOW) else {
        panic!("a key is wanted");
    };
    assert!(source.learn(&key, vendor::rsa_jwk("g1").to_string().as_bytes(), None, NOW));
    assert_eq!(judge("g1", NOW), "signature wrong_claim");
    assert_eq!(judge("g2", NOW + 59_999), "signature unknown_key");
    assert_eq!(judge("g2", NOW + 60_000), wanted);
}

#[test]
fn paypal() {
    let settings = [("webhook_id", "WH-1")];
    let body = br#"{"id":"WH-EV-1","event_type":"PAYMENT.SALE.COMPLETED"}"#;
    let headers = |text: &str, url: &'static str, algorithm: &'static str| {
        let signature = BASE64.encode(&vendor::rsa_sha256(text.as_bytes()));
        [
            ("paypal-transmission-id", "t-1".to_owned()),
            ("paypal-transmission-time", "2024-11-15T19:46:40Z".to_owned()),
            ("paypal-transmission-sig", signature),
            ("paypal-cert-url", url.to_owned()),
            ("paypal-auth-algo", algorithm.to_owned()),
        ]
    };
    let judge = |source: &Source, headers: &[(&str, String)], body: &[u8]| {
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        line(source, &request(&headers, body))
    };
    // The checksum is computed elsewhere: it is that of the body above.
    let text = "t-1|2024-11-15T19:46:40Z|WH-1|CRC";
    let text = text.replace("CRC", PAYPAL_CRC);
    let given = with("paypal", &[vendor::PAYPAL_CERTIFICATE], &settings);
    let good = "https://api.paypal.com/v1/notifications/certs/CERT-1";
    let accepted = "accept WH-EV-1 PAYMENT.SALE.COMPLETED";
    assert_eq!(judge(&given, &headers(&text, good, "SHA256withRSA"), body), accepted);
    assert_eq!(judge(&given, &headers(&text, good, "SHA256withRSA"), b"{}"), "signature mismatch");
    assert_eq!(judge(&given, &headers(&text, good, "SHA1withRSA"), body), "signature malformed_signature");
    let other = with("paypal", &[vendor::PAYPAL_CERTIFICATE], &[("webhook_id", "WH-2")]);
    assert_eq!(judge(&other, &headers(&text, good, "SHA256withRSA"), body), "signature mismatch");
    let fetching = with("paypal", &[], &settings);
    assert_eq!(judge(&fetching, &headers(&text, good, "SHA256withRSA"), body), format!("fetch {good}"));
    for url in
        ["https://api.paypal.com.evil.example/c", "http://api.paypal.com/c", "https://evil.example/api.paypal.com"]
    {
        assert_eq!(judge(&fetching, &headers(&text, url, "SHA256withRSA"), body), "signature foreign_key", "{url}");
    }
}

/// By zlib.
const PAYPAL_CRC: &str = "1029777969";

#[test]
fn a_private_key_signs_as_the_vendor_would() {
    for (provider, key, settings) in [
        ("plaid", vendor::P256_KEY, &[][..]),
        ("google-pubsub", vendor::RSA_KEY, &[("audience", "a"), ("service_account", "s")][..]),
        ("aws-sns", vendor::RSA_KEY, &[("topic_arn", TOPIC)][..]),
        ("paypal", vendor::RSA_KEY, &[("webhook_id", "WH-1")][..]),
        ("netlify", "s", &[][..]),
        ("messagebird", "s", &[][..]),
        ("monday", "s", &[][..]),
        ("qstash", "s", &[][..]),
    ] {
        let source = with(provider, &[key], settings);
        let request = signed(&source, "e1");
        assert!(line(&source, &request).starts_with("accept "), "{provider}: {}", line(&source, &request));
        let mut changed = request.clone();
        changed.body = Bytes::from([&request.body[..], b" "].concat());
        let refused = line(&source, &changed).starts_with("signature ");
        // White space is outside what SNS signs.
        assert_eq!(
            refused,
            source.description().body_covered() && provider != "aws-sns" || provider == "paypal",
            "{provider}"
        );
    }
}
