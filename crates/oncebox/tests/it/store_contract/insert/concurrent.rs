//! Several writers at once: overlapping batches in opposite orders never block each other for good, and each identity
//! is new exactly once.

use std::collections::HashMap;
use std::sync::Arc;

use oncebox::gateway::event::EventKey;
use oncebox::gateway::store::NewEvent;
use oncebox_verify::{Fingerprint, Fingerprints, OnRepeat, Topic};
use testkit::{Backend, TestDatabase};
use tokio::task::JoinSet;

use crate::world::{World, fingerprinted, unsigned};

const WRITERS: usize = 5;
const EVENTS: usize = 24;

testkit::contract! {
    async fn opposite_orders_never_deadlock(db: TestDatabase) {
        let world = Arc::new(World::new(db).await);
        for round in 0..rounds(&world) {
            let make = move |world: &World, n: usize| world.event(&format!("evt_{round}_{n}"), "a");
            race(&world, make).await;
        }
        world.check();
    }

    /// Signed ids with bytes of their own each, but two bodies fight for every id: the loser is one conflict.
    async fn conflicts_and_fingerprints_never_deadlock(db: TestDatabase) {
        let world = Arc::new(World::new(db).await);
        for round in 0..rounds(&world) {
            let make = move |world: &World, n: usize| {
                let event = world.event(&format!("evt_{round}_{}", n / 2), &format!("{round} {n}"));
                fingerprinted(event, OnRepeat::Run)
            };
            race(&world, make).await;
        }
        let half = world.count("events") / 2;
        assert_eq!(world.query("select state, count(*) from {events} group by state order by state"),
            [["accepted".to_owned(), half.to_string()], ["conflict".to_owned(), half.to_string()]]);
        world.check();
    }

    /// Deliveries that duplicates claim too, and types that fight for the places of a body.
    async fn deliveries_and_places_never_deadlock(db: TestDatabase) {
        let world = Arc::new(World::new(db).await);
        for round in 0..rounds(&world) {
            let make = move |world: &World, n: usize| {
                let kind = format!("type {}", n % 6);
                let mut event = unsigned(world.event(&format!("evt_{n}"), &format!("{round} {}", n / 6)), OnRepeat::Hold);
                let digest = event.event.body_sha256;
                event.event.fingerprint = Some(if n.is_multiple_of(2) {
                    Fingerprints::Delivery(Fingerprint::of_delivery("src", format!("{round} {}", n / 4).as_bytes()))
                } else {
                    Fingerprints::Topic(Topic {
                        pair: Fingerprint::of_type_and_body("src", &kind, &digest),
                        body: Fingerprint::of_body("src", &digest),
                        topic: None,
                    })
                });
                event
            };
            race(&world, make).await;
        }
        world.check();
    }

    async fn aliases_never_deadlock(db: TestDatabase) {
        let world = Arc::new(World::new(db).await);
        let rounds = rounds(&world);
        for round in 0..rounds {
            let make = move |world: &World, n: usize| {
                unsigned(world.event(&format!("evt_{n}"), &format!("{round} {}", n % 3)), OnRepeat::Duplicate)
            };
            race(&world, make).await;
        }
        assert_eq!(world.count("events"), 3 * rounds as i64);
        assert_eq!(world.count("ledger"), (EVENTS * rounds) as i64);
        world.check();
    }
}

/// Deadlocks show on Postgres, which has many writers; SQLite has one.
fn rounds(world: &World) -> usize {
    if world.db.backend() == Backend::Postgres { 30 } else { 8 }
}

/// The writers insert the same events, every other one backwards. Nobody may fail, and no key may be new twice.
async fn race(world: &Arc<World>, make: impl Fn(&World, usize) -> NewEvent + Copy + Send + 'static) {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let world = world.clone();
        writers.spawn(async move {
            let mut events: Vec<_> = (0..EVENTS).map(|n| make(&world, n)).collect();
            if writer % 2 == 1 {
                events.reverse();
            }
            let identities: Vec<_> =
                events.iter().map(|event| (event.event.identity, event.event.body_sha256)).collect();
            identities.into_iter().zip(world.insert(events).await).collect::<Vec<_>>()
        });
    }
    let mut keys: HashMap<_, EventKey> = HashMap::new();
    let (mut fresh, mut seen) = (0, 0);
    while let Some(outcomes) = writers.join_next().await {
        for (identity, outcome) in outcomes.unwrap() {
            let key = *keys.entry(identity).or_insert(outcome.key());
            assert_eq!(key, outcome.key(), "everybody is told the same key");
            fresh += usize::from(!outcome.is_arrival_only());
            seen += 1;
        }
    }
    let distinct: std::collections::HashSet<_> = keys.values().collect();
    assert_eq!((fresh, seen), (distinct.len(), WRITERS * EVENTS));
    assert!(matches!(world.store.event(*keys.values().next().unwrap()).await, Ok(Some(_))));
}
