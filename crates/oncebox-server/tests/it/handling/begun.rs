//! A process that is killed has used an attempt of what it had begun, and of nothing else that it had claimed.

use std::collections::BTreeSet;

use testkit::receiver::{Receiver, Reply};
use testkit::{TestDatabase, contract};

use super::nodes::with_handlers;
use super::{effects, event, wait_for_states};
use crate::world::{PATIENCE, World, wait_until};

const ONCE: &str = "lease = \"60s\"\nconcurrency = 16\nretry = { attempts = 1, base = \"20ms\", cap = \"100ms\" }\n";
const CONCURRENCY: usize = 16;
const EVENTS: usize = 2_000;

contract! {
    async fn calls_that_were_not_made_use_no_attempt(db: TestDatabase) {
        let receiver = Receiver::start_with(|_| Reply::Hang);
        let handler = format!(
            "[[handler]]\nname = \"app\"\nsources = [\"custom\"]\n{ONCE}http = {{ url = \"{}\", timeout = \"15s\" }}\n",
            receiver.url());
        let mut world = backlog(db, &handler, 200);
        wait_until("calls hang", PATIENCE, || receiver.calls().len() == CONCURRENCY);
        world.program.kill9();
        let called: BTreeSet<_> = receiver.calls().iter().map(|call| id_of(&call.text())).collect();
        receiver.behave(|_| Reply::Status(200));
        world.program.restart();
        wait_for_states(&world, "app", &["done", "dead"]);
        let view = world.db.table("deliveries_v1");
        let dead = world.db.query(&format!("select event_id from {view} where state = 'dead'"));
        let dead: BTreeSet<_> = dead.into_iter().map(|row| row[0].clone()).collect();
        assert_eq!(dead, called, "exactly those whose call was under way");
        let all: BTreeSet<_> = receiver.calls().iter().map(|call| id_of(&call.text())).collect();
        assert_eq!(all.len(), 200, "each was called");
    }

    async fn effects_that_were_rolled_back_with_others_kill_nobody(db: TestDatabase) {
        db.execute("create table effects (event_id text, event_key text, attempt integer)");
        let handler = format!(
            "[[handler]]\nname = \"ledger\"\nsources = [\"custom\"]\n{ONCE}\
             sql = \"insert into effects (event_id, event_key, attempt) values (:event_id, :key, :attempt)\"\n");
        let mut world = backlog(db, &handler, EVENTS);
        let some = i64::try_from(EVENTS / 4).expect("it fits");
        wait_until("some are done", PATIENCE, || effects(&world).0 > some);
        world.program.kill9();
        let claimed = format!("select count(*) from {} where state = 'claimed'", world.db.table("deliveries"));
        println!("killed on {:?} with {} claims", world.db.backend(), world.db.query(&claimed)[0][0]);
        world.program.restart();
        wait_until("the rest is done", PATIENCE * 6, || {
            let open = format!("select count(*) from {} where state in ('ready', 'claimed')", world.db.table("deliveries"));
            world.db.query(&open) == [["0"]]
        });
        wait_for_states(&world, "ledger", &["done"]);
        let events = i64::try_from(EVENTS).expect("it fits");
        assert_eq!(effects(&world), (events, events), "each once, and none is dead");
    }
}

fn backlog(db: TestDatabase, handler: &str, events: usize) -> World {
    let setup = with_handlers(&db, handler);
    let world = World { program: setup.clone().server("workers = false").serve(), db };
    let addr = world.program.public_addr().to_owned();
    let outcomes = testkit::http::blast(&addr, (0..events).map(|number| event(number).raw("custom", &addr)), 8);
    assert!(outcomes.iter().all(|outcome| outcome.status() == Some(200)));
    let World { program, db } = world;
    drop(program);
    World { program: setup.serve(), db }
}

fn id_of(body: &str) -> String {
    body.split('"').nth(3).unwrap_or_default().to_owned()
}
