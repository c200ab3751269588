//! Inserting: what becomes of an event by what is there already, apart from repeated bytes (`repeated`).

mod arrivals;
mod arrived_secrets;
mod concurrent;
mod joined;
mod model;
mod one_trip;
mod repeated;

use oncebox::gateway::store::Inserted::{Accepted, Conflict, ConflictAgain, Duplicate, Held};
use testkit::TestDatabase;

use crate::world::{HANDLERS, World, held, varying};

testkit::contract! {
    async fn a_new_event_is_stored_whole(db: TestDatabase) {
        let world = World::new(db).await;
        let event = world.event("evt_1", "a");
        assert_eq!(world.insert_one(event.clone()).await, Accepted(event.key));
        let detail = world.store.event_detail(event.key).await.unwrap().unwrap();
        assert_eq!((detail.event.state.as_str(), detail.event.arrivals, detail.event.reason), ("accepted", 1, None));
        assert_eq!(detail.payload.unwrap().body, b"a");
        assert_eq!(states(&world), [["accepted", HANDLERS[0], "ready"], ["accepted", HANDLERS[1], "ready"]]);
        world.check();
    }

    async fn an_event_without_handlers_is_stored_all_the_same(db: TestDatabase) {
        let world = World::new(db).await;
        let mut event = world.event("evt_1", "");
        event.handlers.clear();
        assert_eq!(world.insert_one(event.clone()).await, Accepted(event.key));
        assert_eq!((world.count("events"), world.count("deliveries")), (1, 0));
        assert_eq!(world.store.payload(event.key).await.unwrap().unwrap().body, b"");
        world.check();
    }

    async fn an_empty_batch_is_nothing(db: TestDatabase) {
        let world = World::new(db).await;
        assert_eq!(world.insert([]).await, []);
        assert_eq!(world.count("ledger"), 0);
    }

    async fn a_copy_is_a_duplicate_in_the_same_batch_and_in_later_ones(db: TestDatabase) {
        let world = World::new(db).await;
        let [first, copy, later] = [(); 3].map(|()| world.event("evt_1", "a"));
        let key = first.key;
        assert_eq!(world.insert([first, copy]).await, [Accepted(key), Duplicate(key)]);
        assert_eq!(world.insert_one(later).await, Duplicate(key));
        assert_eq!((world.count("events"), world.count("ledger"), world.count("deliveries")), (1, 1, 2));
        world.check();
    }

    async fn batches_of_any_size_tell_each_event_its_own_outcome(db: TestDatabase) {
        let world = World::new(db).await;
        let known = world.insert_one(world.event("known", "a")).await.key();
        for size in 1..40 {
            let id = |nth: usize| if nth % 5 == 3 { "known".to_owned() } else { format!("evt_{size}_{nth}") };
            let events: Vec<_> = (0..size).map(|nth| world.event(&id(nth), "a")).collect();
            let expected: Vec<_> = events
                .iter()
                .enumerate()
                .map(|(nth, event)| if nth % 5 == 3 { Duplicate(known) } else { Accepted(event.key) })
                .collect();
            assert_eq!(world.insert(events).await, expected, "{size}");
        }
        world.check();
    }

    async fn another_body_is_one_conflict_however_often_it_comes(db: TestDatabase) {
        let world = World::new(db).await;
        let original = world.insert_one(world.event("evt_1", "a")).await.key();
        let other = world.event("evt_1", "b");
        let conflict = other.key;
        assert_eq!(world.insert([other, world.event("evt_1", "b")]).await, [Conflict(conflict), ConflictAgain(conflict)]);
        assert_eq!(world.insert_one(world.event("evt_1", "b")).await, ConflictAgain(conflict));
        assert_eq!(world.insert_one(world.event("evt_1", "a")).await, Duplicate(original));

        let row = world.store.event(conflict).await.unwrap().unwrap();
        assert_eq!((row.state.as_str(), row.original), ("conflict", Some(original)));
        assert_eq!(world.store.event(original).await.unwrap().unwrap().state, "accepted");
        assert_eq!(world.store.payload(conflict).await.unwrap().unwrap().body, b"b");
        assert_eq!((world.count("events"), world.count("deliveries")), (2, 2));
        world.check();
    }

    async fn each_other_body_is_a_conflict_of_its_own(db: TestDatabase) {
        let world = World::new(db).await;
        let events = ["a", "b", "c", "b", "a"].map(|body| world.event("evt_1", body));
        let keys = events.each_ref().map(|event| event.key);
        let expected = [
            Accepted(keys[0]), Conflict(keys[1]), Conflict(keys[2]), ConflictAgain(keys[1]), Duplicate(keys[0]),
        ];
        assert_eq!(world.insert(events).await, expected);
        assert_eq!(world.count("events"), 3);
        world.check();
    }

    async fn a_body_that_may_vary_is_a_duplicate(db: TestDatabase) {
        let world = World::new(db).await;
        let original = world.insert_one(varying(world.event("evt_1", "try 1"))).await.key();
        let again = ["try 2", "try 3"].map(|body| varying(world.event("evt_1", body)));
        assert_eq!(world.insert(again).await, [Duplicate(original); 2]);
        assert_eq!(world.count("events"), 1);
        assert_eq!(world.store.payload(original).await.unwrap().unwrap().body, b"try 1");
        world.check();
    }

    async fn a_held_event_waits_and_comes_again_as_a_duplicate(db: TestDatabase) {
        let world = World::new(db).await;
        let event = held(world.event("body_00", "?"));
        let key = event.key;
        assert_eq!(world.insert([event, held(world.event("body_00", "?"))]).await, [Held(key), Duplicate(key)]);
        assert_eq!(world.insert_one(held(world.event("body_00", "?"))).await, Duplicate(key));
        assert_eq!(states(&world), [["held", HANDLERS[0], "held"], ["held", HANDLERS[1], "held"]]);
        assert_eq!(world.store.event(key).await.unwrap().unwrap().reason.as_deref(), Some("no_id"));
        world.check();
    }

    async fn the_same_id_in_two_sources_is_two_events(db: TestDatabase) {
        let world = World::new(db).await;
        let pair = ["one", "two"].map(|source| world.event_of(source, "evt_1", "a"));
        let keys = pair.each_ref().map(|event| event.key);
        assert_eq!(world.insert(pair).await, keys.map(Accepted));
        world.check();
    }

    async fn ids_are_compared_as_bytes(db: TestDatabase) {
        let world = World::new(db).await;
        // The two é differ in their bytes only; the last two pairs would meet if parts were joined without lengths.
        let names = [
            ("s", "evt"), ("s", "EVT"), ("s", "evt "), ("s", " evt"), ("s", "\u{e9}"), ("s", "e\u{301}"),
            ("s", "evt\u{200b}"), ("s", "1"), ("s", "01"), ("a", "b:c"), ("a:b", "c"), ("ab", "c"), ("a", "bc"),
        ];
        let events: Vec<_> = names.iter().map(|(source, id)| world.event_of(source, id, "same")).collect();
        let expected: Vec<_> = events.iter().map(|event| Accepted(event.key)).collect();
        assert_eq!(world.insert(events).await, expected);
        let again: Vec<_> = names.iter().map(|(source, id)| world.event_of(source, id, "same")).collect();
        let duplicates: Vec<_> = expected.iter().map(|one| Duplicate(one.key())).collect();
        assert_eq!(world.insert(again).await, duplicates);
        for ((source, id), stored) in names.iter().zip(&expected) {
            let found = world.store.events_named(source, id).await.unwrap();
            assert_eq!(found.iter().map(|event| event.key).collect::<Vec<_>>(), [stored.key()], "{source} {id:?}");
        }
        world.check();
    }

    async fn odd_text_and_every_byte_come_back_as_they_were(db: TestDatabase) {
        let world = World::new(db).await;
        let id = "quote ' \" \\ back, % _ !, \u{1F4B6}\u{202E}, tab\t, new\nline, $1 ?1 {} , \u{7f}";
        let mut event = world.event(id, "");
        event.event.body = (0..=255).collect::<Vec<u8>>().into();
        event.event.body_sha256 = oncebox_verify::sha256(&event.event.body);
        event.headers = vec![0, 255, b'\n'].into();
        let key = world.insert_one(event.clone()).await.key();
        assert_eq!(world.store.event(key).await.unwrap().unwrap().event_id, id);
        let payload = world.store.payload(key).await.unwrap().unwrap();
        assert_eq!((payload.body.as_slice(), payload.headers.as_slice()), (&*event.event.body, &*event.headers));
        world.check();
    }

    async fn outcomes_of_a_large_batch_come_in_the_order_of_its_events(db: TestDatabase) {
        let world = World::new(db).await;
        // 2,000 events, 700 ids spread over them; the ids 0 to 99 come with two bodies.
        let body = |n: usize| if n % 700 < 100 && n >= 1400 { "other" } else { "same" };
        let events: Vec<_> = (0..2000).map(|n| world.event(&format!("evt_{}", n % 700), body(n))).collect();
        let keys: Vec<_> = events.iter().map(|event| event.key).collect();
        let outcomes = world.insert(events).await;
        for (n, outcome) in outcomes.iter().enumerate() {
            let expected = match n {
                0..700 => Accepted(keys[n]),
                1400..1500 => Conflict(keys[n]),
                _ => Duplicate(keys[n % 700]),
            };
            assert_eq!(*outcome, expected, "event {n}");
        }
        assert_eq!((world.count("events"), world.count("deliveries")), (800, 1400));
        world.check();
    }
}

/// State of the event, handler, state of the delivery.
fn states(world: &World) -> Vec<Vec<String>> {
    world.query(
        "select e.state, d.handler, d.state from {deliveries} d join {events} e on e.key = d.key order by d.handler",
    )
}
