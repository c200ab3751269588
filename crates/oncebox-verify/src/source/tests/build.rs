//! What an operator may not write, and how it is said.

use super::*;

fn problems(spec: SourceSpec) -> Vec<String> {
    match Source::build(spec) {
        Ok(_) => Vec::new(),
        Err(wrong) => wrong.problems.into_iter().map(|problem| problem.key).collect(),
    }
}

#[test]
fn secrets_that_protect_nothing_are_refused() {
    assert_eq!(problems(spec("stripe", &[])), ["secrets"]);
    assert_eq!(problems(spec("stripe", &["", " \n", "good"])), ["secrets[0]", "secrets[1]"]);
    assert_eq!(problems(spec("svix", &["whsec_not base64"])), ["secrets[0]"]);
    assert_eq!(problems(spec("svix", &["whsec_"])), ["secrets[0]"]);
    assert!(problems(spec("stripe", &["whsec_not base64"])).is_empty());
}

#[test]
fn a_plain_digest_that_can_be_lengthened_is_refused() {
    for (msg, expected) in [
        ("{secret}{body}", &["msg"][..]),
        ("{secret}.{body}.", &["msg"]),
        ("{body}", &["msg"]),
        ("{body}{secret}", &[]),
        ("{secret}{body}{secret}", &[]),
    ] {
        let mut spec = spec("custom", &[SECRET]);
        for (key, value) in [("mac", "sha256"), ("msg", msg), ("id", "json:/id")] {
            spec.description.set(key, &toml::Value::from(value)).unwrap();
        }
        spec.description.set("sig", &toml::toml! { header = ["x-signature"] }.into()).unwrap();
        assert_eq!(problems(spec), expected, "{msg}");
    }
}

#[test]
fn what_names_a_delivery_must_be_signed() {
    let mut spec = spec("mailgun", &[SECRET]);
    assert!(problems(spec.clone()).is_empty());
    spec.description.set("delivery", &toml::Value::from("json:/event-data/id")).unwrap();
    assert_eq!(problems(spec.clone()), ["delivery"]);
    spec.description.set("delivery", &toml::Value::from("json:/signature/token")).unwrap();
    spec.description.set("each", &toml::Value::from("/events")).unwrap();
    assert_eq!(problems(spec), ["delivery"]);
}

#[test]
fn verification_is_off_only_by_word() {
    let mut off = spec("stripe", &[]);
    off.unverified = true;
    let source = Source::build(off).unwrap();
    assert!(source.is_unverified());
    assert_eq!(line(&source, &request(&[], br#"{"id":"a","type":"t"}"#)), "accept a t");
}

#[test]
fn a_path_token_stands_in_for_a_signature() {
    let mut by_token = spec("custom", &[]);
    by_token.description.set("id", &toml::Value::from("json:/id")).unwrap();
    assert_eq!(problems(by_token.clone()), ["mac"]);
    by_token.path_token = Some(Secret::new(" "));
    assert_eq!(problems(by_token.clone()), ["path_token"]);
    by_token.path_token = Some(Secret::new("t0k\nen"));
    assert_eq!(problems(by_token.clone()), ["path_token"]);
    by_token.path_token = Some(Secret::new("t0ken"));
    let source = Source::build(by_token).unwrap();
    assert!(!source.is_unverified());
    let request = request(&[], br#"{"id":"a"}"#);
    let judge = |token: Option<&str>| match source.judge(&request, token, NOW) {
        Verdict::Accept(accepted) => accepted.secret.to_string(),
        Verdict::Reject(no) => no.reason.as_str().to_owned(),
        other => format!("{other:?}"),
    };
    assert_eq!(judge(Some("t0ken")), "1");
    assert_eq!(judge(Some("t0%6Ben")), "1");
    assert_eq!(judge(Some("t0keN")), "mismatch");
    assert_eq!(judge(Some("")), "mismatch");
    assert_eq!(judge(None), "missing_signature");
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let mut twilio = spec("twilio", &[""]);
    twilio.settings.clear();
    assert_eq!(problems(twilio.clone()), ["secrets[0]", "public_url"]);
    twilio.settings.insert("public_url".to_owned(), Secret::new("hooks.example.com"));
    assert_eq!(problems(twilio), ["secrets[0]", "public_url"]);
    assert_eq!(problems(spec("custom", &["s"])), ["mac", "id"]);
    let mut bare = spec("custom", &["s"]);
    bare.description.set("mac", &toml::Value::from("hmac-sha256")).unwrap();
    assert_eq!(problems(bare), ["msg", "sig", "id"]);
}

#[test]
fn a_time_that_is_not_signed_is_refused() {
    let keys = |msg: &str| {
        format!(
            "mac = \"hmac-sha256\"\nmsg = \"{msg}\"\nsig = {{ header = [\"x-s\"] }}\nts = {{ header = [\"x-t\"] }}\nid = \"json:/id\""
        )
    };
    assert!(custom(&keys("{ts}{body}"), &["s"]).is_ok());
    assert!(custom(&keys("{header:x-t}{body}"), &["s"]).is_ok());
    assert_eq!(custom(&keys("{body}"), &["s"]).unwrap_err().problems[0].key, "ts");
}

#[test]
fn an_id_that_is_not_signed_cannot_be_called_so() {
    let keys = |msg: &str| {
        format!(
            "mac = 'hmac-sha256'\nmsg = '{msg}'\nsig = {{ header = ['x-s'] }}\nid = 'header:x-id'\nid_signed = true"
        )
    };
    assert!(custom(&keys("{header:x-id}.{body}"), &["s"]).is_ok());
    assert_eq!(custom(&keys("{body}"), &["s"]).unwrap_err().problems[0].key, "id_signed");
}

#[test]
fn wrong_keys_are_named_and_values_are_not_quoted() {
    let check = |toml: &str, key: &str| {
        let problem = custom(toml, &["s"]).unwrap_err().problems.remove(0);
        assert_eq!(problem.key, key, "{toml}");
        assert!(!problem.cure.is_empty());
        assert!(!format!("{problem:?}").contains("SECRET"), "{problem:?}");
    };
    check("key = 'SECRET'", "key");
    check("mac = 'SECRET'", "mac");
    check("mac = 5", "mac");
    check("msg = '{SECRET}'", "msg");
    check("msg = '{body'", "msg");
    check("sig = { header = ['x y'] }", "sig.header");
    check("sig = { headr = ['x'] }", "sig.headr");
    check("sig = { split = ',' }", "sig");
    check("sig = { header = ['x'], split = '' }", "sig.split");
    check("sig = 'SECRET'", "sig");
    check("ts = { header = ['x'], unit = 'SECRET' }", "ts.unit");
    check("ts = { header = ['x'], past = '5 SECRET' }", "ts.past");
    check("ts = { unit = 's' }", "ts");
    check("id = 'SECRET'", "id");
    check("type = ['json:SECRET']", "type");
    check("each = 'SECRET'", "each");
    check("id_signed = 'SECRET'", "id_signed");
    check("require = { x-key = 'SECRET' }", "require.x-key");
    check("handshake = { reply = 'x' }", "handshake");
    check("nonsense = 1", "nonsense");
}

#[test]
fn every_key_can_be_set() {
    let mut description = Description::default();
    for key in Description::KEYS {
        let problem = description.set(key, &toml::Value::from(0.5)).unwrap_err();
        assert_ne!(problem.message, "this key is not known", "{key}");
    }
}

#[test]
fn facts() {
    let github = Source::build(spec("github", &["a", "b"])).unwrap();
    assert_eq!(github.body_bytes_max(), Some(25 << 20));
    assert_eq!((github.secrets_count(), github.methods()), (2, [Method::POST].as_slice()));
    for provider in PROVIDERS {
        let description = Description::named(provider).unwrap();
        let facts = description.facts();
        assert!(!facts.title.is_empty() && !facts.setup.is_empty() && !facts.secret_hint.is_empty(), "{provider}");
        assert!(facts.docs.starts_with("https://") && facts.confidence.len() == 5, "{provider}");
        assert!(!facts.signature.is_empty() && !facts.identity.is_empty() && description.body_covered(), "{provider}");
    }
    let line = Description::named("stripe").unwrap().facts().signature;
    assert_eq!(line, "hmac-sha256 over {ts}.{body}, in stripe-signature, at most 300 s old");
}

#[test]
fn a_source_can_be_shared_between_threads() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Source>();
}
