//! A target that goes away and comes back: no burst above the rate, and pauses that differ.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use testkit::receiver::{Call, Receiver, Reply};
use testkit::{TestDatabase, contract};

use super::{destination, message, setup, wait_for_messages, write};
use crate::world::{PATIENCE, World, wait_until};

/// Calls in the busiest second.
fn busiest(calls: &[Call]) -> usize {
    let within = |first: &Call| {
        calls.iter().filter(|call| call.at >= first.at && call.at < first.at + Duration::from_secs(1)).count()
    };
    calls.iter().map(within).max().unwrap_or(0)
}

contract! {
    async fn a_target_that_returns_meets_no_burst(db: TestDatabase) {
        let receiver = Receiver::start_with(|_| Reply::Reset);
        let rest = "rate = \"40/s\"\nconcurrency = 32\nretry = { attempts = 100, base = \"100ms\", cap = \"1s\" }";
        let world = World { program: setup(&db, &destination(&receiver, rest)).serve(), db };
        (0..120).for_each(|n| write(&world.db, &format!("m{n}"), ""));
        wait_until("the circuit opens", PATIENCE, || receiver.calls().len() >= 16);
        std::thread::sleep(Duration::from_secs(2));
        let down = receiver.calls();
        assert!(down.len() < 60, "{} calls to a target that is away", down.len());
        let back = Instant::now();
        receiver.behave(|_| Reply::Status(200));
        wait_for_messages(&world.db, &["sent"]);
        let calls = receiver.calls();
        println!("recovery: {} calls while away, busiest second {}, all sent after {:?}", down.len(), busiest(&calls), back.elapsed());
        // A burst would be all 120; a busy machine delays what belongs to one second into the next.
        assert!(busiest(&calls) <= 2 * 40, "{} calls in one second", busiest(&calls));
        assert!(back.elapsed() < Duration::from_secs(30));
        let attempts = world.db.query(&format!("select max(attempt) from {}", world.db.table("outbox")));
        assert!(attempts[0][0].parse::<usize>().expect("a number") < 20, "the circuit spares attempts");
    }

    async fn pauses_are_full_of_jitter(db: TestDatabase) {
        let receiver = Receiver::start_with(|call| match call.header("oncebox-attempt") {
            Some("1") => Reply::Status(500),
            _ => Reply::Status(200),
        });
        let rest = "concurrency = 32\nretry = { attempts = 5, base = \"2s\", cap = \"2s\" }";
        let world = World { program: setup(&db, &destination(&receiver, rest)).serve(), db };
        (0..40).for_each(|n| write(&world.db, &format!("m{n}"), ""));
        wait_for_messages(&world.db, &["sent"]);
        let mut first: BTreeMap<String, Instant> = BTreeMap::new();
        let mut pauses = Vec::new();
        for call in receiver.calls() {
            match first.get(&call.text()) {
                None => drop(first.insert(call.text(), call.at)),
                Some(at) => pauses.push(call.at - *at),
            }
        }
        pauses.sort();
        println!("jitter: {:?} to {:?}, median {:?}", pauses[0], pauses[39], pauses[20]);
        assert_eq!(pauses.len(), 40);
        // Anything in [0, 2 s], found by a look every 0.7 s.
        assert!(pauses[0] < Duration::from_millis(1200) && pauses[39] > Duration::from_millis(1200), "{pauses:?}");
        assert!(pauses[39] < Duration::from_secs(15), "{pauses:?}");
        assert_eq!(message(&world.db, "m7", "state, attempt"), ["sent", "2"]);
    }
}
