//! Every provider of the catalogue: complete, and what it signs it accepts.

use super::*;
use crate::verdict::IdentityKind;
use crate::{SecretForm, provider_names};

/// Providers whose sample and signature are made by code of their own.
fn is_described(slug: &str) -> bool {
    let description = Description::named(slug).unwrap();
    description.mac.is_some() && description.scheme.is_none()
}

/// A secret of the form the provider hands out.
fn secret(slug: &str) -> String {
    use data_encoding::BASE64;
    use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING as P256, EcdsaKeyPair, Ed25519KeyPair};
    let random = ring::rand::SystemRandom::new();
    match Description::named(slug).unwrap().secret_form().unwrap() {
        SecretForm::Text => SECRET.to_owned(),
        SecretForm::Hex => "00c0ffee".to_owned(),
        SecretForm::Base64 => "c2VjcmV0".to_owned(),
        SecretForm::Whsec => "whsec_c2VjcmV0".to_owned(),
        SecretForm::UserPassword => "user:password".to_owned(),
        SecretForm::Ed25519 => BASE64.encode(Ed25519KeyPair::generate_pkcs8(&random).unwrap().as_ref()),
        SecretForm::P256 => BASE64.encode(EcdsaKeyPair::generate_pkcs8(&P256, &random).unwrap().as_ref()),
        SecretForm::Rsa => testkit::vendor::RSA_KEY.to_owned(),
        SecretForm::PathToken => String::new(),
    }
}

fn built(slug: &str) -> Source {
    let mut spec = spec(slug, &[&secret(slug)]);
    for setting in ["verify_token", "app_key", "secondary"] {
        spec.settings.insert(setting.to_owned(), Secret::new(format!("the {setting}")));
    }
    if spec.description.needs_path_token() {
        spec.secrets.clear();
        spec.path_token = Some(Secret::new("token"));
    }
    Source::build(spec).unwrap_or_else(|problems| panic!("{slug}: {problems:?}"))
}

#[test]
fn what_is_signed_is_accepted_with_its_id_and_type() {
    for slug in provider_names().into_iter().filter(|slug| is_described(slug)) {
        let source = built(slug);
        let draft = sample(&source, &Sample { id: "id1", event_type: Some("thing.made"), filler_bytes: 10 }, NOW);
        let request = source.sign(draft, NOW).unwrap_or_else(|error| panic!("{slug}: {error}"));
        let token = source.has_path_token().then_some("token");
        let Verdict::Accept(accepted) = judged(&source, &request, token, NOW) else {
            panic!("{slug}: {:?}", source.judge(&request, token, NOW))
        };
        let [event] = &accepted.events[..] else { panic!("{slug}: {:?}", accepted.events) };
        assert_eq!(event.held, None, "{slug}");
        let by_id = matches!(event.identity_kind, IdentityKind::Id | IdentityKind::IdAndBody);
        let has_id = event.event_id.split(':').any(|part| part == "id1");
        assert_eq!(by_id, has_id, "{slug}: {}", event.event_id);
        let has_type = slug != "fingerprint" && !source.description().event_type.is_empty();
        assert_eq!(event.event_type, if has_type { "thing.made" } else { "" }, "{slug}");
    }
}

#[test]
fn two_samples_are_two_events() {
    for slug in provider_names().into_iter().filter(|slug| is_described(slug)) {
        let source = built(slug);
        let bodies = ["id1", "id2"].map(|id| {
            let draft = sample(&source, &Sample { id, event_type: None, filler_bytes: 0 }, NOW);
            (draft.body, draft.headers)
        });
        assert_ne!(bodies[0], bodies[1], "{slug}");
    }
}

#[test]
fn what_is_covered_cannot_be_changed() {
    for slug in provider_names().into_iter().filter(|slug| is_described(slug)) {
        let source = built(slug);
        let draft = sample(&source, &Sample { id: "id1", event_type: None, filler_bytes: 10 }, NOW);
        let mut request = source.sign(draft, NOW).unwrap();
        request.body = [&request.body[..], b" "].concat().into();
        if source.description().body_covered() {
            assert_eq!(line(&source, &request), "signature mismatch", "{slug}");
        }
    }
}

#[test]
fn entries_are_complete() {
    for slug in provider_names().into_iter().filter(|slug| *slug != "custom") {
        let description = Description::named(slug).unwrap();
        let facts = description.facts();
        for (fact, text) in [("title", facts.title), ("setup", facts.setup), ("secret_hint", facts.secret_hint)] {
            assert!(!text.is_empty(), "{slug} has no {fact}");
        }
        assert!(facts.docs.starts_with("https://"), "{slug}");
        assert!(facts.confidence.len() == 5 && !facts.signature.is_empty() && !facts.identity.is_empty(), "{slug}");
    }
}

#[test]
fn empty_batches_store_nothing() {
    for (slug, body) in [("line", r#"{"events":[]}"#), ("xero", r#"{"events":[]}"#), ("sendgrid", "[]")] {
        let source = built(slug);
        assert_eq!(line(&source, &sign(&source, &[], body.as_bytes())), "reply ", "{slug}");
    }
}

/// Signs a body as the provider does and judges it.
fn check(slug: &str, headers: &[(&str, &str)], body: &str, expected: &str) {
    let source = built(slug);
    assert_eq!(line(&source, &sign(&source, headers, body.as_bytes())), expected, "{slug} {body}");
}

#[test]
fn elements_know_what_stands_around_them() {
    let whatsapp = r#"{"object":"whatsapp_business_account","entry":[{"id":"1","changes":[{"field":"messages","value":
        {"messages":[{"id":"m1"}],"statuses":[{"id":"m1","status":"sent"},{"id":"m1","status":"read"}]}}]}]}"#;
    let kind = "whatsapp_business_account.messages";
    let expected = format!("accept m1 {kind}, accept m1:sent {kind}, accept m1:read {kind}");
    check("meta-whatsapp", &[], whatsapp, &expected);
    let page = r#"{"object":"page","entry":[{"id":"1","messaging":[{"message":{"mid":"m2"}}]},{"id":"1","time":5}]}"#;
    check("meta-whatsapp", &[], page, "accept m2 page, held unreadable");
    let pusher = r#"{"time_ms":1731700000000,"events":[{"name":"channel_occupied","channel":"c"}]}"#;
    check("pusher", &[], pusher, "accept 1731700000000:channel_occupied:c channel_occupied");
    let ably = r#"{"items":[{"name":"channel.message","data":{"messages":[{"id":"a:0","name":"x"},{"id":"a:1"}]}}]}"#;
    check("ably", &[], ably, "accept a:0 channel.message, accept a:1 channel.message");
    let quickbooks = r#"{"eventNotifications":[{"realmId":"9","dataChangeEvent":{"entities":
        [{"name":"Customer","id":"1","operation":"Create","lastUpdated":"t"}]}}]}"#;
    check("quickbooks", &[], quickbooks, "accept 9:Customer:1:Create:t Customer.Create");
    check("quickbooks", &[], r#"[{"id":"e1","type":"qbo.customer.created.v1"}]"#, "accept e1 qbo.customer.created.v1");
}

#[test]
fn ids_in_headers_name_the_whole_request() {
    let headers = [("ce-id", "1"), ("ce-source", "/s"), ("ce-type", "t")];
    check("cloudevents-webhook", &headers, "[1,2]", "accept /s:1 t");
    check("cloudevents-webhook", &[], r#"[{"id":"1","source":"/s","type":"t"}]"#, "accept /s:1 t");
}

#[test]
fn every_notification_needs_its_token() {
    let source = built("microsoft-graph");
    let judge = |body: String| line(&source, &request(&[], body.as_bytes()));
    let own = format!(r#"{{"id":"1","changeType":"updated","clientState":"{SECRET}"}}"#);
    assert_eq!(judge(format!(r#"{{"value":[{own}]}}"#)), "accept 1 updated");
    let other = r#"{"id":"2","changeType":"updated","clientState":"x"}"#;
    assert_eq!(judge(format!(r#"{{"value":[{own},{other}]}}"#)), "signature mismatch");
    assert_eq!(judge(format!(r#"{{"value":[{own},{{"id":"2"}}]}}"#)), "signature missing_signature");
    assert_eq!(judge(r#"{"value":[]}"#.to_owned()), "signature missing_signature");
    assert_eq!(judge(format!(r#"{{"clientState":"{SECRET}"}}"#)), "signature missing_signature");
}

#[test]
fn tokens_stand_bare_or_behind_bearer() {
    let source = built("static-token");
    let judge = |value: &str| line(&source, &request(&[("authorization", value)], b"x"));
    assert!(judge(SECRET).starts_with("accept body_"));
    assert!(judge(&format!("Bearer {SECRET}")).starts_with("accept body_"));
    assert_eq!(judge("Bearer "), "signature mismatch");
    assert_eq!(judge("Basic eA=="), "signature mismatch");
}
