//! A replay of many dead letters, killed midway and submitted again: each is replayed once.
//!
//! `ONCEBOX_TEST_DEAD_LETTERS` sets how many.

use std::thread;

use serde_json::json;
use testkit::http;
use testkit::{TestDatabase, contract};

use super::{ATTEMPTS, act, bury, get, states};
use crate::world::{PATIENCE, Setup, World, custom};

const LETTERS: usize = 3000;
/// Elements of one batch that makes them.
const BATCH: usize = 1000;

contract! {
    async fn a_bulk_replay_killed_midway_replays_each_once(db: TestDatabase) {
        let letters = std::env::var("ONCEBOX_TEST_DEAD_LETTERS").map_or(LETTERS, |n| n.parse().expect("a number"));
        let url = db.url().to_owned();
        // The first death is in the middle for certain, the second at whatever moment the signal finds.
        let armed = Setup::new(&url).env("ONCEBOX_FAULTS", "actions.slice=abort@3");
        let mut world = World { program: armed.serve(), db };
        store(&world, letters);
        bury(&world.db);
        let body = json!({"filter": {"source": "batch"}, "action_id": "bulk"});
        assert!(submit(&world.program.admin_url(), &body).is_err(), "no answer from the dead");
        world.program.wait_exit(PATIENCE);
        assert_eq!(acted(&world.db), 1000);
        run_and_fail(&world.db);

        world.program = Setup::new(&url).serve();
        let admin = world.program.admin_url();
        let answer = thread::scope(|scope| {
            let answer = scope.spawn(|| submit(&admin, &body));
            while acted(&world.db) <= 1000 && !answer.is_finished() {
                thread::yield_now();
            }
            world.program.kill9();
            answer.join().expect("it ends")
        });
        println!("{:?}: {} of {letters} replayed at the second kill, answered: {}", world.db.backend(), acted(&world.db), answer.is_ok());
        run_and_fail(&world.db);

        world.program = Setup::new(&url).serve();
        let count = i64::try_from(letters).expect("it fits");
        assert_eq!((act(&world, "replay", &body), act(&world, "replay", &body)), (count, count));
        run_and_fail(&world.db);
        // Three attempts before, one more after its replay: one that was left out has three, one replayed twice has five.
        let attempts = format!("select attempt, count(*) from {} group by attempt", world.db.table("deliveries"));
        assert_eq!(world.db.query(&attempts), [[(ATTEMPTS + 1).to_string(), letters.to_string()]]);
        assert_eq!(states(&world.db), [["dead".to_owned(), letters.to_string()]]);
        let log = get(&world, "actions");
        assert_eq!((log["items"].as_array().map(Vec::len), &log["items"][0]["acted"]), (Some(1), &json!(count)));
        assert_eq!(log["items"][0]["counted"], json!(count));
    }
}

/// Stores events, many to a request.
fn store(world: &World, count: usize) {
    for from in (0..count).step_by(BATCH) {
        let events: Vec<_> =
            (from..count.min(from + BATCH)).map(|n| json!({"id": format!("e{n}"), "type": "t"})).collect();
        let answer = world.post("batch", &custom(json!({"events": events}).to_string()));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

fn submit(admin: &str, body: &serde_json::Value) -> std::io::Result<http::Answer> {
    let headers = [("content-type", "application/json")];
    http::request(admin, "POST", "/api/v1/replay", &headers, body.to_string().as_bytes())
}

fn acted(db: &TestDatabase) -> i64 {
    let rows = db.query(&format!("select acted from {}", db.table("actions")));
    rows.first().map_or(0, |row| row[0].parse().expect("a count"))
}

/// What was replayed runs once more and dies again.
fn run_and_fail(db: &TestDatabase) {
    db.execute(&format!(
        "update {} set state = 'dead', attempt = attempt + 1 where state = 'ready'",
        db.table("deliveries")
    ));
}
