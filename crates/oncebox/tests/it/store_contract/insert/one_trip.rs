//! Inserting in one round trip: it means what a transaction means, and it can be repeated.

use std::sync::Arc;

use oncebox::gateway::store::Inserted::{Accepted, Conflict, Duplicate, Held};
use oncebox::gateway::store::{Inserted, NewEvent, insert_events};
use testkit::TestDatabase;

use crate::world::{World, committed, held};

testkit::contract! {
    async fn a_batch_whose_answer_was_lost_can_be_repeated(db: TestDatabase) {
        let world = World::new(db).await;
        let known = world.insert_one(world.event("known", "a")).await.key();
        let batch = [
            world.event("evt_1", "a"), world.event("known", "a"), held(world.event("body_00", "?")),
            world.event("evt_1", "a"),
        ];
        let keys = batch.each_ref().map(|event| event.key);
        let expected = [Accepted(keys[0]), Duplicate(known), Held(keys[2]), Duplicate(keys[0])];
        for _ in 0..3 {
            assert_eq!(world.insert(batch.clone()).await, expected);
        }
        let later = world.event("evt_2", "a");
        let longer = batch.into_iter().chain([later.clone()]);
        assert_eq!(world.insert(longer).await[4], Accepted(later.key));
        assert_eq!((world.count("events"), world.count("payloads"), world.count("deliveries")), (4, 4, 8));
        world.check();
    }

    /// Behind a batch of duplicates the next one is looked for before it is inserted: that changes no outcome.
    async fn behind_a_storm_of_duplicates_each_event_has_its_own_outcome(db: TestDatabase) {
        let world = World::new(db).await;
        let storm = || -> Vec<NewEvent> { (0..8).map(|nth| world.event(&format!("known_{nth}"), "a")).collect() };
        let known: Vec<_> = world.insert(storm()).await.iter().map(Inserted::key).collect();
        let duplicates: Vec<_> = known.iter().map(|key| Duplicate(*key)).collect();
        for fresh in 0..4 {
            assert_eq!(world.insert(storm()).await, duplicates);
            let new: Vec<_> = (0..fresh).map(|nth| world.event(&format!("evt_{fresh}_{nth}"), "a")).collect();
            let other = world.event("known_0", &format!("b{fresh}"));
            let expected = new.iter().map(|event| Accepted(event.key)).chain([Conflict(other.key)]);
            let expected: Vec<_> = duplicates.iter().copied().chain(expected).collect();
            let mixed: Vec<_> = storm().into_iter().chain(new).chain([other]).collect();
            assert_eq!(world.insert(mixed.clone()).await, expected, "{fresh} new");
            // As after a lost answer: what is ours already is ours, and no duplicate.
            assert_eq!(words(&world.insert(storm()).await), words(&duplicates));
            let again: Vec<_> = mixed[..8 + fresh].to_vec();
            assert_eq!(world.insert(again).await, expected[..8 + fresh], "{fresh} repeated");
        }
        assert_eq!(world.count("ledger"), 8 + 6 + 4);
        world.check();
    }

    async fn what_contradicts_is_stored_beside_what_is_new(db: TestDatabase) {
        let world = World::new(db).await;
        let original = world.insert_one(world.event("known", "a")).await.key();
        let batch = [
            world.event("evt_1", "a"), world.event("known", "b"), world.event("evt_1", "b"), world.event("known", "a"),
        ];
        let keys = batch.each_ref().map(|event| event.key);
        let expected = [Accepted(keys[0]), Conflict(keys[1]), Conflict(keys[2]), Duplicate(original)];
        assert_eq!(world.insert(batch).await, expected);
        assert_eq!(world.count("events"), 4);
        world.check();
    }

    /// What one round trip answers is what a transaction answers on the same rows.
    async fn one_round_trip_and_a_transaction_agree(db: TestDatabase) {
        let world = World::new(db).await;
        let bodies = ["a", "a", "b", "a", "c", "b"];
        for round in 0..12_usize {
            let ids = |source: &str| -> Arc<[NewEvent]> {
                let id = |nth: usize| format!("evt_{}", (nth * 7 + round * 5) % 23);
                (0..20).map(|nth| world.event_of(source, &id(nth), bodies[(nth + round) % bodies.len()])).collect()
            };
            let at_once = world.insert(ids("at_once").iter().cloned()).await;
            let mut tx = world.store.begin().await.unwrap();
            let apart = insert_events(&mut tx, &ids("apart")).await.unwrap();
            committed(tx).await.unwrap();
            assert_eq!(words(&at_once), words(&apart), "round {round}");
        }
        let counts = world.query("select source, state, count(*) from {events} group by source, state order by state, source");
        assert!(counts.chunks(2).all(|pair| pair[0][1..] == pair[1][1..]), "{counts:?}");
        world.check();
    }
}

fn words(outcomes: &[Inserted]) -> Vec<&'static str> {
    outcomes.iter().map(Inserted::as_str).collect()
}
