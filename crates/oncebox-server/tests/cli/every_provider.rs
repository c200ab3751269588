//! `oncebox dev` and `oncebox send` for every provider of the catalogue, on both databases: copies are told apart from
//! events, and what is tampered with or too old leaves no trace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use testkit::TestDatabase;

use crate::inbox::Inbox;
use crate::oncebox_json;

/// Senders whose notices only say that something changed: each arrival is an event.
const EVERY_ARRIVAL_COUNTS: [&str; 3] = ["airtable", "dropbox", "plaid"];

/// Senders that prove themselves and not the bytes of the body: a changed byte may be stored, never lost.
const BODY_OPEN: [&str; 19] = [
    "auth0-logs",
    "azure-devops",
    "azure-event-grid",
    "basic-auth",
    "chargebee",
    "cloudevents-webhook",
    "datadog",
    "dropbox-sign",
    "figma",
    "gitlab-token",
    "google-pubsub",
    "mailchimp",
    "mailgun",
    "microsoft-graph",
    "monday",
    "okta",
    "postmark",
    "static-token",
    "telegram",
];

/// Senders that sign a time, with an age that is past the window of each.
const TIMED: [(&str, &[&str]); 5] = [
    (
        "10m",
        &[
            "bigcommerce",
            "calendly",
            "clerk",
            "contentful",
            "discord-interactions",
            "gitlab",
            "google-pubsub",
            "hubspot-v3",
            "linear",
            "liveblocks",
            "mailgun",
            "messagebird",
            "monday",
            "mux",
            "openai",
            "paddle",
            "persona",
            "plaid",
            "polar",
            "qstash",
            "recurly",
            "resend",
            "revolut",
            "sanity",
            "sendgrid",
            "slack",
            "standard-webhooks",
            "stripe",
            "svix",
            "telnyx",
            "workos",
            "zendesk",
            "zoom",
        ],
    ),
    ("11m", &["box", "twitch-eventsub"]),
    ("31m", &["elevenlabs"]),
    ("61m", &["aws-sns"]),
    ("121m", &["cloudinary"]),
];

testkit::contract! {
    async fn copies_are_one_event_and_bad_ones_leave_no_trace(db: TestDatabase) {
        let inbox = Inbox::dev_on(Some(db.url()));
        let mut failures = Vec::new();
        for slug in slugs(inbox.folder()) {
            failures.extend(check(&inbox, &db, &slug).err());
        }
        assert!(failures.is_empty(), "{} disagree:\n{}", failures.len(), failures.join("\n"));
    }
}

#[test]
fn the_list_explains_its_letters_and_speaks_as_the_pages_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let list = crate::oncebox(folder.path(), &["providers"], 0).stdout;
    assert!(list.contains("sure: authentication / id / retries; S the vendor's source, D its documentation"), "{list}");
    let row = |name: &str| list.lines().find(|line| line.trim_start().starts_with(name)).expect("a row").to_owned();
    assert!(row("github ").contains("does not") && !row("github ").contains(" 0s"), "{}", row("github "));
    assert!(crate::oncebox(folder.path(), &["providers", "github"], 0).stdout.contains("does not"));
}

#[test]
fn the_tables_name_providers() {
    let folder = tempfile::tempdir().expect("a folder");
    let slugs: BTreeSet<String> = slugs(folder.path()).into_iter().collect();
    let timed = TIMED.iter().flat_map(|(_, slugs)| slugs.iter());
    let named = EVERY_ARRIVAL_COUNTS.iter().chain(&BODY_OPEN).chain(timed);
    let unknown: Vec<_> = named.filter(|slug| !slugs.contains(**slug)).collect();
    assert!(unknown.is_empty() && slugs.len() == 100, "{unknown:?} of {}", slugs.len());
}

/// Everything that `oncebox providers` lists but `custom`, which describes nobody.
fn slugs(folder: &Path) -> Vec<String> {
    let listed = oncebox_json(folder, &["providers", "--json"], 0);
    let names = listed["items"].as_array().expect("a list").iter().map(|item| item["name"].as_str().expect("a name"));
    names.filter(|name| *name != "custom").map(str::to_owned).collect()
}

fn check(inbox: &Inbox, db: &TestDatabase, slug: &str) -> Result<(), String> {
    let expected = if EVERY_ARRIVAL_COUNTS.contains(&slug) { [3, 0, 0, 0, 0, 0] } else { [1, 2, 0, 0, 0, 0] };
    let sent = inbox.send(&[slug, "--copies", "3"]);
    expect(slug, "three copies", &sent, expected)?;
    let before = rows(db);
    let tampered = inbox.send(&[slug, "--tamper"]);
    if BODY_OPEN.contains(&slug) {
        if tampered["failed"] != 0 {
            return Err(format!("{slug} tampered: {tampered}"));
        }
    } else {
        expect(slug, "tampered", &tampered, [0, 0, 0, 0, 1, 0])?;
        same(slug, "tampered", &before, &rows(db))?;
    }
    let before = rows(db);
    let age = TIMED.iter().find(|(_, slugs)| slugs.contains(&slug)).map(|(age, _)| *age);
    let aged = inbox.send(&[slug, "--age", age.unwrap_or("10m")]);
    if age.is_some() {
        expect(slug, "too old", &aged, [0, 0, 0, 0, 1, 0])?;
        return same(slug, "too old", &before, &rows(db));
    }
    expect(slug, "old, and nobody signs a time", &aged, [1, 0, 0, 0, 0, 0])
}

fn expect(slug: &str, what: &str, sent: &Value, expected: [u64; 6]) -> Result<(), String> {
    let words = ["accepted", "duplicate", "conflict", "held", "rejected", "failed"];
    let counts = words.map(|word| sent[word].as_u64().expect(word));
    if counts == expected { Ok(()) } else { Err(format!("{slug} {what}: {counts:?}, not {expected:?}: {sent}")) }
}

fn same(slug: &str, what: &str, before: &BTreeMap<String, i64>, after: &BTreeMap<String, i64>) -> Result<(), String> {
    if before == after { Ok(()) } else { Err(format!("{slug} {what}: {before:?} became {after:?}")) }
}

/// Rows of the tables that taking in writes; what handlers do with earlier events goes on meanwhile.
fn rows(db: &TestDatabase) -> BTreeMap<String, i64> {
    let mut counts = db.row_counts();
    counts.retain(|table, _| ["deliveries", "events", "ledger", "payloads"].contains(&table.as_str()));
    assert_eq!(counts.len(), 4, "{counts:?}");
    counts
}
