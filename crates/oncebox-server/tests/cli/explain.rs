//! `oncebox explain` on captures that the test kit signed, independently of the library.

use std::fs;

use data_encoding::BASE64;
use serde_json::{Value, json};
use testkit::sender::{self, Signed};

use crate::oncebox;

const AT: i64 = 1_790_000_000;

fn line(signed: &Signed, at: i64) -> String {
    let headers: serde_json::Map<String, Value> =
        signed.headers.iter().map(|(name, value)| (name.clone(), json!([value]))).collect();
    let body = BASE64.encode(&signed.body);
    json!({ "method": "POST", "url": "/in/hook", "headers": headers, "body": body, "at": at }).to_string()
}

#[test]
fn each_provider_good_and_bad() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    for (provider, signed) in [
        ("stripe", sender::stripe(secret, AT, "evt_1", "invoice.paid", &json!({}))),
        ("github", sender::github(secret, "delivery_1", "push", &json!({ "ref": "main" }))),
        ("shopify", sender::shopify(secret, "delivery_1", "orders/create", &json!({ "id": 1 }))),
        ("slack", sender::slack(secret, AT, "Ev1", "app_mention", &json!({}))),
        ("twilio", sender::twilio(secret, "https://a.example/in/hook", "SM1", &[("MessageStatus", "sent")])),
        ("standard-webhooks", sender::standard_webhooks(secret, AT, "msg_1", "user.created", &json!({}))),
        ("svix", sender::svix(secret, AT, "msg_1", "user.created", &json!({}))),
    ] {
        let lines = [line(&signed, AT), "not json".to_owned(), line(&signed.clone().tampered(), AT)];
        let file = folder.path().join(format!("{provider}.jsonl"));
        fs::write(&file, lines.join("\n")).expect("written");
        let path = file.to_str().expect("text");
        let url = "public_url=https://a.example";
        let args =
            ["explain", "--provider", provider, "--secret", "whsec_b2xkb2xkb2xk", "--secret", secret, "--set", url];
        let output = oncebox(folder.path(), &[&args[..], &["--json", path]].concat(), 1);
        let found: Vec<Value> = output.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let words: Vec<&Value> = found.iter().map(|one| &one["verdict"]).collect();
        assert_eq!(words, ["accept", "error", "reject"], "{provider}: {}", output.stdout);
        assert_eq!((&found[2]["step"], &found[2]["reason"]), (&json!("signature"), &json!("mismatch")));
        assert!(found[2]["cause"].as_str().is_some_and(|cause| cause.contains("wrong secret")), "{}", found[2]);
        let text = oncebox(folder.path(), &[&args[..], &[path]].concat(), 1).stdout;
        assert!(text.contains("✓ line 1") && text.contains("✗ line 3"), "{text}");
    }
}

#[test]
fn a_configured_source_and_wrong_usage() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = "[[source]]\nname = \"pay\"\nprovider = \"stripe\"\nsecrets = [{ value = \"whsec_x\" }]\n";
    fs::write(folder.path().join("oncebox.toml"), config).expect("written");
    let signed = sender::stripe("whsec_x", AT, "evt_1", "invoice.paid", &json!({}));
    fs::write(folder.path().join("c.jsonl"), line(&signed, AT + 600)).expect("written");
    let text = oncebox(folder.path(), &["explain", "--source", "pay", "c.jsonl"], 1).stdout;
    assert!(text.contains("failed at window: too old") && text.contains("likely"), "{text}");
    let lines = |requests: &[String]| fs::write(folder.path().join("d.jsonl"), requests.join("\n")).expect("written");
    for (requests, status) in [(vec![line(&signed, AT)], 0), (vec![line(&signed, AT), line(&signed, AT + 600)], 1)] {
        lines(&requests);
        for style in [&["--json"][..], &[]] {
            oncebox(folder.path(), &[&["explain", "--source", "pay", "d.jsonl"], style].concat(), status);
        }
    }
    let refused = |args: &[&str], part: &str| {
        let stderr = oncebox(folder.path(), &[&["explain"], args].concat(), 2).stderr;
        assert!(stderr.contains(part), "{part:?} is not in:\n{stderr}");
    };
    refused(&["--source", "nobody", "c.jsonl"], "its sources are: pay");
    refused(&["--provider", "nobody", "c.jsonl"], "the providers are:");
    refused(&["--provider", "stripe", "c.jsonl"], "there is no secret; give it with --secret");
    refused(&["--provider", "stripe", "--secret", "", "c.jsonl"], "--secret");
    refused(&["c.jsonl"], "--source NAME for a source of the config, or --provider NAME and --secret SECRET");
    refused(&["--provider", "stripe", "--secret", "s", "none.jsonl"], "cannot read none.jsonl");
}
