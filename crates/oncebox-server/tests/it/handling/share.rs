//! Three nodes on one Postgres: every event is handled once, whoever does it, and all of them do their share.
//!
//! `ONCEBOX_TEST_EVENTS` sets the number of events.

use std::time::{Duration, Instant};

use testkit::effects::EffectReport;
use testkit::http::{self, Outcome};
use testkit::program::Program;
use testkit::{Backend, TestDatabase};

use super::nodes::{slow, with_handlers};
use super::{LEDGER, event};
use crate::chance::number;
use crate::world::wait_until;

const EVENTS: usize = 3_000;
const NODES: usize = 3;
const SENDERS_PER_NODE: usize = 8;
/// What an event may take on a machine that does everything at once.
const PATIENCE_PER_EVENT: Duration = Duration::from_millis(20);

#[test]
fn three_nodes_share_the_work_and_do_nothing_twice() {
    let events = number("ONCEBOX_TEST_EVENTS").unwrap_or(EVENTS);
    let patience = Duration::from_secs(30) + PATIENCE_PER_EVENT * u32::try_from(events).expect("it fits");
    let db = TestDatabase::fresh(Backend::Postgres);
    db.execute("create table effects (event_id text, event_key text, attempt integer)");
    let nodes = nodes_on(&db, &slow(LEDGER).replace("0.005", "0.01"));
    // Nobody begins before everything is there, or the first to look would be done before the others began.
    pause(&db, true);
    let sent = Instant::now();
    send(&nodes, events);
    let sent = sent.elapsed();
    pause(&db, false);
    let begun = Instant::now();
    let open = format!("select count(*) from {} where state in ('ready', 'claimed')", db.table("deliveries"));
    wait_until("everything is handled", patience, || db.query(&open) == [["0"]]);
    let handled = begun.elapsed();
    EffectReport::of(&db, "ledger").assert_clean();
    let counts = db.query("select count(*), count(distinct event_key), count(distinct event_id) from effects");
    assert_eq!(counts, [[events.to_string(), events.to_string(), events.to_string()]]);
    let shares = shares(&db);
    println!(
        "{NODES} nodes: {events} events stored in {:.1} s, handled in {:.1} s, double 0, missing 0, shares {shares:?}",
        sent.as_secs_f64(),
        handled.as_secs_f64(),
    );
    assert_eq!(shares.len(), NODES, "{shares:?}");
    assert!(shares.iter().all(|share| share * 10 > events), "each does more than a tenth: {shares:?}");
}

/// Running nodes of one config.
pub(super) fn nodes_on(db: &TestDatabase, handlers: &str) -> Vec<Program> {
    let mut nodes: Vec<Program> = (0..NODES).map(|_| with_handlers(db, handlers).launch()).collect();
    nodes.iter_mut().for_each(Program::wait_ready);
    nodes
}

fn pause(db: &TestDatabase, paused: bool) {
    let known = format!("select count(*) from {} where handler = 'ledger'", db.table("handlers"));
    wait_until("the handler is known", Duration::from_secs(20), || db.query(&known) == [["1"]]);
    db.execute(&format!("update {} set paused = {}", db.table("handlers"), i32::from(paused)));
}

/// Sends each event to one of the nodes, to all of them at once.
fn send(nodes: &[Program], events: usize) {
    std::thread::scope(|scope| {
        for (place, node) in nodes.iter().enumerate() {
            scope.spawn(move || {
                let addr = node.public_addr();
                let requests = (place..events).step_by(NODES).map(|number| event(number).raw("custom", addr));
                let outcomes = http::blast(addr, requests, SENDERS_PER_NODE);
                let refused = outcomes.iter().find(|outcome| outcome.status() != Some(200));
                assert!(refused.is_none(), "{:?}", refused.map(Outcome::status));
            });
        }
    });
}

/// What each node did.
fn shares(db: &TestDatabase) -> Vec<usize> {
    let sql = format!("select count(*) from {} where state = 'done' group by node order by 1", db.table("deliveries"));
    db.query(&sql).iter().map(|row| row[0].parse().expect("a count")).collect()
}
