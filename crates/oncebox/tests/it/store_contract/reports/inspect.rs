//! Looking a database over: what is right is left alone, and each kind of fault is found.

use oncebox::gateway::delivery::Next;
use oncebox::gateway::event::EventKey;
use oncebox::gateway::store::{Action, ActionFilter, ActionKind, Depth};
use testkit::{Backend, TestDatabase};

use crate::store_contract::deliveries::{claim, fail, finish, processing};
use crate::world::{NOW, World, fingerprinted, held};
use oncebox_verify::OnRepeat;

/// What is wrong, as `count what`.
async fn faults(world: &World, depth: Depth) -> Vec<String> {
    let found = world.store.inspect(depth, |_| {}).await.unwrap();
    let faults = found.iter().flat_map(|finding| &finding.faults);
    faults.map(|fault| format!("{} {}", fault.count, fault.what)).collect()
}

/// An inbox in which everything has happened once.
async fn lively(db: TestDatabase) -> World {
    let world = processing(db).await;
    world.insert((0..6).map(|n| world.event(&format!("evt_{n}"), "{}"))).await;
    world.insert_one(world.event("evt_0", "other")).await;
    world.insert_one(held(world.event("odd", "x"))).await;
    world.insert([1, 2].map(|n| fingerprinted(world.event(&format!("same_{n}"), "same"), OnRepeat::Hold))).await;
    let claimed = claim(&world, 4).await;
    finish(&world, &[claimed[0].fence]).await;
    fail(&world, claimed[1].fence, Next::Dead).await;
    fail(&world, claimed[2].fence, Next::Held).await;
    world
}

testkit::contract! {
    async fn an_inbox_at_work_has_no_faults(db: TestDatabase) {
        let world = lively(db).await;
        for depth in [Depth::All, Depth::Newest(3)] {
            assert_eq!(faults(&world, depth).await, Vec::<String>::new());
        }
        let looked_at = |depth| { let store = world.store.clone(); async move {
            let found = store.inspect(depth, |_| {}).await.unwrap();
            found.iter().find(|one| one.check == "events").unwrap().looked_at
        } };
        assert_eq!((looked_at(Depth::All).await, looked_at(Depth::Newest(3)).await), (10, 3));
        let forget = Action {
            id: "f".to_owned(),
            kind: ActionKind::Forget,
            filter: ActionFilter { source: Some("src".to_owned()), ..ActionFilter::default() },
            who: "ann".to_owned(),
        };
        world.store.act(&forget, None, NOW).await.unwrap();
        assert_eq!(faults(&world, Depth::All).await, Vec::<String>::new(), "dropped identities are no fault");
    }

    async fn each_kind_of_fault_is_found(db: TestDatabase) {
        let world = lively(db).await;
        let run = |sql: &str| world.db.execute(&sql.replace('{', &world.db.table("")).replace('}', ""));
        run("update {deliveries} set token = null where state = 'claimed'");
        run("update {deliveries} set finished_at_ms = null where state in ('done', 'dead')");
        assert_eq!(faults(&world, Depth::All).await, ["1 delivery claimed without a lease", "2 delivery ended without a time"]);
        run("update {deliveries} set state = 'ready'");
        run("delete from {ledger} where key in (select key from {events} where event_id = 'evt_3')");
        assert_eq!(faults(&world, Depth::All).await, ["1 event without its identity"]);
        run("delete from {events} where event_id = 'evt_4'");
        let expected = [
            "1 event without its identity",
            "1 identity without its event",
            "1 payload without its event",
            "2 delivery without its event",
        ];
        assert_eq!(faults(&world, Depth::All).await, expected);
        let key = match world.db.backend() {
            Backend::Sqlite => "x'00000000000070008000000000000001'",
            Backend::Postgres => "'00000000-0000-7000-8000-000000000001'",
        };
        run(&format!("insert into {{arrivals}} (key, count, last_at_ms, recent) values ({key}, 1, 1, '')"));
        assert!(faults(&world, Depth::All).await.contains(&"1 arrivals without their event".to_owned()));
        run(&format!("insert into {{outbox}} (id, destination, size, due_at_ms, created_at_ms) values ({key}, 'crm', 1, 1, 1)"));
        assert!(faults(&world, Depth::All).await.contains(&"1 message without contents".to_owned()));
    }

    async fn a_schema_that_lacks_something_is_told(db: TestDatabase) {
        let world = World::new(db).await;
        let index = world.db.table("deliveries_ready");
        world.db.execute(&format!("drop index {index}"));
        assert_eq!(faults(&world, Depth::Newest(1)).await, ["1 index missing"]);
        let (kind, drop) = match world.db.backend() {
            Backend::Sqlite => ("view", "drop view oncebox_outbox_v1"),
            Backend::Postgres => ("function", "drop function oncebox.give_back"),
        };
        world.db.execute(drop);
        let found = faults(&world, Depth::Newest(1)).await;
        assert!(found.len() == 2 && found.contains(&format!("1 {kind} missing")), "{found:?}");
        world.db.execute(&format!("delete from {}", world.db.table("repeatables")));
        assert_eq!(faults(&world, Depth::Newest(1)).await, ["1 index missing", "1 migration not applied"]);
        assert_eq!(world.store.migrate().await.unwrap(), 1);
        assert_eq!(faults(&world, Depth::Newest(1)).await, ["1 index missing"]);
    }

    async fn an_empty_database_is_no_inbox(db: TestDatabase) {
        let store = crate::world::open(&db).await.unwrap();
        let found = store.inspect(Depth::All, |_| {}).await.unwrap();
        let faults: Vec<_> = found.iter().flat_map(|one| &one.faults).map(|fault| fault.what.as_str()).collect();
        assert_eq!(faults, ["migration not applied"]);
    }

    async fn the_ledger_tells_whose_an_identity_is(db: TestDatabase) {
        let world = World::new(db).await;
        let event = world.event("evt_1", "a");
        world.insert_one(event.clone()).await;
        let other = world.event("evt_2", "a");
        let keys = world.store.ledger_keys(&[other.event.identity, event.event.identity]).await.unwrap();
        assert_eq!(keys, [None::<EventKey>, Some(event.key)]);
    }
}
