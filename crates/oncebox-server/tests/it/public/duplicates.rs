//! Copies of an event whose handling has gone any way it can go: 200 and the original's key, counted, nothing else changed.

use serde_json::{Value, json};
use testkit::http;
use testkit::{TestDatabase, contract};

use crate::handling::{delivery, start, wait_for_states};
use crate::world::{PATIENCE, World, custom, wait_until};

/// How often each original comes again.
const COPIES: i64 = 3;

/// One handler that others claim from, one that fails at once for good, one that applies only what is newer.
const HANDLERS: &str = "[[handler]]\nname = \"jobs\"\ntypes = [\"job\"]\npull = true\nlease = \"10m\"\n\n\
    [[handler]]\nname = \"broken\"\ntypes = [\"poison\"]\nsql = \"insert into effects (event_id) values (:event_id); \
    insert into picky values (:event_id)\"\nretry = { attempts = 1, base = \"20ms\", cap = \"20ms\" }\n\n\
    [[handler]]\nname = \"newest\"\ntypes = [\"version\"]\nsql = \"insert into effects (event_id) values (:event_id)\"\n\
    order = { key = \"/object\", version = \"/v\", rule = \"latest\" }\n";

contract! {
    async fn copies_of_an_event_that_is_claimed_or_done(db: TestDatabase) {
        let world = begin(db);
        let body = r#"{"id":"job","type":"job"}"#;
        let key = world.expect("custom", &custom(body), "accepted");
        let items = post(&world, "handlers/jobs/claim", &json!({"max": 1, "lease": "10m"}));
        let item = &items["items"][0];
        assert_eq!(item["key"], key.as_str(), "{items}");
        expect_only_counted(&world, body, &key, ("jobs", "job"), "claimed");
        let again = post(&world, "handlers/jobs/claim", &json!({"max": 10}));
        assert_eq!(again["items"], json!([]), "a copy is no second job");
        // Whoever had claimed it can still finish.
        let path = format!("deliveries/{}/finish", item["delivery"].as_str().expect("a delivery"));
        assert_eq!(post(&world, &path, &json!({"token": item["token"]}))["state"], "done");
        expect_only_counted(&world, body, &key, ("jobs", "job"), "done");
    }

    async fn copies_of_an_event_that_is_dead_or_discarded(db: TestDatabase) {
        let world = begin(db);
        let body = r#"{"id":"poison","type":"poison"}"#;
        let key = world.expect("custom", &custom(body), "accepted");
        wait_for_states(&world, "broken", &["dead"]);
        expect_only_counted(&world, body, &key, ("broken", "poison"), "dead");
        assert_eq!(post(&world, "discard", &json!({"filter": {"key": key}}))["count"], 1);
        expect_only_counted(&world, body, &key, ("broken", "poison"), "discarded");
        assert_eq!(world.db.count("effects"), 0, "it never succeeded");
    }

    async fn copies_of_an_event_that_was_superseded(db: TestDatabase) {
        let world = begin(db);
        world.expect("custom", &custom(r#"{"id":"new","type":"version","object":"o","v":2}"#), "accepted");
        wait_for_states(&world, "newest", &["done"]);
        let body = r#"{"id":"old","type":"version","object":"o","v":1}"#;
        let key = world.expect("custom", &custom(body), "accepted");
        wait_for_states(&world, "newest", &["done", "superseded"]);
        expect_only_counted(&world, body, &key, ("newest", "old"), "superseded");
        assert_eq!(world.db.query("select event_id from effects"), [["new"]]);
    }
}

fn begin(db: TestDatabase) -> World {
    db.execute("create table picky (id text check (id <> 'poison'))");
    start(db, HANDLERS)
}

/// Sends copies: each is a duplicate of the original, whose delivery stays as it is.
#[track_caller]
fn expect_only_counted(world: &World, body: &str, key: &str, (handler, id): (&str, &str), state: &str) {
    let before = delivery(world, handler, id);
    assert_eq!(before.0, state);
    let (arrivals, effects) = (world.arrivals(key), world.db.count("effects"));
    world.expect_nothing_stored(|| {
        for _ in 0..COPIES {
            assert_eq!(world.expect("custom", &custom(body), "duplicate"), key, "while it is {state}");
        }
    });
    wait_until("the copies are counted", PATIENCE, || world.arrivals(key) == arrivals + COPIES);
    assert_eq!(delivery(world, handler, id), before, "while it is {state}");
    assert_eq!(world.db.count("effects"), effects, "while it is {state}");
}

fn post(world: &World, path: &str, body: &Value) -> Value {
    let headers = [("content-type", "application/json")];
    let body = body.to_string();
    let answer = http::post(world.program.admin_addr(), &format!("/api/v1/{path}"), &headers, body.as_bytes());
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}
