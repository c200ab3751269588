//! Every store call of processing in turn fails, or loses its result: each effect is there exactly once in the end.

use std::time::Duration;

use oncebox::RetryPolicy;
use oncebox::gateway::fault::Faults;
use oncebox::gateway::worker::handler::HandlerSpec;
use testkit::TestDatabase;

use super::{BILLING, effect, event, handler, start, wait_while, world};
use crate::world::World;

/// On the way of a delivery.
const POINTS: [&str; 8] = [
    "deliveries.claim",
    "deliveries.claimed",
    "deliveries.effect",
    "deliveries.finish",
    "store.begin",
    "store.execute",
    "store.commit",
    "store.committed",
];
/// More passages of one point than three deliveries need, idle looks aside.
const PASSAGES_MAX: usize = 20;

testkit::contract! {
    async fn one_effect_whatever_fails(db: TestDatabase) {
        sweep(db, "fail").await;
    }

    async fn one_effect_whatever_result_is_lost(db: TestDatabase) {
        sweep(db, "unknown").await;
    }
}

async fn sweep(db: TestDatabase, action: &str) {
    let mut world = world(db).await;
    let whole = world.store.clone();
    let mut runs = 0;
    for point in POINTS {
        for nth in 1..=PASSAGES_MAX {
            runs += 1;
            world.insert((0..3).map(|n| event(&world, &format!("evt_{runs}_{n}"), "{}"))).await;
            let faults = Faults::parse(&format!("{point}={action}@{nth}")).unwrap();
            let faulty = World { store: whole.clone().with_faults(faults.clone()), ..world };
            run(&faulty).await;
            check(&faulty, runs, &format!("{point}={action}@{nth}"));
            world = World { store: whole.clone(), ..faulty };
            if faults.passed().iter().filter(|passed| **passed == point).count() < nth {
                assert!(nth > 1, "{point} was never entered");
                break;
            }
        }
    }
}

/// Lets workers that meet faults handle what is there.
async fn run(faulty: &World) {
    let spec = handler(effect(faulty));
    // What is shown is one effect, not the budget: a slow commit may cost attempts beside those of the fault.
    let retry = RetryPolicy { attempts: 20, ..spec.retry };
    let spec = HandlerSpec { lease: Duration::from_secs(1), retry, ..spec };
    let workers = start(faulty, vec![spec]);
    wait_while(faulty, "'ready', 'claimed'").await;
    workers.stop(Duration::from_secs(1)).await;
}

fn check(world: &World, runs: usize, fault: &str) {
    let all = (3 * runs).to_string();
    let found = world.db.query("select count(*), count(distinct event_id) from effects");
    assert_eq!(found, [[all.clone(), all.clone()]], "after {fault}");
    let done = format!("select count(*) from {{deliveries}} where handler = '{BILLING}' and state = 'done'");
    assert_eq!(world.query(&done), [[all]], "after {fault}");
}
