//! Verbs and functions on one handler: what one did counts for the other, and racing for the same rows runs nothing twice.

use std::sync::Arc;

use oncebox::gateway::delivery::order::order_key;
use oncebox::gateway::delivery::routing::NewDelivery;
use testkit::Backend;
use tokio::task::JoinSet;

use super::puller::{Answer, Puller};
use crate::store_contract::deliveries::{BILLING, end_leases, make_due, processing, states};
use crate::world::World;

const EVENTS: usize = 120;
const CONSUMERS: usize = 6;

fn run<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    testkit::database::run(Backend::Postgres, async |db| test(processing(db).await).await);
}

#[test]
fn marks_of_one_are_known_to_the_other() {
    run(async |world| {
        for (first, second) in [(Puller::Verbs, Puller::Functions), (Puller::Functions, Puller::Verbs)] {
            let name = format!("{first:?} ü");
            assert!(first.once(&world, "stripe", &name).await);
            assert!(!second.once(&world, "stripe", &name).await);
            assert!(first.newer(&world, &name, 7, false).await);
            assert!(!second.newer(&world, &name, 7, false).await);
        }
    });
}

#[test]
fn a_lease_passes_from_one_to_the_other() {
    run(async |world| {
        world.db.execute("create table effects (id text, attempt integer)");
        world.insert_one(world.event("evt_1", "a")).await;
        let stale = Puller::Verbs.claim(&world, 1).await;
        end_leases(&world);
        let current = Puller::Functions.claim(&world, 1).await;
        assert_eq!(current[0].attempt, 2);
        assert_eq!(Puller::Verbs.work(&world, &stale[0]).await, Answer::Lost);
        assert_eq!(Puller::Functions.fail(&world, current[0].fence, "later", true).await.as_deref(), Ok("ready"));
        make_due(&world);
        let last = Puller::Verbs.claim(&world, 1).await;
        assert_eq!(Puller::Functions.work(&world, &current[0]).await, Answer::Lost);
        assert_eq!(Puller::Verbs.work(&world, &last[0]).await, Answer::Recorded);
        assert_eq!(states(&world), [["done", "3"]]);
        assert_eq!(world.db.query("select id, attempt from effects"), [["evt_1", "3"]]);
    });
}

#[test]
fn racing_for_the_same_rows_runs_nothing_twice() {
    run(async |world| {
        world.db.execute("create table effects (id text, attempt integer)");
        let events = (0..EVENTS).map(|n| {
            let mut event = world.event(&format!("evt_{n:03}"), "a");
            // A third of them run one at a time: claims meet at the unique index, too.
            if n % 3 == 0 {
                let order_key = Some(order_key(&format!("object_{}", n % 4)));
                event.handlers = vec![NewDelivery { handler: BILLING.into(), order_key }];
            }
            event
        });
        world.insert(events).await;
        let world = Arc::new(world);
        let mut consumers = JoinSet::new();
        for n in 0..CONSUMERS {
            let puller = if n % 2 == 0 { Puller::Verbs } else { Puller::Functions };
            consumers.spawn(consume(puller, Arc::clone(&world)));
        }
        let shares = consumers.join_all().await;
        assert_eq!(shares.iter().sum::<usize>(), EVENTS, "{shares:?}");
        let doubled = world.db.query("select id from effects group by id having count(*) > 1");
        assert_eq!((world.db.query("select id from effects").len(), doubled.len()), (EVENTS, 0));
        assert!(world.query("select 1 from {deliveries} where handler = 'billing' and attempt <> 1").is_empty());
    });
}

/// Works until nothing is left, and says how much it did.
async fn consume(puller: Puller, world: Arc<World>) -> usize {
    let mut done = 0;
    while !world.query("select 1 from {deliveries} where handler = 'billing' and state <> 'done' limit 1").is_empty() {
        for one in puller.claim(&world, 5).await {
            assert_eq!(puller.work(&world, &one).await, Answer::Recorded);
            done += 1;
        }
    }
    done
}
