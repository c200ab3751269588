//! Events whose identity cannot be made anew from their row: ids of several parts, which are shown with colons between
//! them, and signatures that cover something else than the bytes of the body.

use oncebox::gateway::store::{Action, ActionFilter, ActionKind, Depth, Inserted, NewEvent};
use oncebox_verify::{Fingerprint, Fingerprints, Identity, IdentityKind, OnRepeat, sha256};
use testkit::TestDatabase;

use crate::world::{NOW, SOURCE, World, fingerprinted};

/// An event whose id has several parts.
fn of_parts(world: &World, parts: &[&str]) -> NewEvent {
    let shown: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    let mut new = world.event(&shown.join(":"), &format!("{parts:?}"));
    let compared = parts.iter().flat_map(|part| [&part.len().to_be_bytes(), part.as_bytes()].concat());
    new.event.identity = Identity::of_id(SOURCE, &compared.collect::<Vec<u8>>());
    new
}

/// An event whose signature covers other bytes than the body's; the id is unsigned.
fn covered(world: &World, id: &str) -> NewEvent {
    let mut new = world.event(id, "a=1&b=2");
    let covered = sha256(b"https://hooks.example.com/a1b2");
    new.event.identity = Identity::of_id_and_body(SOURCE, id.as_bytes(), &covered);
    new.event.identity_kind = IdentityKind::IdAndBody;
    new.event.fingerprint = Some(Fingerprints::Bytes(Fingerprint::of_body(SOURCE, &covered)));
    new.event.on_repeat = OnRepeat::Hold;
    new
}

async fn forget(world: &World, filter: ActionFilter) -> i64 {
    let id = format!("forget {}", world.keys.make::<()>(NOW));
    let action = Action { id, kind: ActionKind::Forget, filter, who: "ann".to_owned() };
    let counted = world.store.count_action(ActionKind::Forget, &action.filter).await.unwrap();
    let acted = world.store.act(&action, None, NOW).await.unwrap();
    assert_eq!(counted, acted);
    acted
}

fn one(key: oncebox::gateway::event::EventKey) -> ActionFilter {
    ActionFilter { key: Some(key), ..ActionFilter::default() }
}

async fn faults(world: &World) -> Vec<String> {
    let found = world.store.inspect(Depth::All, |_| {}).await.unwrap();
    found.iter().flat_map(|finding| &finding.faults).map(|fault| format!("{} {}", fault.count, fault.what)).collect()
}

testkit::contract! {
    async fn events_are_found_by_the_id_that_is_shown(db: TestDatabase) {
        let world = World::new(db).await;
        let (first, second) = (of_parts(&world, &["urn:shop", "1"]), of_parts(&world, &["urn", "shop:1"]));
        let whole = world.event("urn:shop:1", "one part");
        let others = [of_parts(&world, &["urn:shop", "2"]), of_parts(&world, &["shop", "1"]), world.event_of("other", "urn:shop:1", "")];
        let alike = [first.key, second.key, whole.key];
        world.insert([first, second, whole].into_iter().chain(others)).await;
        let named = async |id: &str| {
            let found = world.store.events_named(SOURCE, id).await.unwrap();
            found.iter().map(|event| event.key).collect::<Vec<_>>()
        };
        assert_eq!(named("urn:shop:1").await, alike);
        assert_eq!(named("urn:shop").await, []);
        // A part that may be missing leaves no trace in what is shown.
        for parts in [["alert", ""], ["", "recovery"]] {
            let new = of_parts(&world, &parts);
            let key = world.insert_one(new).await.key();
            assert_eq!(named(&parts.concat()).await, [key], "{parts:?}");
        }
        world.check();
    }

    async fn what_cannot_be_made_anew_is_forgotten_whole(db: TestDatabase) {
        let world = World::new(db).await;
        for make in [|world: &World| of_parts(world, &["urn:shop", "1"]), |world: &World| covered(world, "token-1")] {
            let first = world.insert_one(make(&world)).await.key();
            assert!(world.store.is_remembered(first).await.unwrap());
            assert_eq!(world.insert_one(make(&world)).await, Inserted::Duplicate(first));
            assert_eq!(forget(&world, one(first)).await, 1);
            assert!(!world.store.is_remembered(first).await.unwrap());
            assert_eq!(forget(&world, one(first)).await, 0);
            let again = make(&world);
            let key = again.key;
            assert_eq!(world.insert_one(again).await, Inserted::Accepted(key), "neither referee knows it");
        }
    }

    async fn many_are_forgotten_at_once(db: TestDatabase) {
        let world = World::new(db).await;
        let all = |world: &World| {
            let joined = (0..40).map(|n| of_parts(world, &["urn:shop", &n.to_string()]));
            let plain = (0..40).map(|n| world.event(&format!("evt_{n}"), "{}"));
            joined.chain(plain).collect::<Vec<_>>()
        };
        world.insert(all(&world)).await;
        world.insert([world.event_of("other", "evt_1", "{}")]).await;
        assert_eq!(world.store.ledger_rows(1000).await.unwrap().total(), 81);
        let filter = ActionFilter { source: Some(SOURCE.to_owned()), ..ActionFilter::default() };
        assert_eq!(forget(&world, filter).await, 80);
        assert_eq!(world.count("ledger"), 1);
        let again = world.insert(all(&world)).await;
        assert!(again.iter().all(|one| matches!(one, Inserted::Accepted(_))), "{again:?}");
    }

    async fn other_names_of_an_event_are_forgotten_with_it(db: TestDatabase) {
        let world = World::new(db).await;
        let named = |id: &str| fingerprinted(world.event(id, "the same"), OnRepeat::Duplicate);
        let first = world.insert_one(named("a")).await.key();
        assert_eq!(world.insert_one(named("b")).await, Inserted::Duplicate(first));
        assert_eq!(forget(&world, one(first)).await, 1);
        let again = named("b");
        let key = again.key;
        assert_eq!(world.insert_one(again).await, Inserted::Accepted(key));
        assert_eq!(world.insert_one(named("a")).await, Inserted::Duplicate(key));
    }

    async fn an_inspection_knows_them(db: TestDatabase) {
        let world = World::new(db).await;
        let joined = of_parts(&world, &["urn:shop", "1"]);
        let mut in_conflict = joined.clone();
        (in_conflict.key, in_conflict.event.body_sha256) = (world.keys.make(NOW), sha256(b"other"));
        let missing = world.insert_one(joined).await.key();
        world.insert([in_conflict, covered(&world, "token-1"), world.event("a:b", "one part")]).await;
        assert_eq!(faults(&world).await, Vec::<String>::new());
        world.db.execute(&format!("delete from {} where key in (select key from {} where event_id = 'a:b')", world.db.table("ledger"), world.db.table("events")));
        assert_eq!(faults(&world).await, ["1 event without its identity"]);
        assert!(world.store.is_remembered(missing).await.unwrap());
    }
}
