//! `oncebox send`: what is sent is accepted once, and what is bad is not stored.

use serde_json::{Value, json};

use crate::inbox::{Inbox, wait_for};
use crate::{oncebox, oncebox_json};

fn counts(sent: &Value) -> [u64; 6] {
    ["accepted", "duplicate", "conflict", "held", "rejected", "failed"].map(|word| sent[word].as_u64().expect(word))
}

#[test]
fn fifty_copies_are_one_event() {
    let inbox = Inbox::dev();
    let sent = inbox.send(&["stripe", "--copies", "50", "--concurrency", "50"]);
    assert_eq!(counts(&sent), [1, 49, 0, 0, 0, 0], "{sent}");
    let key = sent["keys"][0].as_str().expect("a key");
    assert_eq!(sent["keys"].as_array().map(Vec::len), Some(1));
    wait_for(|| inbox.ask_json(&["event", key])["arrivals"] == 50);
    let text = inbox.ask(&["event", key]).stdout;
    assert!(text.contains("source + id; 50 arrivals, 49 of them duplicates"), "{text}");
    assert_eq!(text.matches("Payload").count(), 1);
    assert_eq!(inbox.ask_json(&["events"])["items"].as_array().map(Vec::len), Some(1));
}

#[test]
fn people_get_a_table_and_the_next_command() {
    let inbox = Inbox::dev();
    let url = inbox.url();
    let text = oncebox(inbox.folder(), &["send", "stripe", "--copies", "3", "--to", &url], 0).stdout;
    for part in ["3 requests to", "accepted   1", "duplicate  2", "failed     0", "oncebox event "] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    let next = text.lines().find_map(|line| line.split_once("see it with: oncebox ")).expect("a command").1;
    assert!(next.ends_with(" --database sqlite:oncebox.db"), "{next}");
    let shown = oncebox(inbox.folder(), &next.split(' ').collect::<Vec<_>>(), 0).stdout;
    assert!(shown.contains("Payload") && shown.contains("invoice.paid"), "{shown}");
}

#[test]
fn a_secret_of_another_folder_is_named_by_its_file() {
    let (inbox, other) = (Inbox::dev(), Inbox::dev());
    let stderr = oncebox(other.folder(), &["send", "stripe", "--to", &inbox.url()], 1).stderr;
    assert!(
        stderr.contains("the development secret for stripe in ") && stderr.contains("is it the secret"),
        "{stderr}"
    );
}

#[test]
fn bad_ones_are_rejected_and_nothing_is_stored() {
    let inbox = Inbox::dev();
    for args in [["stripe", "--tamper", "--count", "3"], ["stripe", "--age", "10m", "--count=3"]] {
        assert_eq!(counts(&inbox.send(&args)), [0, 0, 0, 0, 3, 0], "{args:?}");
    }
    let url = inbox.url();
    let output = oncebox(inbox.folder(), &["send", "stripe", "--secret", "whsec_wrong", "--to", &url, "--json"], 1);
    let sent: Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert!(output.stderr.contains("signed with the secret from --secret"), "{output:?}");
    assert!(!output.stderr.contains("whsec_wrong"), "{output:?}");
    assert_eq!((counts(&sent), &sent["keys"]), ([0, 0, 0, 0, 1, 0], &json!([])));
    assert!(sent["first_refusal"].as_str().is_some_and(|line| line.starts_with("401")), "{sent}");
    assert_eq!(inbox.ask_json(&["events"])["items"], json!([]));
    assert_eq!(inbox.ask_json(&["status"])["ledger_rows"], 0);
}

#[test]
fn ids_and_types_are_as_told() {
    let inbox = Inbox::dev();
    inbox.send(&["stripe", "--id", "evt_mine", "--type", "charge.refunded"]);
    assert_eq!(counts(&inbox.send(&["stripe", "--id", "evt_mine"]))[2], 1, "another body under a known id");
    let event = inbox.ask_json(&["event", "stripe/evt_mine"]);
    assert_eq!((&event["type"], &event["state"]), (&json!("charge.refunded"), &json!("accepted")));
    let namesakes = event["namesakes"].as_array().expect("other events are listed");
    assert_eq!(namesakes.iter().map(|other| &other["state"]).collect::<Vec<_>>(), [&json!("conflict")]);
    let text = inbox.ask(&["event", "stripe/evt_mine"]).stdout;
    assert!(text.contains("Other events with this id"), "{text}");
}

#[test]
fn an_age_that_nobody_signs_is_pointed_out() {
    let inbox = Inbox::dev();
    let url = inbox.url();
    for (provider, expected) in [("github", true), ("shopify", true), ("twilio", true), ("slack", false)] {
        let stderr = oncebox(inbox.folder(), &["send", provider, "--age", "10m", "--to", &url], 0).stderr;
        assert_eq!(stderr.contains("signs no time, so --age changes nothing"), expected, "{provider}: {stderr}");
    }
    for (age, expected) in [("1m", true), ("10m", false)] {
        let stderr = oncebox(inbox.folder(), &["send", "stripe", "--age", age, "--to", &url], 0).stderr;
        assert_eq!(stderr.contains("stripe is believed for longer than that"), expected, "{age}: {stderr}");
    }
}

#[test]
fn tampering_that_nobody_can_notice_is_pointed_out() {
    let inbox = Inbox::dev();
    let url = inbox.url();
    for (provider, expected) in [("static-token", true), ("gitlab-token", true), ("stripe", false), ("github", false)] {
        let output = oncebox(inbox.folder(), &["send", provider, "--tamper", "--to", &url, "--json"], 0);
        assert_eq!(output.stderr.contains("does not cover the body"), expected, "{provider}: {output:?}");
        let sent: Value = serde_json::from_str(&output.stdout).expect("JSON");
        assert_eq!(counts(&sent)[4] == 0, expected, "{provider}: {sent}");
    }
}

#[test]
fn refusals() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |args: &[&str], status: i32, part: &str| {
        let stderr = oncebox(folder.path(), &[&["send"], args].concat(), status).stderr;
        assert!(stderr.contains(part), "{part:?} is not in:\n{stderr}");
    };
    refused(&["stripes"], 2, "the providers are: ably, ");
    refused(&["stripe"], 2, "run `oncebox dev` first");
    refused(&["custom"], 2, "describe it with --set and give --secret");
    refused(&["stripe", "--secret", "s", "--id", "a", "--count", "2"], 2, "--id names one event");
    refused(&["stripe", "--secret", "s", "--to", "nowhere"], 2, "write a URL");
    let port = testkit::free_port();
    let nobody = format!("http://127.0.0.1:{port}");
    refused(&["stripe", "--secret", "s", "--to", &nobody], 1, "is `oncebox dev` running?");
    let inbox = Inbox::dev();
    let missing = format!("{}/in/nobody", inbox.url());
    let sent = oncebox_json(inbox.folder(), &["send", "stripe", "--to", &missing, "--json"], 1);
    assert_eq!(counts(&sent), [0, 0, 0, 0, 0, 1], "{sent}");
}
