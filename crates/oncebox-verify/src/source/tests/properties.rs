//! Properties on arbitrary input: nothing panics, nothing is accepted that an independent reader would refuse.

use proptest::prelude::*;
use ring::digest::{SHA256, digest};

use super::*;
use crate::digest::{Fingerprint, Identity, sha256};

/// HMAC by its definition, so that the check does not lean on the code it checks.
fn slow_hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0_u8; 64];
    let key = if key.len() > 64 { digest(&SHA256, key).as_ref().to_vec() } else { key.to_vec() };
    block[..key.len()].copy_from_slice(&key);
    let pad = |with: u8| block.iter().map(|byte| byte ^ with).collect::<Vec<u8>>();
    let inner = digest(&SHA256, &[&pad(0x36), message].concat());
    digest(&SHA256, &[pad(0x5c), inner.as_ref().to_vec()].concat()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Stripe's rule, read the slow way.
fn slow_stripe(secrets: &[String], value: &str, body: &[u8], now: i64) -> bool {
    let items: Vec<&str> = value.split(',').collect();
    let times: Vec<&str> = items.iter().filter_map(|item| item.strip_prefix("t=")).collect();
    let given: Vec<&str> = items.iter().filter_map(|item| item.strip_prefix("v1=")).collect();
    let [time] = times[..] else { return false };
    if time.len() != 10 || !time.chars().all(|letter| letter.is_ascii_digit()) || given.len() > 8 {
        return false;
    }
    let message = [time.as_bytes(), b".", body].concat();
    let fits = |secret: &String| {
        given.iter().any(|given| given.to_lowercase() == hex(&slow_hmac(secret.as_bytes(), &message)))
    };
    secrets.iter().any(fits) && (now - time.parse::<i64>().unwrap()).abs() <= 300
}

fn is_accepted(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Accept(_))
}

/// Text that looks like what signature headers hold.
fn header_text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("t=1731700000".to_owned()),
        Just("v1=".to_owned()),
        Just("v0=".to_owned()),
        Just("v1,".to_owned()),
        Just("sha256=".to_owned()),
        Just(",".to_owned()),
        Just(" ".to_owned()),
        "[0-9a-fA-F]{64}",
        "[A-Za-z0-9+/]{43}=",
        "[ -~]{0,12}",
    ];
    proptest::collection::vec(word, 0..12).prop_map(|words| words.concat())
}

/// Text that looks like JSON, more or less.
fn json_text() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        Just("{".to_owned()),
        Just("}".to_owned()),
        Just("[".to_owned()),
        Just("]".to_owned()),
        Just(",".to_owned()),
        Just(":".to_owned()),
        Just("\"id\"".to_owned()),
        Just("\"\\u0069d\"".to_owned()),
        Just("\"type\"".to_owned()),
        Just("null".to_owned()),
        Just("\"\\ud800\"".to_owned()),
        "-?[0-9]{1,5}",
        "\"[a-z]{0,3}\"",
        "[ -~]{0,4}",
    ];
    proptest::collection::vec(token, 0..24).prop_map(|tokens| tokens.concat())
}

fn with_signature(name: &'static str, value: &str, body: &[u8]) -> Request {
    let mut request =
        request(&[("webhook-id", "i"), ("svix-id", "i"), ("x-slack-request-timestamp", "1731700000")], body);
    set(&mut request, name, value);
    request
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_signature_header_panics_or_is_believed(value in header_text(), body in json_text()) {
        for (provider, name) in [
            ("stripe", "stripe-signature"), ("github", "x-hub-signature-256"), ("shopify", "x-shopify-hmac-sha256"),
            ("slack", "x-slack-signature"), ("twilio", "x-twilio-signature"), ("svix", "svix-signature"),
        ] {
            let verdict = source(provider).judge(&with_signature(name, &value, body.as_bytes()), None, NOW);
            prop_assert!(!is_accepted(&verdict));
        }
    }

    #[test]
    fn what_is_signed_is_accepted(id in "[a-z0-9_]{1,40}", secret in "[!-~]{1,80}", filler in 0..200_usize) {
        for provider in ["stripe", "github", "shopify", "slack", "twilio"] {
            let source = Source::build(spec(provider, &[&secret])).unwrap();
            let draft = sample(&source, &Sample { id: &id, event_type: Some("a.b"), filler_bytes: filler }, NOW);
            let event = only(&source, &source.sign(draft, NOW).unwrap());
            prop_assert_eq!(event.event_id, id.clone());
        }
    }

    #[test]
    fn verdicts_agree_with_a_slow_reader(
        secrets in proptest::collection::vec("[a-z]{1,70}", 1..3),
        by in "[a-z]{1,70}",
        known in any::<bool>(),
        age in -302..303_i64,
        extra in proptest::collection::vec(header_text(), 0..4),
        body in json_text(),
    ) {
        let source = Source::build(spec("stripe", &secrets.iter().map(String::as_str).collect::<Vec<_>>())).unwrap();
        let time = NOW / 1000 - age;
        let secret = if known { secrets.last().unwrap() } else { &by };
        let signature = hex(&slow_hmac(secret.as_bytes(), format!("{time}.{body}").as_bytes()));
        let value = [vec![format!("t={time},v1={signature}")], extra].concat().join(",");
        let verdict = source.judge(&with_signature("stripe-signature", &value, body.as_bytes()), None, NOW);
        prop_assert_eq!(is_accepted(&verdict), slow_stripe(&secrets, &value, body.as_bytes(), NOW / 1000));
    }

    #[test]
    fn a_timestamp_is_ten_digits(text in "[ -~]{0,14}|[0-9]{8,12}") {
        let source = source("slack");
        let signature = hex(&slow_hmac(SECRET.as_bytes(), format!("v0:{text}:{{}}").as_bytes()));
        let mut request = with_signature("x-slack-signature", &format!("v0={signature}"), b"{}");
        set(&mut request, "x-slack-request-timestamp", &text);
        let is_canonical = text.parse::<i64>().is_ok_and(|time| time.to_string() == text || format!("{time:010}") == text)
            && text.len() == 10 && !text.starts_with('-');
        match source.judge(&request, None, text.parse::<i64>().unwrap_or(0).saturating_mul(1000)) {
            Verdict::Accept(_) => prop_assert!(is_canonical),
            _ => prop_assert!(!is_canonical),
        }
    }

    #[test]
    fn ids_come_out_of_any_bytes_without_harm(body in prop_oneof![json_text(), "[ -~]{0,40}".prop_map(|text| text)]) {
        let source = source("stripe");
        let event = only(&source, &sign(&source, &[], body.as_bytes()));
        prop_assert_eq!(event.body.as_ref(), body.as_bytes());
        prop_assert_eq!(event.body_sha256, sha256(body.as_bytes()));
        // An independent reader that builds the tree must see the same id wherever it sees one.
        match serde_json::from_str::<serde_json::Value>(&body) {
            Err(_) => prop_assert!(event.held.is_some()),
            Ok(tree) => match (tree.get("id"), event.held) {
                (Some(serde_json::Value::String(id)), None) => prop_assert_eq!(id, &event.event_id),
                (Some(number), None) => {
                    prop_assert!(number.is_number());
                    prop_assert_eq!(event.event_id.parse::<f64>().ok(), number.as_f64());
                }
                (None, held) => prop_assert!(held.is_some()),
                (Some(_), Some(_)) => {}
            },
        }
    }

    #[test]
    fn keys_are_equal_only_for_equal_parts(
        a in ("[ab:]{0,4}", "[ab:]{0,4}", "[ab]{0,2}"), b in ("[ab:]{0,4}", "[ab:]{0,4}", "[ab]{0,2}"),
    ) {
        let (digest_a, digest_b) = (sha256(a.2.as_bytes()), sha256(b.2.as_bytes()));
        let same = |left: bool, right: bool| left == right;
        prop_assert!(same(
            Identity::of_id(&a.0, a.1.as_bytes()) == Identity::of_id(&b.0, b.1.as_bytes()), (&a.0, &a.1) == (&b.0, &b.1)));
        prop_assert!(same(
            Identity::of_id_and_body(&a.0, a.1.as_bytes(), &digest_a) == Identity::of_id_and_body(&b.0, b.1.as_bytes(), &digest_b),
            a == b));
        prop_assert!(same(
            Fingerprint::of_type_and_body(&a.0, &a.1, &digest_a) == Fingerprint::of_type_and_body(&b.0, &b.1, &digest_b), a == b));
        prop_assert_ne!(Identity::of_id(&a.0, a.1.as_bytes()), Identity::of_body(&a.0, &digest_a));
    }
}
