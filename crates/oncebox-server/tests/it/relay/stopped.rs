//! Messages that do not go out say why: their destination is not configured, or nobody answers there. What nobody will
//! ever send can be discarded, and a filter that names nobody is refused.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::receiver::{Receiver, Reply};
use testkit::{TestDatabase, contract, http, program};

use super::{HASTY, destination, send_sql, setup, wait_for_messages, write};
use crate::handling::event;
use crate::world::{BIN, PATIENCE, World, wait_until};

fn get(world: &World, path: &str) -> Value {
    let answer = http::get(world.program.admin_addr(), &format!("/api/v1/{path}"), &[]);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

/// Runs a command beside the server and gives what it said.
fn command(world: &World, args: &[&str], status: i32) -> String {
    let config = world.program.config_path();
    let args = [args, &["--config", config.to_str().expect("a path")]].concat();
    let output = program::run(BIN, &args, &[], world.program.dir());
    let said = output.stdout + &output.stderr;
    assert_eq!(output.status, Some(status), "{args:?}: {said}");
    said
}

contract! {
    async fn what_nobody_will_send_is_shown_and_discarded(db: TestDatabase) {
        let receiver = Receiver::start();
        let with = setup(&db, &destination(&receiver, HASTY).replace("\"crm\"", "\"other\""));
        drop(with.serve());
        ["a", "b", "c"].iter().for_each(|key| write(&db, key, ""));
        let world = World { program: with.serve(), db };
        let warning = "3 messages wait for a destination that is not configured: add it, or discard them";
        wait_until("a warning", PATIENCE, || world.program.log().contains(warning));
        let reason = "destination \"crm\" is not configured: add it, or discard the message";
        let listed = get(&world, "outbox?destination=crm");
        let id = listed["items"][0]["id"].as_str().expect("an id").to_owned();
        assert_eq!(listed["items"][0]["waits_because"], reason);
        assert_eq!(get(&world, "stats")["destinations"], json!([{ "destination": "crm", "configured": false, "spared_until": null }]));
        assert!(command(&world, &["outbox", &id], 0).contains(reason));
        assert!(command(&world, &["status"], 0).contains("destination crm is not configured, and messages wait for it"));
        // Only a discard takes what waits.
        assert!(command(&world, &["replay", "--destination", "crm", "--yes"], 0).contains("nothing to replay"));
        assert!(command(&world, &["discard", "--message", &id, "--yes"], 0).contains("1 message discarded"));
        assert!(command(&world, &["discard", "--destination", "crm", "--yes"], 0).contains("2 messages discarded"));
        wait_for_messages(&world.db, &["discarded"]);
        assert_eq!(world.program.log().matches("is not configured: add it").count(), 1, "once");
    }

    async fn what_waits_for_its_turn_is_not_discarded(db: TestDatabase) {
        let receiver = Receiver::start_with(|_| Reply::With(503, "retry-after", "3600".to_owned()));
        let world = World { program: setup(&db, &destination(&receiver, "")).serve(), db };
        write(&world.db, "a", "");
        wait_until("it was tried", PATIENCE, || get(&world, "outbox")["items"][0]["status"] == 503);
        assert!(command(&world, &["discard", "--destination", "crm", "--yes"], 0).contains("nothing to discard"));
        assert_eq!(get(&world, "outbox")["items"][0]["waits_because"], Value::Null);
    }

    async fn a_filter_that_names_nobody_is_refused(db: TestDatabase) {
        let receiver = Receiver::start();
        let world = World { program: setup(&db, &destination(&receiver, HASTY)).serve(), db };
        let unknown = "019a8f3e-7c1d-7a33-8f0e-3b1f6f0c2d11";
        for verb in ["replay", "discard"] {
            let said = command(&world, &[verb, "--destination", "nosuch", "--yes"], 2);
            assert!(said.contains("there is no destination `nosuch`; there are: crm"), "{said}");
            let said = command(&world, &[verb, "--message", unknown, "--yes"], 1);
            assert!(said.contains(&format!("there is no message {unknown}")), "{said}");
            command(&world, &[verb, "--message", "odd", "--yes"], 2);
        }
        command(&world, &["outbox", "--destination", "nosuch"], 2);
        command(&world, &["outbox", "--event", "custom/nosuch"], 1);
        assert!(command(&world, &["replay", "--destination", "crm", "--yes"], 0).contains("nothing to replay"));
        for (filter, status) in [(json!({ "destination": "nosuch" }), 400), (json!({ "message": unknown }), 404)] {
            let body = json!({ "filter": filter }).to_string();
            let headers = [("content-type", "application/json")];
            let answer = http::post(world.program.admin_addr(), "/api/v1/discard", &headers, body.as_bytes());
            assert_eq!(answer.status, status, "{filter}: {}", answer.text());
        }
    }

    async fn a_spared_destination_is_seen(db: TestDatabase) {
        let receiver = Receiver::start_with(|_| Reply::Reset);
        let rest = "concurrency = 32\nretry = { attempts = 100, base = \"50ms\", cap = \"100ms\" }";
        let world = World { program: setup(&db, &destination(&receiver, rest)).serve(), db };
        assert!(world.metrics().contains("oncebox_destination_spared{destination=\"crm\"} 0"));
        (0..40).for_each(|n| write(&world.db, &format!("m{n}"), ""));
        wait_until("it is spared", PATIENCE, || get(&world, "stats")["destinations"][0]["spared_until"].is_string());
        assert!(world.metrics().contains("oncebox_destination_spared{destination=\"crm\"} 1"));
        assert!(command(&world, &["status"], 0).contains("destination crm is out of reach: spared until"));
        wait_until("a message says so", PATIENCE, || {
            let why = get(&world, "outbox?state=ready&limit=1")["items"][0]["waits_because"].to_string();
            why.contains("destination \\\"crm\\\" is out of reach: spared until")
        });
        receiver.behave(|_| Reply::Status(200));
        wait_for_messages(&world.db, &["sent"]);
        wait_until("it is spared no more", PATIENCE, || get(&world, "stats")["destinations"] == json!([]));
        assert!(world.metrics().contains("oncebox_destination_spared{destination=\"crm\"} 0"));
    }

    async fn an_event_and_its_messages_name_each_other(db: TestDatabase) {
        let receiver = Receiver::start_with(|call| match call.header("oncebox-attempt") {
            Some("1") => Reply::Status(500),
            _ => Reply::Status(200),
        });
        let handler = format!("[[handler]]\nname = \"good\"\nsources = [\"custom\"]\nsql = \"\"\"{}\"\"\"\n", send_sql(&db, "notify"));
        let setup = setup(&db, &format!("{handler}{}", destination(&receiver, HASTY)));
        let world = World { program: setup.env("ONCEBOX_LOG", "info").serve(), db };
        let key = world.expect("custom", &event(1), "accepted");
        write(&world.db, "stray", "");
        wait_until("both are sent", Duration::from_secs(20), || get(&world, "outbox?state=sent")["items"].as_array().map(Vec::len) == Some(2));
        let detail = get(&world, &format!("events/{key}"));
        let (event_id, messages) = (detail["event_id"].as_str().expect("an id"), &detail["messages"]);
        assert_eq!((messages.as_array().map(Vec::len), &messages[0]["key"]), (Some(1), &json!(key)), "{detail}");
        let id = messages[0]["id"].as_str().expect("an id");
        assert!(command(&world, &["event", &key], 0).contains(id));
        for name in [key.clone(), format!("custom/{event_id}")] {
            let said = command(&world, &["outbox", "--event", &name], 0);
            assert!(said.contains(id) && !said.contains("crm/stray"), "{said}");
            let listed = get(&world, &format!("outbox?key={}", name.replace('/', "%2F")));
            assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
        }
        let log = world.program.log();
        for said in ["\"not sent: answered 500", "\"sent\""] {
            let lines: Vec<&str> = log.lines().filter(|line| line.contains(said) && line.contains(id)).collect();
            assert_eq!(lines.len(), 1, "{said}: {log}");
            for field in ["\"source\":\"custom\"".to_owned(), format!("\"event_id\":\"{event_id}\""), format!("\"key\":\"{key}\"")] {
                assert!(lines[0].contains(&field), "{field}: {}", lines[0]);
            }
        }
    }
}
