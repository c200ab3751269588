//! The second referee: the same bytes under another identity.

use oncebox::event::Fingerprint;
use oncebox::store::Inserted::{Accepted, Duplicate, Held, Repeated};
use oncebox::store::NewEvent;
use oncebox::verdict::OnRepeat;
use testkit::TestDatabase;

use crate::world::{World, fingerprinted, typed, unsigned, varying};

testkit::contract! {
    async fn known_bytes_under_a_new_id_are_held(db: TestDatabase) {
        let world = World::new(db).await;
        let [first, second, third] = ids(&world, OnRepeat::Hold, ["a", "b", "c"]);
        let (original, repeat) = (first.key, second.key);
        assert_eq!(world.insert([first, second]).await, [Accepted(original), Held(repeat)]);
        assert_eq!(world.insert_one(third.clone()).await, Held(third.key));
        for key in [repeat, third.key] {
            let row = world.store.event(key).await.unwrap().unwrap();
            assert_eq!((row.state.as_str(), row.reason.as_deref(), row.original), ("held", Some("repeated_body"), Some(original)));
        }
        assert_eq!(world.query("select state, count(*) from {deliveries} group by state order by state"), [["held", "4"], ["ready", "2"]]);
        let [again] = ids(&world, OnRepeat::Hold, ["b"]);
        assert_eq!(world.insert_one(again).await, Duplicate(repeat));
        world.check();
    }

    async fn known_bytes_under_a_new_id_run_flagged(db: TestDatabase) {
        let world = World::new(db).await;
        let [first, second, third] = ids(&world, OnRepeat::Run, ["a", "b", "c"]);
        let (original, repeat) = (first.key, second.key);
        assert_eq!(world.insert_one(first).await, Accepted(original));
        assert_eq!(world.insert([second, third.clone()]).await, [Repeated(repeat), Repeated(third.key)]);
        let row = world.store.event(third.key).await.unwrap().unwrap();
        assert_eq!((row.state.as_str(), row.reason.as_deref(), row.original), ("accepted", Some("repeated_body"), Some(original)));
        assert_eq!(world.query("select state, count(*) from {deliveries} group by state"), [["ready", "6"]]);
        world.check();
    }

    async fn known_bytes_under_a_new_id_are_another_name_of_the_original(db: TestDatabase) {
        let world = World::new(db).await;
        let [first, second, third] = ids(&world, OnRepeat::Duplicate, ["a", "b", "c"]);
        let original = first.key;
        assert_eq!(world.insert([first, second]).await, [Accepted(original), Duplicate(original)]);
        assert_eq!(world.insert_one(third).await, Duplicate(original));
        for batch in [["a", "b", "c"], ["c", "c", "b"]] {
            assert_eq!(world.insert(ids(&world, OnRepeat::Duplicate, batch)).await, [Duplicate(original); 3]);
        }
        assert_eq!((world.count("events"), world.count("ledger"), world.count("deliveries")), (1, 3, 2));
        world.check();
    }

    async fn an_alias_with_another_body_contradicts_the_original(db: TestDatabase) {
        let world = World::new(db).await;
        let signed = |id: &str, body: &str| fingerprinted(world.event(id, body), OnRepeat::Duplicate);
        let original = world.insert_one(signed("a", "1")).await.key();
        assert_eq!(world.insert_one(signed("b", "1")).await, Duplicate(original));
        let conflict = world.insert_one(signed("b", "2")).await.key();
        let row = world.store.event(conflict).await.unwrap().unwrap();
        assert_eq!((row.state.as_str(), row.original), ("conflict", Some(original)));
        world.check();
    }

    async fn other_bytes_or_another_source_are_no_repeat(db: TestDatabase) {
        let world = World::new(db).await;
        let events = [("one", "a", "x"), ("one", "b", "y"), ("two", "a", "x")]
            .map(|(source, id, body)| unsigned(world.event_of(source, id, body), OnRepeat::Hold));
        let expected = events.each_ref().map(|event| Accepted(event.key));
        assert_eq!(world.insert(events).await, expected);
        world.check();
    }

    async fn bytes_of_another_type_are_no_repeat_where_types_share_bodies(db: TestDatabase) {
        let world = World::new(db).await;
        let events = [("a", "orders/create"), ("b", "orders/paid"), ("c", "orders/paid")].map(|(id, kind)| topic(&world, id, kind));
        let keys = events.each_ref().map(|event| event.key);
        assert_eq!(world.insert(events).await, [Accepted(keys[0]), Accepted(keys[1]), Held(keys[2])]);
        world.check();
    }

    /// The copy is never stored, so its type and bytes have not been seen: they must not stand in the way of the event
    /// that really brings them.
    async fn a_duplicate_leaves_no_fingerprint(db: TestDatabase) {
        let world = World::new(db).await;
        let original = world.insert_one(topic(&world, "a", "orders/create")).await.key();
        assert_eq!(world.insert_one(topic(&world, "a", "orders/paid")).await, Duplicate(original));
        world.check();
        let real = topic(&world, "b", "orders/paid");
        assert_eq!(world.insert_one(real.clone()).await, Accepted(real.key));

        let varies = |id: &str, body: &str| varying(fingerprinted(world.event(id, body), OnRepeat::Duplicate));
        let first = varies("c", "1");
        let other = varies("d", "2");
        let batch = [first.clone(), varies("c", "2"), other.clone()];
        assert_eq!(world.insert(batch).await, [Accepted(first.key), Duplicate(first.key), Accepted(other.key)]);
        world.check();
    }

    /// A conflict never runs, so its bytes under a good id must.
    async fn a_conflict_leaves_no_fingerprint(db: TestDatabase) {
        let world = World::new(db).await;
        let signed = |id: &str, body: &str| fingerprinted(world.event(id, body), OnRepeat::Duplicate);
        world.insert([signed("a", "1"), signed("a", "2")]).await;
        let good = signed("b", "2");
        assert_eq!(world.insert_one(good.clone()).await, Accepted(good.key));
        world.check();
    }
}

/// One body under several unsigned ids.
fn ids<const N: usize>(world: &World, on_repeat: OnRepeat, ids: [&str; N]) -> [NewEvent; N] {
    ids.map(|id| unsigned(world.event(id, "same"), on_repeat))
}

/// One body under an unsigned id and an unsigned type.
fn topic(world: &World, id: &str, kind: &str) -> NewEvent {
    let mut new = typed(unsigned(world.event(id, "same"), OnRepeat::Hold), kind);
    new.event.fingerprint = Some(Fingerprint::of_type_and_body(&new.source, kind, &new.event.body_sha256));
    new
}
