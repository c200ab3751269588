//! The second referee: the same bytes under another identity.

use oncebox::gateway::store::Inserted::{Accepted, Conflict, Duplicate, Held, Repeated};
use oncebox::gateway::store::{Action, ActionFilter, ActionKind, NewEvent};
use oncebox_verify::{Fingerprint, Fingerprints, OnRepeat, Topic};
use testkit::TestDatabase;

use crate::world::{NOW, World, fingerprinted, typed, unsigned, varying};

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

    async fn what_one_delivery_was_signed_with_brings_one_event(db: TestDatabase) {
        let world = World::new(db).await;
        let make = |id: &str, body: &str, signed: &str| delivered(&world, id, body, signed, OnRepeat::Hold);
        let first = make("a", "1", "t-1");
        let original = first.key;
        assert_eq!(world.insert_one(first).await, Accepted(original));
        let forged = make("b", "2", "t-1");
        assert_eq!(world.insert_one(forged.clone()).await, Held(forged.key));
        let row = world.store.event(forged.key).await.unwrap().unwrap();
        assert_eq!((row.reason.as_deref(), row.original), (Some("repeated_delivery"), Some(original)));
        // A retry is signed anew, and what it was signed with is used up though it was a duplicate: in one batch or two.
        let (retry, forged) = (make("a", "1", "t-2"), make("c", "3", "t-2"));
        assert_eq!(world.insert([retry, forged.clone()]).await, [Duplicate(original), Held(forged.key)]);
        let (first, copy, forged) = (make("d", "4", "t-3"), make("d", "4", "t-4"), make("e", "5", "t-4"));
        assert_eq!(
            world.insert([first.clone(), copy, forged.clone()]).await,
            [Accepted(first.key), Duplicate(first.key), Held(forged.key)]
        );
        world.check();
    }

    /// What contradicts a known event never runs, and what it was signed with brings no other event, either: it waits for a
    /// person.
    async fn a_conflict_uses_up_its_delivery(db: TestDatabase) {
        let world = World::new(db).await;
        let make = |id: &str, body: &str, signed: &str| delivered(&world, id, body, signed, OnRepeat::Hold);
        world.insert_one(make("a", "1", "t-1")).await;
        assert!(matches!(world.insert_one(make("a", "2", "t-2")).await, Conflict(_)));
        let other = make("b", "3", "t-2");
        assert_eq!(world.insert_one(other.clone()).await, Held(other.key));
        world.check();
    }

    async fn a_repeated_delivery_does_what_the_operator_says(db: TestDatabase) {
        let world = World::new(db).await;
        let original = world.insert_one(delivered(&world, "a", "1", "t", OnRepeat::Hold)).await.key();
        let run = delivered(&world, "b", "2", "t", OnRepeat::Run);
        assert_eq!(world.insert_one(run.clone()).await, Repeated(run.key));
        let other = |signed: &str| delivered(&world, "c", "3", signed, OnRepeat::Duplicate);
        assert_eq!(world.insert([other("t"), other("u")]).await, [Duplicate(original); 2]);
        world.check();
    }

    async fn a_forgotten_event_may_come_again_with_all_that_it_brought(db: TestDatabase) {
        let world = World::new(db).await;
        let first = delivered(&world, "a", "1", "t-1", OnRepeat::Hold);
        let key = world.insert_one(first).await.key();
        let filter = ActionFilter { key: Some(key), ..ActionFilter::default() };
        let forget = Action { id: "f".to_owned(), kind: ActionKind::Forget, filter, who: "ann".to_owned() };
        assert_eq!(world.store.act(&forget, None, NOW).await.unwrap(), 1);
        assert_eq!(world.count("repeats"), 0);
        let again = delivered(&world, "a", "1", "t-1", OnRepeat::Hold);
        assert_eq!(world.insert_one(again.clone()).await, Accepted(again.key));
    }

    async fn types_that_nobody_signs_share_a_body_only_once_they_came_alone(db: TestDatabase) {
        let world = World::new(db).await;
        let make = |id: &str, kind: &str, body: &str| unlisted(&world, id, kind, body, NOW);
        let [first, invented, again] = [make("1", "create", "x"), make("2", "paid", "x"), make("3", "paid", "y")];
        let keys = [first.key, invented.key];
        assert_eq!(world.insert([first, invented]).await, [Accepted(keys[0]), Held(keys[1])]);
        let row = world.store.event(keys[1]).await.unwrap().unwrap();
        assert_eq!((row.reason.as_deref(), row.original), (Some("repeated_topic"), Some(keys[0])));
        // Not by being sent twice, nor with other captured bodies of the same batch.
        let [other, one, two] = [make("4", "create", "z"), make("5", "void", "x"), make("6", "void", "z")];
        let keys = [other.key, one.key, two.key];
        assert_eq!(world.insert([other, one, two]).await, [Accepted(keys[0]), Held(keys[1]), Held(keys[2])]);
        assert_eq!(world.insert_one(again.clone()).await, Accepted(again.key));
        let shares = make("7", "paid", "z");
        assert_eq!(world.insert_one(shares.clone()).await, Accepted(shares.key));
        world.check();
    }

    async fn a_body_has_few_types_and_they_come_soon(db: TestDatabase) {
        let world = World::new(db).await;
        let minute = 60_000;
        for kind in ["a", "b", "c", "d", "e", "f"] {
            let own = unlisted(&world, kind, kind, kind, NOW);
            assert_eq!(world.insert_one(own.clone()).await, Accepted(own.key));
        }
        let at = |id: &str, kind: &str, at: i64| unlisted(&world, id, kind, "shared", at);
        let first = at("1", "a", NOW);
        assert_eq!(world.insert_one(first.clone()).await, Accepted(first.key));
        let late = at("2", "b", NOW + 11 * minute);
        assert_eq!(world.insert_one(late.clone()).await, Held(late.key));
        let [one, two] = [at("3", "c", NOW + minute), at("4", "d", NOW + minute)];
        let keys = [one.key, two.key];
        assert_eq!(world.insert([one, two]).await, [Accepted(keys[0]), Accepted(keys[1])]);
        let [one, two] = [at("5", "e", NOW + 9 * minute), at("6", "f", NOW + 9 * minute)];
        let keys = [one.key, two.key];
        assert_eq!(world.insert([one, two]).await, [Accepted(keys[0]), Held(keys[1])]);
        world.check();
    }
}

/// One body under several unsigned ids.
fn ids<const N: usize>(world: &World, on_repeat: OnRepeat, ids: [&str; N]) -> [NewEvent; N] {
    ids.map(|id| unsigned(world.event(id, "same"), on_repeat))
}

/// One body under an unsigned id and an unsigned type that the operator listed.
fn topic(world: &World, id: &str, kind: &str) -> NewEvent {
    let mut new = unlisted(world, id, kind, "same", NOW);
    if let Some(Fingerprints::Topic(topic)) = &mut new.event.fingerprint {
        topic.topic = None;
    }
    new
}

/// A body under an unsigned id and an unsigned type, at a time.
fn unlisted(world: &World, id: &str, kind: &str, body: &str, at: i64) -> NewEvent {
    let mut new = typed(unsigned(world.event(id, body), OnRepeat::Hold), kind);
    let digest = new.event.body_sha256;
    (new.key, new.received_at) = (world.keys.make(at), at);
    new.event.fingerprint = Some(Fingerprints::Topic(Topic {
        pair: Fingerprint::of_type_and_body(&new.source, kind, &digest),
        body: Fingerprint::of_body(&new.source, &digest),
        topic: Some(Fingerprint::of_type(&new.source, kind)),
    }));
    new
}

/// An event whose delivery was signed with this.
fn delivered(world: &World, id: &str, body: &str, signed: &str, on_repeat: OnRepeat) -> NewEvent {
    let mut new = world.event(id, body);
    new.event.fingerprint = Some(Fingerprints::Delivery(Fingerprint::of_delivery(&new.source, signed.as_bytes())));
    new.event.on_repeat = on_repeat;
    new
}
