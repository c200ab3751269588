//! What operators see and do: the list, one message, dead letters, replay and discard, reload and stop.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::receiver::{Receiver, Reply};
use testkit::{Backend, TestDatabase, contract, http};

use super::{HASTY, destination, message, send_sql, setup, wait_for_messages, write};
use crate::handling::event;
use crate::world::{PATIENCE, World, wait_until};

fn get(world: &World, path: &str) -> Value {
    let answer = http::get(world.program.admin_addr(), &format!("/api/v1/{path}"), &[]);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

fn act(world: &World, kind: &str, filter: Value) -> Value {
    let body = json!({ "filter": filter }).to_string();
    let headers = [("content-type", "application/json")];
    let answer = http::post(world.program.admin_addr(), &format!("/api/v1/{kind}"), &headers, body.as_bytes());
    answer.json()
}

contract! {
    async fn a_call_carries_what_the_contract_says(db: TestDatabase) {
        let receiver = Receiver::start();
        let handler = format!("[[handler]]\nname = \"good\"\nsources = [\"custom\"]\nsql = \"\"\"{}\"\"\"\n", send_sql(&db, "notify"));
        let rest = "secret = { value = \"whsec_Y2FuYXJ5LWFwcC0xMjM0\" }\nheaders = { authorization = \"Bearer x\" }";
        let world = World { program: setup(&db, &format!("{handler}{}", destination(&receiver, rest))).serve(), db };
        let key = world.expect("custom", &event(1), "accepted");
        wait_until("it is sent", PATIENCE, || !receiver.calls().is_empty());
        wait_for_messages(&world.db, &["sent"]);
        let calls = receiver.calls();
        let (call, listed) = (&calls[0], get(&world, "outbox"));
        let line = &listed["items"][0];
        assert_eq!((calls.len(), call.text()), (1, String::from_utf8(event(1).body).expect("text")));
        assert_eq!(call.header("idempotency-key"), line["idempotency_key"].as_str());
        assert_eq!(call.header("webhook-id"), line["id"].as_str());
        assert_eq!(call.header("authorization"), Some("Bearer x"));
        assert_eq!((call.header("oncebox-attempt"), call.header("content-type")), (Some("1"), Some("application/json")));
        let time = call.header("webhook-timestamp").expect("a time");
        let signed = [line["id"].as_str().expect("an id").as_bytes(), b".", time.as_bytes(), b".", &call.body];
        let signature = testkit::sender::hmac_sha256(b"canary-app-1234", &signed);
        assert_eq!(call.header("webhook-signature"), Some(format!("v1,{}", data_encoding::BASE64.encode(&signature)).as_str()));
        assert_eq!((&line["state"], &line["key"], &line["handler"], &line["step"]), (&json!("sent"), &json!(key), &json!("good"), &json!("notify")));
        assert!(line["idempotency_key"].as_str().expect("a key").ends_with("/crm/notify"));
        let sent = "oncebox_outbox_attempts_total{destination=\"crm\",try=\"first\",outcome=\"sent\"} 1";
        wait_until("the attempt is counted", PATIENCE, || world.metrics().contains(sent));
    }

    async fn dead_messages_are_shown_replayed_and_discarded(db: TestDatabase) {
        let receiver = Receiver::start_with(|_| Reply::Status(400));
        let world = World { program: setup(&db, &destination(&receiver, HASTY)).serve(), db };
        ["a", "b"].iter().for_each(|key| write(&world.db, key, ""));
        wait_for_messages(&world.db, &["dead"]);
        let dead = get(&world, "dead-letters");
        assert_eq!(dead["items"].as_array().map(Vec::len), Some(2), "{dead}");
        assert_eq!((&dead["items"][0]["kind"], &dead["items"][0]["status"]), (&json!("message"), &json!(400)));
        assert_eq!(get(&world, "dead-letters?limit=1")["next_cursor"], dead["items"][0]["id"]);
        let id = dead["items"][0]["id"].as_str().expect("an id").to_owned();
        let one = get(&world, &format!("outbox/{id}"));
        assert_eq!((&one["attempts"][0]["outcome"], &one["method"]), (&json!("dead"), &json!("POST")), "{one}");
        let dead = "oncebox_outbox{destination=\"crm\",state=\"dead\"} 2";
        wait_until("the dead are counted", PATIENCE, || world.metrics().contains(dead));
        assert_eq!(act(&world, "discard", json!({ "message": id }))["count"], 1);
        assert_eq!(act(&world, "release", json!({ "destination": "crm" }))["status"], 400);
        assert_eq!(act(&world, "replay", json!({ "destination": "crm", "source": "custom" }))["status"], 400);
        receiver.behave(|_| Reply::Status(200));
        assert_eq!(act(&world, "replay", json!({ "destination": "crm" }))["count"], 1);
        wait_for_messages(&world.db, &["sent", "discarded"]);
        let calls = receiver.calls();
        let key = calls.last().and_then(|call| call.header("idempotency-key")).expect("a key").to_owned();
        assert_eq!(calls.iter().filter(|call| call.header("idempotency-key") == Some(&key)).count(), 2, "the same key");
        for path in ["outbox?state=odd", "outbox?cursor=x", "outbox/x"] {
            assert_eq!(http::get(world.program.admin_addr(), &format!("/api/v1/{path}"), &[]).status, 400, "{path}");
        }
        assert_eq!(http::get(world.program.admin_addr(), "/api/v1/outbox/019a8f3e-7c1d-7a33-8f0e-3b1f6f0c2d11", &[]).status, 404);
    }

    async fn a_destination_that_comes_by_reload_gets_what_waited(db: TestDatabase) {
        let receiver = Receiver::start();
        let without = setup(&db, "");
        let mut world = World { program: without.serve(), db };
        write(&world.db, "early", "");
        let listed = get(&world, "outbox?destination=crm");
        assert_eq!(listed["items"][0]["state"], "ready", "shown, and not dropped");
        let mut with = without.clone();
        with.rest.push_str(&destination(&receiver, HASTY));
        world.program.write_config(&with.text());
        world.program.signal(libc::SIGHUP);
        wait_for_messages(&world.db, &["sent"]);
        assert_eq!(receiver.calls().len(), 1);
    }

    async fn a_clean_stop_uses_no_attempt(db: TestDatabase) {
        let receiver = Receiver::start_with(|_| Reply::Hang);
        let setup = setup(&db, &destination(&receiver, "concurrency = 2\n").replace("\"10s\"", "\"30s\"")).server("grace = \"1s\"");
        let mut world = World { program: setup.serve(), db };
        (0..6).for_each(|n| write(&world.db, &format!("m{n}"), ""));
        wait_until("two calls hang", PATIENCE, || receiver.calls().len() == 2);
        world.program.signal(libc::SIGTERM);
        let status = world.program.wait_exit(Duration::from_secs(15));
        assert!(status.success(), "{status}");
        for n in 0..6 {
            assert_eq!(message(&world.db, &format!("m{n}"), "state, attempt"), ["ready", "0"]);
        }
    }

    async fn order_holds_within_a_key(db: TestDatabase) {
        let receiver = Receiver::start_with(|call| match (call.text().as_str(), call.header("oncebox-attempt")) {
            ("\"m0\"", Some("1" | "2")) => Reply::Status(500),
            _ => Reply::Status(200),
        });
        let world = World { program: setup(&db, &destination(&receiver, &format!("order = \"key\"\n{HASTY}"))).serve(), db };
        for n in 0..5 {
            world.db.execute(&match world.db.backend() {
                Backend::Sqlite => format!("insert into oncebox_send (destination, body, order_key) values ('crm', '\"m{n}\"', 'one')"),
                Backend::Postgres => format!("select oncebox.send('crm', '\"m{n}\"'::text, order_key => 'one')"),
            });
        }
        wait_for_messages(&world.db, &["sent"]);
        let bodies: Vec<String> = receiver.calls().iter().map(|call| call.text()).collect();
        assert_eq!(bodies, ["\"m0\"", "\"m0\"", "\"m0\"", "\"m1\"", "\"m2\"", "\"m3\"", "\"m4\""]);
    }
}
