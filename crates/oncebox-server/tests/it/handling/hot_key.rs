//! Very many events behind one order key delay neither the other keys of their handler nor anybody else.
//!
//! `ONCEBOX_TEST_BLOCKED` sets how many.

use std::time::{Duration, Instant};

use testkit::{Backend, TestDatabase, contract};

use super::{HASTY, delivery, start, wait_for_states};
use crate::chance::number;
use crate::world::{PATIENCE, World, custom, wait_until};

const BLOCKED: usize = 30_000;
/// For a machine that does everything at once.
const PROMPT: Duration = Duration::from_secs(5);

contract! {
    async fn one_hot_key_delays_nobody_else(db: TestDatabase) {
        db.execute("create table picky (id text check (id <> 'head'))");
        let handler = |name: &str, order: &str| format!(
            "[[handler]]\nname = \"{name}\"\nsources = [\"custom\"]\ntypes = [\"{name}\"]\nlease = \"30s\"\n{HASTY}{order}\
             sql = \"insert into picky values (:event_id); insert into effects (event_id) values (:event_id)\"\n");
        let serial = handler("serial", "order = { key = \"/object\", rule = \"serial\", on_dead = \"block\" }\n");
        let world = start(db, &format!("{serial}{}", handler("other", "")));
        post(&world, "head", "serial", "hot");
        wait_for_states(&world, "serial", &["dead"]);
        assert_eq!(delivery(&world, "serial", "head").0, "dead");
        block(&world, number("ONCEBOX_TEST_BLOCKED").unwrap_or(BLOCKED));
        // Let the server meet them.
        std::thread::sleep(Duration::from_secs(2));
        let mut slowest = [Duration::ZERO; 2];
        for nth in 0..10 {
            for (slowest, kind) in slowest.iter_mut().zip(["serial", "other"]) {
                let (id, since) = (format!("{kind}_{nth}"), Instant::now());
                post(&world, &id, kind, &id);
                let there = format!("select count(*) from effects where event_id = '{id}'");
                wait_until("its effect is there", PATIENCE * 3, || world.db.query(&there) == [["1"]]);
                *slowest = since.elapsed().max(*slowest);
            }
        }
        let [same, other] = slowest;
        println!("beside a hot key on {:?}: other keys {same:?}, another handler {other:?} at most", world.db.backend());
        assert!(same < PROMPT && other < PROMPT, "other keys {same:?}, another handler {other:?}");
    }
}

fn post(world: &World, id: &str, kind: &str, object: &str) {
    let body = format!(r#"{{"id":"{id}","type":"{kind}","object":"{object}"}}"#);
    world.expect("custom", &custom(body), "accepted");
}

/// Deliveries behind the dead head, ready and due.
fn block(world: &World, number: usize) {
    let deliveries = world.db.table("deliveries");
    let (numbers, id, key) = match world.db.backend() {
        Backend::Sqlite => (
            format!("with recursive n(n) as (select 1 union all select n + 1 from n where n < {number})"),
            "cast(x'ffffffff0000' || substr('0000000000' || n.n, -10) as blob)",
            "cast(x'01ffffffffff' || substr('0000000000' || n.n, -10) as blob)",
        ),
        Backend::Postgres => (
            format!("with n as (select n from generate_series(1, {number}) n)"),
            "('ffffffff-0000-7000-8000-' || lpad(to_hex(n.n), 12, '0'))::uuid",
            "('01ffffff-ffff-7000-8000-' || lpad(to_hex(n.n), 12, '0'))::uuid",
        ),
    };
    world.db.execute(&format!(
        "insert into {deliveries} (delivery, key, handler, state, due_at_ms, order_key) {numbers} \
         select {id}, {key}, d.handler, 'ready', 1, d.order_key from n, {deliveries} d where d.state = 'dead'"
    ));
}
