//! Events that always fail: each is dead after exactly its attempts, and the others hardly wait for it.
//!
//! The delay of good events, from their reception to their effect, is measured in pairs of rounds: once beside events
//! that are fine, once beside as many that fail. `ONCEBOX_TEST_ROUNDS` and `ONCEBOX_TEST_EVENTS` (a round) make it
//! longer.

use std::time::Duration;

use testkit::receiver::{Receiver, Reply};
use testkit::{Backend, TestDatabase, contract};

use super::{HASTY, start};
use crate::chance::number;
use crate::world::{PATIENCE, World, custom, wait_until};

const ROUNDS: usize = 3;
const EVENTS: usize = 100;
/// One good event and one other in each.
const EVERY: Duration = Duration::from_millis(10);
/// For a machine that does everything at once; the aim is twice the baseline, and the figures are printed.
const TIMES_MAX: u64 = 4;
const MILLIS_MORE: u64 = 500;

/// Good events, and a handler of the same kind for the others.
const GOOD: &str = "[[handler]]\nname = \"good\"\nsources = [\"custom\"]\ntypes = [\"good\"]\nlease = \"5s\"\n\
    sql = \"insert into effects (event_id) values (:event_id)\"\n";

contract! {
    async fn good_events_beside_statements_that_fail(db: TestDatabase) {
        db.execute("create table picky (id text check (id not like 'bad%'))");
        measure(db, "statements that fail", &sql_handler("insert into picky values (:event_id)"));
    }

    /// Every second event of the handler fails, at each of its attempts.
    async fn good_events_in_one_handler_with_those_that_fail(db: TestDatabase) {
        db.execute("create table picky (id text check (id not like 'bad%'))");
        let both = GOOD.replace("\"good\"]", "\"good\", \"other\"]").replace("values (:event_id)\"", "values (:event_id); insert into picky values (:event_id)\"");
        measure_with(db, "failing events in the same handler", &format!("{both}{HASTY}"), "good", Ends::Dead);
    }

    async fn good_events_beside_a_receiver_that_dies(db: TestDatabase) {
        let receiver = Receiver::start_with(|call| if call.text().contains("bad") { Reply::Reset } else { Reply::Status(200) });
        let http = format!(
            "[[handler]]\nname = \"other\"\nsources = [\"custom\"]\ntypes = [\"other\"]\nlease = \"5s\"\n{HASTY}\
             http = {{ url = \"{}\", timeout = \"1s\" }}\n", receiver.url());
        measure_with(db, "a receiver that dies", &format!("{GOOD}{HASTY}{http}"), "other", Ends::Spared);
    }
}

/// On Postgres a statement may also raise, or end its own session.
#[test]
fn good_events_beside_statements_that_end_their_session() {
    let sql = "select case when :event_id like 'bad%' then pg_terminate_backend(pg_backend_pid()) end";
    measure(TestDatabase::fresh(Backend::Postgres), "statements that end their session", &sql_handler(sql));
}

fn sql_handler(sql: &str) -> String {
    format!(
        "[[handler]]\nname = \"other\"\nsources = [\"custom\"]\ntypes = [\"other\"]\nlease = \"5s\"\n{HASTY}sql = \"{sql}\"\n"
    )
}

/// How events that fail end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// After their attempts.
    Dead,
    /// A receiver out of reach is spared, so their dead letters would come long after the test.
    Spared,
}

fn measure(db: TestDatabase, what: &str, other: &str) {
    measure_with(db, what, &format!("{GOOD}{HASTY}{other}"), "other", Ends::Dead);
}

fn measure_with(db: TestDatabase, what: &str, handlers: &str, poisoned: &str, ends: Ends) {
    let world = start(db, handlers);
    let rounds = number("ONCEBOX_TEST_ROUNDS").unwrap_or(ROUNDS);
    let events = number("ONCEBOX_TEST_EVENTS").unwrap_or(EVENTS);
    // Whatever is done for the first time takes longer.
    round(&world, "warm", "fine", events / 4, ends);
    let (mut alone, mut beside, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for nth in 0..rounds {
        let baseline = round(&world, &format!("a{nth}"), "fine", events, ends);
        let poison = round(&world, &format!("b{nth}"), "bad", events, ends);
        ratios.push(poison as f64 / baseline.max(1) as f64);
        alone.push(baseline);
        beside.push(poison);
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "p95 beside {what} on {:?}: {beside:?} ms, beside fine ones {alone:?} ms, median ratio {:.2} of {rounds} pairs",
        world.db.backend(),
        ratios[rounds / 2],
    );
    if ends == Ends::Dead {
        expect_dead(&world, poisoned, rounds * events);
    }
    let (alone, beside) = (median(alone), median(beside));
    assert!(beside <= TIMES_MAX * alone + MILLIS_MORE, "{beside} ms beside {what}, {alone} ms otherwise");
}

/// Sends pairs at a steady pace, waits until all is over, and returns the p95 of the good ones' delay in milliseconds.
fn round(world: &World, name: &str, other: &str, events: usize, ends: Ends) -> u64 {
    for nth in 0..events {
        for (kind, id) in [("other", format!("{other}_{name}_{nth}")), ("good", format!("good_{name}_{nth}"))] {
            let answer = world.post("custom", &custom(format!(r#"{{"id":"{id}","type":"{kind}"}}"#)));
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        // The pace is part of what is measured.
        std::thread::sleep(EVERY);
    }
    let open = format!("select count(*) from {} where state in ('ready', 'claimed')", world.db.table("deliveries"));
    wait_until("good events are done", PATIENCE, || world.db.query(&format!("{open} and handler = 'good'")) == [["0"]]);
    match ends {
        Ends::Dead => drop(wait_until("the others are dead", PATIENCE * 3, || world.db.query(&open) == [["0"]])),
        Ends::Spared => world.db.execute(&format!(
            "update {} set state = 'discarded' where handler = 'other' and state = 'ready'",
            world.db.table("deliveries")
        )),
    }
    let (deliveries, stored) = (world.db.table("deliveries"), world.db.table("events"));
    let rows = world.db.query(&format!(
        "select d.finished_at_ms - e.received_at_ms from {deliveries} d join {stored} e on e.key = d.key \
         where d.handler = 'good' and e.event_id like 'good_{name}_%' order by 1"
    ));
    assert_eq!(rows.len(), events, "every good event is done");
    let delays: Vec<i64> = rows.iter().map(|row| row[0].parse().expect("milliseconds")).collect();
    u64::try_from(delays[(delays.len() * 95).div_ceil(100) - 1]).unwrap_or(0)
}

/// Each that fails had exactly its attempts, and none left an effect.
fn expect_dead(world: &World, handler: &str, bad: usize) {
    let view = world.db.table("deliveries_v1");
    let sql = format!(
        "select state, attempt, count(*) from {view} where handler = '{handler}' and event_id like 'bad%' group by state, attempt"
    );
    assert_eq!(world.db.query(&sql), [["dead".to_owned(), "3".to_owned(), bad.to_string()]]);
    let others = format!("select count(*) from {view} where event_id not like 'bad%' and state <> 'done'");
    assert_eq!(world.db.query(&others), [["0"]], "only those that fail are dead");
    assert_eq!(world.db.query("select count(*) from effects where event_id like 'bad%'"), [["0"]]);
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}
