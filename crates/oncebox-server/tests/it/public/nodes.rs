//! A thousand copies of one event at once, on one node and over three that share a database: one is stored.
//!
//! At once means that every copy is under way before the first can end: each has its own connection and its slot, the
//! servers have asked for every body, and all bodies lie there before a server may go on.

use std::collections::BTreeSet;

use testkit::http::{Outcome, UnderWay};
use testkit::program::Program;
use testkit::{Backend, TestDatabase, allow_open_files, contract};

use crate::world::{PATIENCE, Setup, World, stripe, wait_until};

const COPIES: usize = 1000;
/// The copies, and what a server and a test open besides.
const OPEN_FILES: u64 = COPIES as u64 + 500;

contract! {
    async fn a_thousand_copies_on_one_node_are_one_event(db: TestDatabase) {
        allow_open_files(OPEN_FILES);
        let mut world = World::start_with(db, |setup| with_slots(setup, COPIES));
        assert_eq!(world.row_counts()["events"], 0);
        let outcomes = at_once(&mut [&mut world.program], &[COPIES]);
        expect_one_event(&world, &outcomes);
    }
}

#[test]
fn a_thousand_copies_over_three_nodes_are_one_event() {
    allow_open_files(OPEN_FILES);
    let db = TestDatabase::fresh(Backend::Postgres);
    let url = db.url().to_owned();
    let shares = [334, 333, 333];
    let mut world = World::start_with(db, |setup| with_slots(setup, shares[0]));
    let mut others = [1, 2].map(|node| with_slots(Setup::new(&url), shares[node]).serve());
    let [second, third] = &mut others;
    let outcomes = at_once(&mut [&mut world.program, second, third], &shares);
    expect_one_event(&world, &outcomes);
}

/// As many slots as copies come, and not one more; a quarter of the connections may be one client's slow bodies.
fn with_slots(setup: Setup, slots: usize) -> Setup {
    setup.server(&format!("in_flight = {slots}\nconnections = {}", 4 * COPIES))
}

/// Sends each node its share of the copies and lets all go on at the same moment.
fn at_once(nodes: &mut [&mut Program], shares: &[usize]) -> Vec<Outcome> {
    let signed = stripe("evt_storm");
    let begin = |(node, share): (&&mut Program, &usize)| {
        UnderWay::all(node.public_addr(), vec![signed.raw("stripe", node.public_addr()); *share])
    };
    let mut copies: Vec<UnderWay> = nodes.iter().zip(shares).map(begin).collect();
    nodes.iter_mut().for_each(|node| node.signal(libc::SIGSTOP));
    copies.iter_mut().for_each(UnderWay::send_bodies);
    nodes.iter_mut().for_each(|node| node.signal(libc::SIGCONT));
    copies.into_iter().flat_map(UnderWay::outcomes).collect()
}

fn expect_one_event(world: &World, outcomes: &[Outcome]) {
    let mut keys = BTreeSet::new();
    let mut accepted = 0;
    for outcome in outcomes {
        let Outcome::Ok(200, body) = outcome else { panic!("{outcome:?}") };
        let answer: serde_json::Value = serde_json::from_slice(body).expect("an answer is JSON");
        keys.insert(answer["key"].as_str().expect("a key").to_owned());
        accepted += usize::from(answer["status"] == "accepted");
    }
    assert_eq!((outcomes.len(), keys.len(), accepted), (COPIES, 1, 1));
    let counts = world.row_counts();
    assert_eq!([counts["ledger"], counts["events"], counts["payloads"], counts["deliveries"]], [1; 4]);
    let key = keys.pop_first().expect("one key");
    let copies = i64::try_from(COPIES).expect("it fits");
    let lag = wait_until("every arrival is counted", PATIENCE, || world.arrivals(&key) == copies);
    println!("counted {lag:?} after the last answer");
}
