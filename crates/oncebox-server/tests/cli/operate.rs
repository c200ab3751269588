//! `oncebox events`, `event` and `status`, with and without a running server.

use serde_json::json;

use crate::inbox::{Inbox, wait_for};
use crate::{oncebox, oncebox_json};

#[test]
fn filters() {
    let inbox = Inbox::dev();
    inbox.send(&["stripe", "--count", "3", "--type", "invoice.paid"]);
    inbox.send(&["stripe", "--id", "evt_refund", "--type", "charge.refunded"]);
    inbox.send(&["github"]);
    let check = |args: &[&str], expected: usize| {
        let page = inbox.ask_json(&[&["events"], args].concat());
        assert_eq!(page["items"].as_array().map(Vec::len), Some(expected), "{args:?}: {page}");
        page
    };
    check(&[], 5);
    check(&["--source", "stripe"], 4);
    check(&["--type", "invoice.*"], 3);
    check(&["--text", "refund"], 1);
    check(&["--state", "held"], 0);
    check(&["--since", "1h"], 5);
    check(&["--until", "1h"], 0);
    check(&["--since", "2020-01-01T00:00:00Z"], 5);
    let first = check(&["--limit", "2"], 2);
    let cursor = first["next_cursor"].as_str().expect("more");
    let rest = check(&["--cursor", cursor], 3);
    assert_eq!(rest["next_cursor"], json!(null));
    let text = inbox.ask(&["events"]).stdout;
    assert!(text.lines().next().is_some_and(|head| head.contains("event id")) && text.contains("evt_refund"), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours without a terminal: {text}");
}

#[test]
fn the_same_answers_without_a_server() {
    let mut inbox = Inbox::dev();
    let sent = inbox.send(&["stripe", "--copies", "5"]);
    let key = sent["keys"][0].as_str().expect("a key").to_owned();
    wait_for(|| {
        let event = inbox.ask_json(&["event", &key]);
        event["arrivals"] == 5 && event["deliveries"][0]["state"] == "done"
    });
    let asked = [vec!["events"], vec!["event", key.as_str()], vec!["status"]];
    let answers: Vec<_> = asked.iter().map(|args| inbox.ask_json(args)).collect();
    let beside = oncebox_json(inbox.folder(), &["events", "--database", "sqlite:oncebox.db", "--json"], 0);
    assert_eq!(beside, answers[0], "the database may be read beside a server");
    inbox.stop();
    for (args, expected) in asked.iter().zip(&answers) {
        let args = [args.as_slice(), &["--database", "sqlite:oncebox.db", "--json"]].concat();
        assert_eq!(oncebox_json(inbox.folder(), &args, 0), *expected, "{args:?}");
    }
    let raw = oncebox(inbox.folder(), &["event", &key, "--raw", "--database", "sqlite:oncebox.db"], 0).stdout;
    assert_eq!(Some(raw.as_str()), answers[1]["payload"]["body"].as_str());
}

#[test]
fn status_counts() {
    let inbox = Inbox::dev();
    inbox.send(&["stripe", "--copies", "4"]);
    wait_for(|| inbox.ask_json(&["status"])["duplicate_rate"] == 0.75);
    let text = inbox.ask(&["status"]).stdout;
    for part in ["duplicate rate", "75.0 %", "1 (+1 in the last day)", "from a running server", "stripe", "log"] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert!(!text.contains("UNSAFE"), "{text}");
}

#[test]
fn looking_creates_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |args: &[&str], status: i32, part: &str| {
        let stderr = oncebox(folder.path(), args, status).stderr;
        assert!(stderr.contains(part), "{part:?} is not in:\n{stderr}");
    };
    for command in [vec!["events"], vec!["status"], vec!["event", "stripe/evt_1"]] {
        refused(
            &[command.as_slice(), &["--database", "sqlite:no.db"]].concat(),
            1,
            "there is no database sqlite:no.db",
        );
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
    std::fs::write(folder.path().join("empty.db"), "").expect("written");
    refused(&["events", "--database", "sqlite:empty.db"], 1, "holds no inbox yet");
    let nobody = format!("http://127.0.0.1:{}", testkit::free_port());
    refused(&["events", "--admin-url", &nobody], 1, "nothing listens at");
    refused(&["events", "--admin-url", "nowhere"], 2, "--admin-url: write a URL");
    refused(&["events", "--config", "no.toml"], 2, "does not exist");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_certificate_cannot_be_trusted_is_not_silent() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = testkit::vendor::VendorServer::tls().await;
    let url = format!("https://{}", server.address());
    let stderr = oncebox(folder.path(), &["events", "--admin-url", &url], 1).stderr;
    assert!(stderr.contains("certificate cannot be trusted") && !stderr.contains("nothing listens"), "{stderr}");
}

#[test]
fn unknown_events_and_bad_questions() {
    let inbox = Inbox::dev();
    let url = inbox.admin_url();
    let refused = |args: &[&str], status: i32, part: &str| {
        let stderr = oncebox(inbox.folder(), &[args, &["--admin-url", &url]].concat(), status).stderr;
        assert!(stderr.contains(part), "{part:?} is not in:\n{stderr}");
    };
    refused(&["event", "stripe/evt_none"], 1, "there is no event stripe/evt_none");
    refused(&["event", "neither"], 2, "neither a key nor source/event_id");
    refused(&["events", "--cursor", "forged"], 2, "the cursor is not one of ours");
}

#[test]
fn postgres_is_looked_at_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = testkit::TestDatabase::fresh(testkit::Backend::Postgres);
    let url = database.url();
    let stderr = oncebox(folder.path(), &["events", "--database", url], 1).stderr;
    assert!(stderr.contains("holds no inbox yet"), "{stderr}");
    oncebox(folder.path(), &["migrate", "--database", url], 0);
    assert_eq!(oncebox(folder.path(), &["events", "--database", url], 0).stdout, "no events\n");
    // So that every second request of a connection is a duplicate, however few of them a busy machine gets through.
    let args = ["bench", "--database", url, "--seconds", "2", "--connections", "8", "--duplicates", "0.9", "--json"];
    let median = &oncebox_json(folder.path(), &args, 0)["median"];
    assert!(median["duplicate"].as_u64() > Some(0) && median["failed"] == 0, "{median}");
    assert_eq!(oncebox_json(folder.path(), &["status", "--database", url, "--json"], 0)["store"], "postgres");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let inbox = Inbox::dev();
    let script =
        format!("{} events --admin-url {} --json | true; exit ${{PIPESTATUS[0]}}", crate::BIN, inbox.admin_url());
    let output = testkit::program::run("/bin/bash", &["-c", &script], &[], inbox.folder());
    assert_eq!((output.status, output.stderr.as_str()), (Some(0), ""));
}
