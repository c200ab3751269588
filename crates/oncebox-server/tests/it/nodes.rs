//! A thousand copies of one event at once, on one node and over three that share a database: one is stored.

use std::collections::BTreeSet;
use std::thread;

use testkit::http::{self, Outcome};
use testkit::program::Program;
use testkit::{Backend, TestDatabase, contract};

use crate::world::{PATIENCE, Setup, World, stripe, wait_until};

const COPIES: usize = 1000;
const CONNECTIONS: usize = 100;

contract! {
    async fn a_thousand_copies_on_one_node_are_one_event(db: TestDatabase) {
        let world = World::start(db);
        let wire = stripe("evt_storm").raw("stripe", world.addr());
        let outcomes = world.expect_stored(1, 1, || http::blast(world.addr(), vec![wire; COPIES], CONNECTIONS));
        expect_one_event(&world, &outcomes);
    }
}

#[test]
fn a_thousand_copies_over_three_nodes_are_one_event() {
    let db = TestDatabase::fresh(Backend::Postgres);
    let url = db.url().to_owned();
    let world = World::start(db);
    let others: Vec<Program> = (0..2).map(|_| Setup::new(&url).serve()).collect();
    let nodes: Vec<&str> = std::iter::once(world.addr()).chain(others.iter().map(Program::public_addr)).collect();
    let signed = stripe("evt_storm");
    let share = |node: usize| COPIES / 3 + usize::from(node < COPIES % 3);
    let blast =
        |node: usize, addr: &str| http::blast(addr, vec![signed.raw("stripe", addr); share(node)], CONNECTIONS / 3);
    let outcomes: Vec<Outcome> = thread::scope(|scope| {
        let start = |(node, addr): (usize, &&str)| {
            let (blast, addr) = (&blast, (*addr).to_owned());
            scope.spawn(move || blast(node, &addr))
        };
        let running: Vec<_> = nodes.iter().enumerate().map(start).collect();
        running.into_iter().flat_map(|blast| blast.join().expect("it ends")).collect()
    });
    expect_one_event(&world, &outcomes);
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
