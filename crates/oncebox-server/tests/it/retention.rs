//! Retention in the real program: kills while it runs, a wall clock that jumps under it, and what people see of it.

mod clock;

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::http;
use testkit::{TestDatabase, contract};

use crate::chance::{Random, number};
use crate::handling::{LEDGER, effects, event, wait_for_states};
use crate::world::{PATIENCE, Setup, World, custom, wait_until};

/// Windows so short that everything is over within a test.
const SHORT: &str = "[retention]\nledger = \"2s\"\npayload = \"1s\"\nevery = \"1s\"\nforce = true\n\n";
const CYCLES: usize = 8;

fn start(db: TestDatabase, retention: &str, wishes: impl FnOnce(Setup) -> Setup) -> World {
    db.execute("create table effects (event_id text, event_key text, attempt integer)");
    World::start_with(db, |mut setup| {
        let rest = setup.rest.replace("[[handler]]\nname = \"pull\"\npull = true\n", LEDGER);
        setup.rest = format!("{retention}{rest}");
        wishes(setup)
    })
}

fn ask(world: &World, path: &str) -> Value {
    http::get(world.program.admin_addr(), path, &[]).json()
}

fn act(world: &World, path: &str, body: &Value) -> (u16, Value) {
    let headers = [("content-type", "application/json")];
    let answer = http::request(world.program.admin_addr(), "POST", path, &headers, body.to_string().as_bytes());
    let answer = answer.expect("an answer");
    (answer.status, answer.json())
}

/// Nothing is half there.
fn check(db: &TestDatabase) {
    let table = |name: &str| db.table(name);
    for (what, of, missing) in [
        ("event without identity", "events", "ledger"),
        ("identity without event", "ledger", "events"),
        ("payload without event", "payloads", "events"),
        ("delivery without event", "deliveries", "events"),
        ("arrivals without event", "arrivals", "events"),
    ] {
        let (of, missing) = (table(of), table(missing));
        let sql =
            format!("select count(*) from {of} a where not exists (select 1 from {missing} b where b.key = a.key)");
        assert_eq!(db.query(&sql), [["0"]], "{what}");
    }
    let sql = format!(
        "select count(*) from {} d where d.state in ('ready', 'claimed', 'dead', 'held') \
         and not exists (select 1 from {} p where p.key = d.key)",
        table("deliveries"),
        table("payloads")
    );
    assert_eq!(db.query(&sql), [["0"]], "needed without payload");
}

contract! {
    async fn killed_again_and_again_while_it_runs(db: TestDatabase) {
        let mut random = Random::seeded();
        let mut world = start(db, SHORT, |setup| setup);
        let cycles = number("ONCEBOX_TEST_KILLS").unwrap_or(CYCLES);
        let mut sent = 0;
        for _ in 0..cycles {
            for _ in 0..40 {
                world.expect("custom", &event(sent), "accepted");
                sent += 1;
            }
            thread::sleep(Duration::from_millis(200 + random.below(2500)));
            world.program.kill9();
            check(&world.db);
            world.program.restart();
        }
        wait_for_states(&world, "ledger", &["done"]);
        wait_until("everything is over", PATIENCE, || world.db.count(&world.db.table("ledger")) == 0);
        check(&world.db);
        let sent = i64::try_from(sent).expect("a count");
        println!("killed {cycles} times during retention, {sent} events, effects {:?}", effects(&world));
        assert_eq!(effects(&world), (sent, sent));
        for table in ["events", "payloads", "deliveries", "ledger", "attempts"] {
            assert_eq!(world.db.count(&world.db.table(table)), 0, "{table}");
        }
    }

    async fn what_people_see_of_it(db: TestDatabase) {
        let world = start(db, "[retention]\nledger = \"1h\"\npayload = \"1s\"\nevery = \"1h\"\nforce = true\n\n", |setup| setup);
        let key = world.expect("custom", &event(1), "accepted");
        wait_for_states(&world, "ledger", &["done"]);
        wait_until("the payload is a second old and removed", PATIENCE, || {
            let (status, run) = act(&world, "/api/v1/retention/run", &json!({}));
            assert_eq!(status, 200, "{run}");
            run["removed"]["payloads"] == 1
        });
        assert_eq!(world.expect("custom", &event(1), "duplicate"), key);
        let log = ask(&world, "/api/v1/actions?limit=1");
        assert_eq!((&log["items"][0]["kind"], &log["items"][0]["finished_at"].is_string()), (&json!("retention"), &true), "{log}");
        let detail = ask(&world, &format!("/api/v1/events/{key}"));
        assert_eq!((&detail["payload"], &detail["deliveries"][0]["state"]), (&Value::Null, &json!("done")));
        assert!(detail["payload_kept_until"].is_string(), "{detail}");
        let (status, refused) = act(&world, "/api/v1/replay", &json!({"filter": {"key": key}}));
        assert_eq!(status, 409, "{refused}");
        let shown = ask(&world, "/api/v1/retention");
        assert_eq!(shown["schedule"], "every 1h");
        assert_eq!(shown["windows"][0], json!({"source": null, "ledger": "1h", "payload": "1s"}));
        assert_eq!((&shown["runs"][0]["removed"]["payloads"], &shown["stopped_because"]), (&json!(1), &Value::Null));
        assert!(world.metrics().lines().any(|line| line == r#"oncebox_purged_total{table="payloads"} 1"#));
        assert_eq!(act(&world, "/api/v1/retention/confirm", &json!({})).1, json!({"confirmed": false}));
    }

    async fn an_event_older_than_the_memory_is_held(db: TestDatabase) {
        let world = start(db, "", |mut setup| {
            setup.rest = setup.rest.replace("name = \"custom\"\n", "name = \"custom\"\ntime = \"json:/created\"\n");
            setup
        });
        let at = |age: i64| custom(format!(r#"{{"id":"evt_{age}","type":"load","created":{}}}"#, crate::world::now() - age));
        world.expect("custom", &at(29 * 86_400), "accepted");
        let old = at(31 * 86_400);
        let key = world.expect("custom", &old, "held");
        assert_eq!(world.event(&key).reason, "stale");
        assert_eq!(world.expect("custom", &old, "duplicate"), key);
    }
}
