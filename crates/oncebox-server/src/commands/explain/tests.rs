//! Whole runs over captures made here: every provider's own samples, good and bad.

use std::sync::LazyLock;

use data_encoding::BASE64;
use oncebox_verify::{Description, Request, Sample, Secret, Source, SourceSpec, sample};
use serde_json::{Value, json};

use super::*;
use crate::config::store::StoreUrl;
use crate::dev::dev_slugs;
use crate::dev::secrets::DevSecrets;

const AT: i64 = 1_790_000_000;

fn spec(provider: &str) -> SourceSpec {
    let mut spec = SourceSpec::named(provider, provider).expect("a provider");
    spec.secrets = vec![SECRETS.get(provider).expect("a secret").clone()];
    spec.settings = crate::dev::agreed(provider);
    spec
}

/// One secret per provider, in its form.
static SECRETS: LazyLock<DevSecrets> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let store = StoreUrl::Sqlite(folder.path().join("oncebox.db"));
    DevSecrets::load_or_create(&store, &dev_slugs()).expect("secrets")
});

fn signed(provider: &str, name: &str) -> Request {
    let mut spec = spec(provider);
    spec.name = name.to_owned();
    spec.settings.insert("public_url".to_owned(), Secret::new("https://a.example"));
    let source = Source::build(spec).expect("a source");
    let draft = sample(&source, &Sample { id: "sample_1", event_type: None, filler_bytes: 0 }, AT * 1000);
    source.sign(draft, AT * 1000).expect("a signature")
}

fn line(request: &Request, body: &[u8], at: i64) -> String {
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.to_string(), Value::from(value.to_str().expect("text")))
    };
    let headers: serde_json::Map<String, Value> = request.headers.iter().map(header).collect();
    let url = format!("https://a.example{}", request.target);
    json!({ "method": "POST", "url": url, "headers": headers, "body": BASE64.encode(body), "at": at }).to_string()
}

fn run(provider: &str, input: &str, style: Style) -> (String, Summary) {
    let mut judge = Judge::from_spec(spec(provider)).expect("a judge");
    let mut out = Vec::new();
    let summary = explain(&mut input.as_bytes(), &mut out, &mut judge, style).expect("a run");
    (String::from_utf8(out).expect("text"), summary)
}

fn verdicts(provider: &str, input: &str) -> Vec<Value> {
    run(provider, input, Style::Json).0.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn every_provider_accepts_its_own_and_rejects_a_changed_body() {
    let covers = |slug: &&str| Description::named(slug).is_some_and(|description| description.body_covered());
    for provider in dev_slugs().into_iter().filter(covers) {
        let request = signed(provider, "hook");
        let mut changed = request.body.to_vec();
        changed.extend_from_slice(b"0");
        let input = [line(&request, &request.body, AT), "oops".to_owned(), line(&request, &changed, AT)].join("\n");
        let found = verdicts(provider, &input);
        let words: Vec<&Value> = found.iter().map(|one| &one["verdict"]).collect();
        assert_eq!(words, ["accept", "error", "reject"], "{provider}");
        assert_eq!((&found[0]["step"], &found[0]["reason"]), (&Value::Null, &Value::Null));
        let id = found[0]["events"][0]["id"].as_str().unwrap_or("a key");
        assert!(id.contains("sample_1") || id.starts_with("body_") || id == "a key", "{provider}: {id}");
        assert_eq!((&found[1]["line"], &found[1]["step"]), (&json!(2), &json!("read")));
        assert_eq!((&found[2]["step"], &found[2]["events"]), (&json!("signature"), &json!([])), "{provider}");
        assert!(found[2]["cause"].is_string() && found[0].get("cause").is_none(), "{provider}");
    }
}

#[test]
fn old_requests_and_handshakes() {
    let request = signed("stripe", "stripe");
    let old = verdicts("stripe", &line(&request, &request.body, AT + 600));
    let cause = "the signature is right, but it was made 600 s ago: the request was held up or is a replay, or this clock is ahead";
    assert_eq!(
        old,
        [
            json!({ "verdict": "reject", "step": "window", "reason": "too_old", "off_by_seconds": 600, "cause": cause, "events": [], "reply": null })
        ]
    );

    let source = Source::build(spec("slack")).expect("a source");
    let body = br#"{"type":"url_verification","challenge":"3eZbrw"}"#;
    let draft = oncebox_verify::Draft {
        target: "/in/slack".to_owned(),
        headers: http::HeaderMap::new(),
        body: bytes::Bytes::from_static(body),
    };
    let request = source.sign(draft, AT * 1000).expect("a signature");
    let found = verdicts("slack", &line(&request, body, AT));
    assert_eq!(
        (&found[0]["verdict"], &found[0]["reply"]["status"], &found[0]["reply"]["body"]),
        (&json!("handshake"), &json!(200), &json!("3eZbrw"))
    );
    assert!(found[0]["reply"]["headers"]["content-type"].is_string());
}

#[test]
fn people_are_told_the_likely_cause() {
    let request = signed("stripe", "stripe");
    let spaced = [&request.body[..], b"\n"].concat();
    let (text, summary) = run("stripe", &[line(&request, &spaced, AT), "{".to_owned()].join("\n"), Style::People);
    for part in [
        "✗ line 1: POST https://a.example/in/stripe rejected",
        "failed at signature: mismatch",
        "likely the body was changed",
        "✗ line 2: not a captured request",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert_eq!(summary.to_string(), "2 lines: 0 accepted, 1 rejected, 1 unreadable line");
}

#[test]
fn a_path_says_nothing_about_the_signed_url_and_the_other_lines_go_on() {
    let line = |url: &str| json!({"method": "POST", "url": url, "headers": {}, "body": "", "at": AT}).to_string();
    let found = verdicts("twilio", &[line("/a"), line("https://a.example/a"), line("/b")].join("\n"));
    let words: Vec<_> = found.iter().map(|one| one["verdict"].as_str().unwrap_or_default()).collect();
    assert_eq!(words, ["error", "reject", "error"]);
}

#[test]
fn what_is_refused_before_the_signature_is_told() {
    let request = signed("stripe", "hook");
    let mut zipped = request.clone();
    zipped.headers.insert("content-encoding", http::HeaderValue::from_static("gzip"));
    let large = vec![b' '; (1 << 20) + 1];
    let input = [line(&zipped, &request.body, AT), line(&request, &large, AT), line(&request, &request.body, AT)];
    let found = verdicts("stripe", &input.join("\n"));
    let told = |at: usize| (found[at]["verdict"].as_str(), found[at]["step"].as_str(), found[at]["reason"].as_str());
    assert_eq!(told(0), (Some("reject"), Some("encoding"), Some("content_encoding")));
    assert_eq!(told(1), (Some("reject"), Some("size"), Some("too_large")));
    assert_eq!(told(2), (Some("accept"), None, None));
    assert!(found[1]["cause"].as_str().is_some_and(|cause| cause.contains("the limit is 1MiB")), "{}", found[1]);
}

#[test]
fn where_every_arrival_is_an_event_there_is_no_id_yet() {
    let request = signed("plaid", "hook");
    let (text, _) = run("plaid", &line(&request, &request.body, AT), Style::People);
    assert!(text.contains("every arrival is an event"), "{text}");
    assert_eq!(verdicts("plaid", &line(&request, &request.body, AT))[0]["events"][0]["id"], Value::Null);
}
