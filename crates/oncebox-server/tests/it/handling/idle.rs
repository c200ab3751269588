//! A node with nothing to do leaves the database alone. The server itself writes down what it was asked.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use testkit::TestDatabase;
use testkit::postgres::{Cluster, Options};

use super::{LEDGER, send, start, wait_for_states};
use crate::chance::number;

const LOOKED_FOR: usize = 20;
const PER_SECOND_MAX: f64 = 2.0;

/// `ONCEBOX_TEST_SECONDS` sets how long it is watched.
#[test]
fn an_idle_node_asks_the_database_at_most_twice_a_second() {
    let seconds = number("ONCEBOX_TEST_SECONDS").unwrap_or(LOOKED_FOR);
    let cluster = Cluster::start(
        Options::default().setting("log_statement=all").setting("log_line_prefix=%a: ").setting("fsync=on"),
    );
    let world = start(TestDatabase::fresh_on(&cluster), LEDGER);
    send(&world, 0..3);
    wait_for_states(&world, "ledger", &["done"]);
    // What followed the events, such as arrival counts and the first look after them, is over by then.
    std::thread::sleep(Duration::from_secs(3));
    let (before, started) = (statements(&cluster).len(), Instant::now());
    std::thread::sleep(Duration::from_secs(u64::try_from(seconds).expect("it fits")));
    let (all, watched) = (statements(&cluster), started.elapsed());
    let asked = &all[before..];
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    asked.iter().for_each(|one| *kinds.entry(one.as_str()).or_default() += 1);
    let rate = asked.len() as f64 / watched.as_secs_f64();
    println!("idle: {} statements in {watched:.1?}, {rate:.2} a second: {kinds:#?}", asked.len());
    assert!(!asked.is_empty(), "the log must show what it asks");
    // One more for a look that began just before the first count.
    assert!(asked.len() as f64 <= PER_SECOND_MAX * watched.as_secs_f64() + 1.0, "{kinds:#?}");
}

/// What the nodes asked so far, BEGIN and COMMIT among it; the first line of each.
fn statements(cluster: &Cluster) -> Vec<String> {
    let log = cluster.log();
    let ours = log.lines().filter_map(|line| line.strip_prefix("oncebox: LOG:  "));
    ours.filter_map(|said| {
        said.strip_prefix("statement: ").or_else(|| Some(said.strip_prefix("execute ")?.split_once(": ")?.1))
    })
    .map(str::to_owned)
    .collect()
}
