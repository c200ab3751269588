//! The program's own wall clock moved a day forward and back, by a library loaded before the system's: nothing is deleted
//! early, and nothing at all until a person confirms.

use std::thread;
use std::time::Duration;

use serde_json::json;
use testkit::preload::WallClock;
use testkit::{TestDatabase, contract};

use super::{act, ask, start};
use crate::handling::{event, wait_for_states};
use crate::world::{PATIENCE, World, wait_until};

fn stopped(world: &World) -> Option<String> {
    ask(world, "/api/v1/retention")["stopped_because"].as_str().map(str::to_owned)
}

contract! {
    async fn a_day_forward_and_back(db: TestDatabase) {
        let wall = WallClock::build();
        let jump = |seconds: i64| wall.set(seconds);
        let retention = "[retention]\nledger = \"2h\"\npayload = \"1h\"\nevery = \"1s\"\nforce = true\n\n";
        let mut world = start(db, retention, |setup| {
            wall.envs().iter().fold(setup, |setup, (name, value)| setup.env(name, value))
        });
        let payloads = |world: &World| world.db.count(&world.db.table("payloads"));
        for number in 0..20 {
            world.expect("custom", &event(number), "accepted");
        }
        wait_for_states(&world, "ledger", &["done"]);
        // Several looks pass between the jumps.
        for seconds in [86_400, 0, -86_400, 0, 86_400] {
            jump(seconds);
            wait_until("the jump is seen", PATIENCE, || stopped(&world).is_some());
            thread::sleep(Duration::from_millis(2500));
            assert_eq!((payloads(&world), world.db.count(&world.db.table("ledger"))), (20, 20), "at {seconds} s");
            assert_eq!(act(&world, "/api/v1/retention/run", &json!({})).0, 409);
        }
        assert!(stopped(&world).is_some_and(|why| why.contains("jumped forward by 24 hours")), "{:?}", stopped(&world));
        // A restart with the clock still a day ahead changes nothing about it.
        world.program.kill9();
        world.program.restart();
        thread::sleep(Duration::from_millis(2500));
        assert_eq!((payloads(&world), stopped(&world).is_some()), (20, true));
        jump(0);
        // A run looks at the clocks first, so that what is confirmed is the last jump.
        assert_eq!(act(&world, "/api/v1/retention/run", &json!({})).0, 409);
        assert_eq!(act(&world, "/api/v1/retention/confirm", &json!({"who": "ann"})).1, json!({"confirmed": true}));
        wait_until("it runs again", PATIENCE, || act(&world, "/api/v1/retention/run", &json!({})).0 == 200);
        assert_eq!(payloads(&world), 20, "nothing is an hour old");
    }
}
