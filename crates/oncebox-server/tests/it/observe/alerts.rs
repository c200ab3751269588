//! Alerts without Grafana: told once, told when it is over, by one node, and never with a secret in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::postgres::Cluster;
use testkit::proxy::Proxy;
use testkit::receiver::{Receiver, Reply};
use testkit::{Backend, TestDatabase, contract, http, program};

use crate::world::{BIN, PATIENCE, Setup, World, custom, wait_until};

const CANARY: &str = "canary-alert-3Kd7";
const ALERT: &str = "[[alert]]\nname = \"ops\"\nurl = { env = \"ALERT_URL\" }\nevery = \"1s\"\n";

fn setup(db: &TestDatabase, receiver: &Receiver, more: &str) -> Setup {
    setup_at(db.url(), receiver, more)
}

fn setup_at(url: &str, receiver: &Receiver, more: &str) -> Setup {
    let mut setup = Setup::new(url).env("ALERT_URL", &format!("{}?token={CANARY}", receiver.url()));
    setup.rest.push_str(&format!("{ALERT}{more}\n"));
    setup
}

/// What was told, as condition and state.
fn told(receiver: &Receiver) -> Vec<(String, String)> {
    let word = |body: &Value, name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let read = |body: Value| (word(&body, "condition"), word(&body, "state"));
    receiver.calls().iter().map(|call| read(serde_json::from_slice(&call.body).expect("JSON"))).collect()
}

fn bury(db: &TestDatabase) {
    let deliveries = db.table("deliveries");
    db.execute(&format!("update {deliveries} set state = 'dead', finished_at_ms = 1763208000000, last_error = 'x'"));
}

fn discard(world: &World) {
    let headers = [("content-type", "application/json")];
    let body = json!({"filter": {"handler": "pull"}, "action_id": "away"}).to_string();
    let answer = http::post(world.program.admin_addr(), "/api/v1/discard", &headers, body.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[track_caller]
fn wait_told(receiver: &Receiver, expected: &[(&str, &str)]) {
    let expected: Vec<_> = expected.iter().map(|(what, state)| ((*what).to_owned(), (*state).to_owned())).collect();
    wait_until(&format!("{expected:?} is told"), PATIENCE, || told(receiver).len() >= expected.len());
    assert_eq!(told(receiver), expected);
}

contract! {
    async fn a_dead_letter_is_told_once_and_again_when_it_is_over(db: TestDatabase) {
        let receiver = Receiver::start();
        let mut world = World { program: setup(&db, &receiver, "on = [\"dead\"]").serve(), db };
        world.expect("custom", &custom(r#"{"id":"a"}"#), "accepted");
        bury(&world.db);
        wait_told(&receiver, &[("dead", "firing")]);
        let call = receiver.calls().remove(0);
        assert!(call.path.contains(CANARY), "it is told at its address");
        let body: Value = serde_json::from_slice(&call.body).expect("JSON");
        assert_eq!((&body["alert"], &body["value"], &body["limit"]), (&json!("ops"), &json!(1.0), &json!(1.0)));
        assert_eq!(body["text"], "1 dead (pull 1); `oncebox dead-letters` lists them");
        wait_until("it is written down", PATIENCE, || world.db.count(&world.db.table("alerts")) == 1);
        // Another process neither repeats it nor forgets to say that it is over.
        world.program.kill9();
        world.program.restart();
        std::thread::sleep(Duration::from_secs(3));
        discard(&world);
        wait_told(&receiver, &[("dead", "firing"), ("dead", "resolved")]);
        let shown = [world.program.log(), world.metrics(), call.text()].concat();
        assert!(!shown.contains(CANARY), "a secret shows");
    }

    async fn more_of_the_same_is_told_again(db: TestDatabase) {
        let receiver = Receiver::start();
        let world = World { program: setup(&db, &receiver, "on = [\"dead\", \"paused\"]").serve(), db };
        world.expect("custom", &custom(r#"{"id":"a"}"#), "accepted");
        bury(&world.db);
        wait_told(&receiver, &[("dead", "firing")]);
        world.expect("custom", &custom(r#"{"id":"b"}"#), "accepted");
        bury(&world.db);
        wait_told(&receiver, &[("dead", "firing"), ("dead", "firing")]);
        let second: Value = serde_json::from_slice(&receiver.calls()[1].body).expect("JSON");
        assert_eq!(second["value"], json!(2.0));
        world.db.execute(&format!("update {} set paused = 1", world.db.table("handlers")));
        wait_told(&receiver, &[("dead", "firing"), ("dead", "firing"), ("paused", "firing")]);
    }

    async fn a_notice_that_does_not_arrive_is_tried_until_it_does(db: TestDatabase) {
        let refused = Arc::new(AtomicUsize::new(0));
        let count = refused.clone();
        let receiver = Receiver::start_with(move |_| {
            Reply::Status(if count.fetch_add(1, Ordering::SeqCst) < 4 { 503 } else { 200 })
        });
        let world = World { program: setup(&db, &receiver, "on = [\"dead\"]").serve(), db };
        world.expect("custom", &custom(r#"{"id":"a"}"#), "accepted");
        bury(&world.db);
        wait_until("it is told", PATIENCE, || world.db.count(&world.db.table("alerts")) == 1);
        assert_eq!(refused.load(Ordering::SeqCst), 5, "four refusals and one that arrived");
        let untold = "the notice could not be sent; retrying: answered 503";
        wait_until("the log says so", PATIENCE, || world.program.log().contains(untold));
    }

    async fn a_burst_of_rejections_is_told_to_a_chat(db: TestDatabase) {
        let receiver = Receiver::start();
        let more = "kind = \"slack\"\non = [\"rejections\", \"duplicates\"]\nrejections = 5\nsample = 4\nwindow = \"1m\"";
        let world = World { program: setup(&db, &receiver, more).serve(), db };
        // What was counted before the first look is nobody's news.
        wait_until("it looked once", PATIENCE, || world.db.count(&world.db.table("node_counts")) == 1);
        let mut forged = custom(r#"{"id":"forged"}"#);
        forged.body = br#"{"id":"forger"}"#.to_vec();
        for _ in 0..5 {
            world.expect_401("custom", &forged);
        }
        let text = |body: &[u8]| serde_json::from_slice::<Value>(body).expect("JSON")["text"].to_string();
        wait_until("it is told", PATIENCE, || !receiver.calls().is_empty());
        let first = text(&receiver.calls()[0].body);
        assert!(first.contains("] rejections is firing: 5 requests could not be verified within 1m"), "{first}");
        assert!(first.contains("[oncebox ops on "), "{first}");
        for id in ["a", "a", "a", "b"] {
            world.post("custom", &custom(format!(r#"{{"id":"{id}"}}"#)));
        }
        wait_until("it is told", PATIENCE, || receiver.calls().len() >= 2);
        let second = text(&receiver.calls()[1].body);
        assert!(second.contains("duplicates is firing: 2 of 4 events within 1m had come before (50 %)"), "{second}");
    }

    async fn a_test_notice_is_sent_on_demand(db: TestDatabase) {
        let receiver = Receiver::start();
        let setup = setup(&db, &receiver, "");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("oncebox.toml"), setup.text()).expect("a config");
        let envs: Vec<(&str, &str)> = setup.envs.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let test = || program::run(BIN, &["alert", "test"], &envs, folder.path());
        let output = test();
        assert_eq!((output.status, output.stdout.trim()), (Some(0), "ops: sent"));
        assert_eq!(told(&receiver), [(String::new(), "test".to_owned())]);
        receiver.behave(|_| Reply::Status(404));
        let output = test();
        assert_eq!((output.status, output.stdout.trim()), (Some(1), "ops: not sent: answered 404 Not Found"));
    }
}

#[test]
fn a_database_that_is_away_is_told_all_the_same() {
    let receiver = Receiver::start();
    let db = TestDatabase::fresh(Backend::Postgres);
    let port = Cluster::shared().port();
    let proxy = Proxy::start(port);
    let more = "on = [\"unavailable\"]\nunavailable = 3\nwindow = \"5s\"\ndashboard = \"https://inbox.example.com\"";
    let world = World { program: setup_at(&proxy.through(db.url(), port), &receiver, more).serve(), db };
    wait_until("it looked once", PATIENCE, || world.db.count(&world.db.table("node_counts")) == 1);
    proxy.cut();
    for id in ["a", "b", "c"] {
        assert_eq!(world.post("custom", &custom(format!(r#"{{"id":"{id}"}}"#))).status, 503);
    }
    wait_told(&receiver, &[("unavailable", "firing")]);
    let body: Value = serde_json::from_slice(&receiver.calls()[0].body).expect("JSON");
    let text = body["text"].as_str().unwrap_or_default();
    assert!(text.starts_with("the database has not answered for ") && text.ends_with("were answered 503"), "{text}");
    assert_eq!((&body["value"], &body["link"]), (&json!(3.0), &json!("https://inbox.example.com/")));
    proxy.resume();
    // What one node told alone is known to all of them, so that it is told once that it is over.
    wait_told(&receiver, &[("unavailable", "firing"), ("unavailable", "resolved")]);
    wait_until("it is written down", PATIENCE, || world.db.count(&world.db.table("alerts")) == 0);
}

#[test]
fn one_node_tells_and_another_takes_over() {
    let receiver = Receiver::start();
    let db = TestDatabase::fresh(Backend::Postgres);
    let mut first = setup(&db, &receiver, "on = [\"dead\"]").serve();
    let second = setup(&db, &receiver, "on = [\"dead\"]").serve();
    let world = World { program: second, db };
    world.expect("custom", &custom(r#"{"id":"a"}"#), "accepted");
    bury(&world.db);
    wait_told(&receiver, &[("dead", "firing")]);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(told(&receiver).len(), 1, "both nodes told");
    first.kill9();
    discard(&world);
    wait_told(&receiver, &[("dead", "firing"), ("dead", "resolved")]);
}
