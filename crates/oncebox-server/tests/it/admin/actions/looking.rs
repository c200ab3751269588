//! The lists, the numbers, the stream, and pausing.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::json;
use testkit::{TestDatabase, contract, http};

use super::{ATTEMPTS, act, bury, get, post};
use crate::world::{PATIENCE, World, custom, stripe, wait_until};

/// Makes the handler known, as a server with workers does at its start.
fn register(db: &TestDatabase) {
    db.execute(&format!(
        "insert into {} (handler, attempts, base_ms, cap_ms, lease_ms, on_dead) \
         values ('pull', 3, 1000, 1000, 60000, 'skip') on conflict (handler) do nothing",
        db.table("handlers")
    ));
}

/// Opens a stream of invoices.
fn follow(world: &World, header: &str) -> impl Iterator<Item = String> + use<> {
    let addr = world.program.admin_addr();
    let mut stream = TcpStream::connect(addr).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let request = format!("GET /api/v1/tail?type=invoice.* HTTP/1.1\r\nhost: {addr}\r\n{header}\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    BufReader::new(stream).lines().map_while(Result::ok)
}

contract! {
    async fn dead_letters_are_listed_in_pages(db: TestDatabase) {
        let world = World::start(db);
        for n in 0..5 {
            world.expect("stripe", &stripe(&format!("evt_{n}")), "accepted");
        }
        bury(&world.db);
        world.expect("custom", &custom(r#"{"id":"fresh","type":"t"}"#), "accepted");
        let first = get(&world, "dead-letters?limit=3");
        let cursor = first["next_cursor"].as_str().expect("more");
        let rest = get(&world, &format!("dead-letters?limit=3&cursor={cursor}"));
        let ids = |page: &serde_json::Value| {
            let items = page["items"].as_array().cloned().unwrap_or_default();
            items.iter().map(|item| item["event_id"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        let mut all = [ids(&first), ids(&rest)].concat();
        all.sort();
        assert_eq!((all.len(), rest["next_cursor"].clone()), (5, json!(null)));
        assert_eq!(all, ["evt_0", "evt_1", "evt_2", "evt_3", "evt_4"]);
        let one = &first["items"][0];
        assert_eq!((&one["state"], &one["attempt"], &one["last_error"]), (&json!("dead"), &json!(ATTEMPTS), &json!("it broke")));
        for (query, expected) in [
            ("state=ready", 1),
            ("source=stripe", 5),
            ("type=invoice.*", 5),
            ("handler=pull", 6),
            ("since=1h", 6),
            ("until=1h", 0),
        ] {
            assert_eq!(ids(&get(&world, &format!("deliveries?{query}"))).len(), expected, "{query}");
        }
        assert_eq!(get(&world, "outbox"), json!({"items": [], "next_cursor": null}));
    }

    async fn the_list_of_events_shows_what_gave_up(db: TestDatabase) {
        let world = World::start(db);
        world.expect("stripe", &stripe("evt_dead"), "accepted");
        bury(&world.db);
        world.expect("custom", &custom(r#"{"id":"fresh","type":"t"}"#), "accepted");
        let page = |path: &str| http::get(world.program.admin_addr(), path, &[]);
        let list = page("/events").text();
        assert_eq!(list.matches("dead letter</span>").count(), 1, "{list}");
        let row = list.split("<tr>").find(|row| row.contains("evt_dead")).expect("its row");
        assert!(row.contains("dead letter"), "{row}");
        let key = get(&world, "dead-letters")["items"][0]["key"].as_str().expect("a key").to_owned();
        assert!(page(&format!("/events/{key}")).text().contains(&format!("/act/replay?key={key}&#38;handler=pull")));
        // A search that cannot be understood says why, above the form as it was filled in.
        for (query, said) in [("since=soon", "soon"), ("source=nobody", "nobody")] {
            let answer = page(&format!("/events?{query}&type=invoice.*"));
            assert_eq!(answer.status, 400, "{query}");
            let text = answer.text();
            let alert = text.split("role=\"alert\">").nth(1).and_then(|rest| rest.split("</p>").next()).expect("a reason");
            assert!(alert.contains(said) && text.contains("value=\"invoice.*\""), "{query}: {text}");
        }
    }

    async fn the_numbers_count_first_tries(db: TestDatabase) {
        let world = World::start(db);
        register(&world.db);
        assert_eq!(get(&world, "stats")["first_try_error_rate"], json!(null));
        for n in 0..4 {
            world.expect("stripe", &stripe(&format!("evt_{n}")), "accepted");
        }
        let (deliveries, attempts) = (world.db.table("deliveries"), world.db.table("attempts"));
        let first = format!("(select delivery from {deliveries} order by delivery limit 1)");
        world.db.execute(&format!(
            "update {deliveries} set state = 'done', attempt = 1; \
             update {deliveries} set attempt = 2 where delivery = {first}; \
             insert into {attempts} (delivery, attempt, ended_at_ms, outcome, status, error) \
             select delivery, 1, 1763208000000, 'failed', 500, 'no' from {deliveries} where delivery = {first}"
        ));
        let stats = get(&world, "stats");
        assert_eq!(stats["first_try_error_rate"], json!(0.25), "{stats}");
        let health = &stats["handler_health"][0];
        assert_eq!((&health["handler"], &health["first_tries"], &health["first_tries_failed"]), (&json!("pull"), &json!(4), &json!(1)));
        assert_eq!(stats["ledger_rows"], json!(4));
        let failed = get(&world, "deliveries?limit=1000")["items"].as_array().cloned().unwrap_or_default();
        let attempts: Vec<_> = failed.iter().map(|one| get(&world, &format!("events/{}", one["key"].as_str().expect("a key")))["attempts"].clone()).collect();
        let told: Vec<_> = attempts.iter().filter(|one| **one != json!([])).collect();
        assert_eq!((told.len(), &told[0][0]["status"], &told[0][0]["error"]), (1, &json!(500), &json!("no")));
    }

    async fn a_handler_is_paused_and_resumed(db: TestDatabase) {
        let world = World::start(db);
        register(&world.db);
        for (verb, paused) in [("pause", true), ("pause", true), ("resume", false)] {
            assert_eq!(post(&world, &format!("handlers/pull/{verb}"), &json!({})).json()["paused"], paused);
            assert_eq!(get(&world, "stats")["handler_health"][0]["paused"], paused);
        }
        assert_eq!(post(&world, "handlers/none/pause", &json!({})).status, 404);
        assert_eq!(post(&world, "handlers/pull/pause", &json!({"who": "ann"})).status, 200);
        let bare = http::post(world.program.admin_addr(), "/api/v1/handlers/pull/resume", &[], b"");
        assert_eq!(bare.status, 200, "the body may be left out");
        let log = get(&world, "actions");
        let lines: Vec<_> = log["items"].as_array().expect("items").iter().map(|one| (one["kind"].clone(), one["who"].clone())).collect();
        assert_eq!(lines.len(), 5, "{log}");
        assert!(lines.contains(&(json!("pause"), json!("operator (no token) from 127.0.0.1 as \"ann\""))), "{log}");
        assert!(lines.contains(&(json!("resume"), json!("operator (no token) from 127.0.0.1"))), "{log}");
    }

    async fn tail_shows_what_arrives_and_ends_with_the_server(db: TestDatabase) {
        let mut world = World::start(db);
        world.expect("stripe", &stripe("before"), "accepted");
        let mut lines = follow(&world, "");
        assert!(lines.any(|line| line == "content-type: text/event-stream"));
        world.expect("custom", &custom(r#"{"id":"x","type":"other"}"#), "accepted");
        let keys = ["one", "two"].map(|id| world.expect("stripe", &stripe(id), "accepted"));
        for key in &keys {
            let data = lines.find_map(|line| line.strip_prefix("data: ").map(str::to_owned)).expect("an event");
            let event: serde_json::Value = serde_json::from_str(&data).expect("JSON");
            assert_eq!((event["key"].as_str(), &event["state"]), (Some(key.as_str()), &json!("accepted")));
        }
        let seen = follow(&world, &format!("last-event-id: {}\r\n", keys[0])).find_map(|line| line.strip_prefix("data: ").map(str::to_owned));
        assert!(seen.is_some_and(|seen| seen.contains(&keys[1])), "a lost stream goes on after what was seen");
        world.program.signal(libc::SIGTERM);
        assert!(world.program.wait_exit(PATIENCE).success());
        assert!(!lines.any(|line| line.starts_with("data: ")));
    }

    async fn an_action_is_seen_in_the_log_of_the_program(db: TestDatabase) {
        let world = World::start(db);
        world.expect("stripe", &stripe("a"), "accepted");
        bury(&world.db);
        act(&world, "discard", &json!({"filter": {"source": "stripe"}, "action_id": "d-7", "who": "ann"}));
        wait_until("it is logged", PATIENCE, || world.program.log().contains("d-7"));
        assert_eq!(get(&world, "actions/d-7")["who"], "operator (no token) from 127.0.0.1 as \"ann\"");
    }
}
