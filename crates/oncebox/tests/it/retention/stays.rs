//! Windows by source, and partitions: dropped with all but what is needed.

use oncebox::Clock;
use oncebox::gateway::retention;
use testkit::{Backend, TestDatabase};

use super::{DAY, LEDGER, PAYLOAD, aged, aging, check, has_payload, is_known, lock_is_free, now, run, stored, window};
use crate::world::{SOURCE, World, held};

testkit::contract! {
    async fn each_source_has_its_windows(db: TestDatabase) {
        let world = aging(db).await;
        let short = stored(&world, aged(&world, SOURCE, "a", PAYLOAD + DAY), "done").await;
        let long = stored(&world, aged(&world, "long", "a", PAYLOAD + DAY), "done").await;
        let longer = stored(&world, aged(&world, "long", "b", LEDGER + DAY), "done").await;
        let over = stored(&world, aged(&world, "long", "c", 61 * DAY), "done").await;
        let gone = stored(&world, aged(&world, "long", "d", 91 * DAY), "done").await;
        let removed = run(&world).await.removed;
        let payloads = [short, long, longer, over, gone];
        let mut there = Vec::new();
        for key in payloads {
            there.push((has_payload(&world, key).await, is_known(&world, key).await));
        }
        assert_eq!(there, [(false, true), (true, true), (true, true), (false, true), (false, false)]);
        assert_eq!(removed.iter().find(|(table, _)| *table == "payloads"), Some(("payloads", 3)));
        check(&world);
    }

    async fn a_source_that_left_the_config_keeps_its_windows(db: TestDatabase) {
        let world = aging(db).await;
        let key = stored(&world, aged(&world, "long", "a", PAYLOAD + DAY), "done").await;
        let windows = retention::Windows::new(window(LEDGER, PAYLOAD), []);
        world.store.register_windows(&windows.records()).await.unwrap();
        run(&world).await;
        assert!(has_payload(&world, key).await);
    }

    async fn more_than_a_slice(db: TestDatabase) {
        let world = aging(db).await;
        let events: Vec<_> = (0..2500).map(|n| aged(&world, SOURCE, &format!("evt_{n}"), LEDGER + DAY)).collect();
        for chunk in events.chunks(500) {
            world.insert(chunk.to_vec()).await;
        }
        world.db.execute(&format!("update {} set state = 'done'", world.db.table("deliveries")));
        let removed = run(&world).await.removed;
        let of = |name: &str| removed.iter().find(|(table, _)| *table == name).map_or(0, |(_, rows)| rows);
        assert_eq!((of("payloads"), of("ledger"), of("events"), of("deliveries")), (2500, 2500, 2500, 5000));
        assert_eq!(world.store.ledger_rows(10).await.unwrap().total(), 0);
    }

    async fn payloads_lie_in_the_partition_of_their_day(db: TestDatabase) {
        let world = aging(db).await;
        let windows = retention::Windows::new(window(LEDGER, PAYLOAD), []);
        retention::prepare(&world.store, &Clock::system(), &windows).await.unwrap();
        retention::prepare(&world.store, &Clock::system(), &windows).await.unwrap();
        let key = stored(&world, aged(&world, SOURCE, "a", 0), "done").await;
        assert!(has_payload(&world, key).await);
        if world.db.backend() == Backend::Postgres {
            assert_eq!(world.store.partitions().await.unwrap().len(), 3);
            assert_eq!(world.db.count("oncebox.payloads_rest"), 0);
        }
    }
}

/// A partition of one day that is over, full of events in the given states.
async fn old_day(world: &World, states: &[&str]) -> Vec<oncebox::gateway::event::EventKey> {
    let day = now() - 20 * DAY;
    let day = day - day.rem_euclid(DAY);
    let from = oncebox::gateway::event::EventKey::at(day);
    let to = oncebox::gateway::event::EventKey::at(day + DAY);
    let lock = world.store.lock_retention().await.unwrap().unwrap();
    let one = oncebox::gateway::store::Partition { name: "payloads_dold".to_owned(), from, to };
    assert_eq!(world.store.make_partition(&lock, &one).await.unwrap(), oncebox::gateway::store::Exclusive::Done);
    let mut keys = Vec::new();
    for (n, state) in states.iter().enumerate() {
        let event = aged(world, SOURCE, &format!("evt_{n}"), now() - day - 3_600_000);
        keys.push(match *state {
            "held" => stored(world, held(event), "held").await,
            state => stored(world, event, state).await,
        });
    }
    keys
}

#[tokio::test]
async fn a_partition_is_dropped_and_what_is_needed_moves() {
    let world = aging(TestDatabase::fresh(Backend::Postgres)).await;
    let keys = old_day(&world, &["done", "dead", "ready", "superseded", "held", "discarded", "claimed"]).await;
    assert_eq!(world.db.count("oncebox.payloads_dold"), 7);
    let run = run(&world).await;
    assert_eq!(run.removed.iter().find(|(table, _)| *table == "payloads"), Some(("payloads", 3)));
    let mut there = Vec::new();
    for key in keys {
        there.push(has_payload(&world, key).await);
    }
    assert_eq!(there, [false, true, true, false, true, false, true]);
    let partitions = world.store.partitions().await.unwrap();
    assert!(!partitions.iter().any(|one| one.name == "payloads_dold"), "{partitions:?}");
    assert_eq!(world.db.count("oncebox.payloads_rest"), 4);
    check(&world);
}

#[tokio::test]
async fn a_partition_in_use_is_dropped_later_and_nobody_waits() {
    let world = aging(TestDatabase::fresh(Backend::Postgres)).await;
    let keys = old_day(&world, &["done", "done"]).await;
    let url = world.db.url().to_owned();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    let reader = tokio::spawn(connection);
    client.batch_execute("begin; select count(*) from oncebox.payloads").await.unwrap();
    // The slices need no exclusive lock: what is over goes all the same.
    run(&world).await;
    assert!(!has_payload(&world, keys[0]).await);
    assert!(world.store.partitions().await.unwrap().iter().any(|one| one.name == "payloads_dold"));
    client.batch_execute("commit").await.unwrap();
    run(&world).await;
    assert!(!world.store.partitions().await.unwrap().iter().any(|one| one.name == "payloads_dold"));
    reader.abort();
    check(&world);
}

#[tokio::test]
async fn what_came_to_be_needed_after_the_look_moves_too() {
    let world = aging(TestDatabase::fresh(Backend::Postgres)).await;
    let keys = old_day(&world, &["done", "done"]).await;
    let looked_at = now() - 1000;
    let filter = oncebox::gateway::store::ActionFilter { handler: Some("billing".to_owned()), ..Default::default() };
    let kind = oncebox::gateway::store::ActionKind::Requeue;
    let requeue = oncebox::gateway::store::Action { id: "q".to_owned(), kind, filter, who: "ann".to_owned() };
    assert_eq!(world.store.requeue(&requeue, &keys[1..], now()).await.unwrap(), 1);
    let lock = world.store.lock_retention().await.unwrap().unwrap();
    let partitions = world.store.partitions().await.unwrap();
    let old = partitions.iter().find(|one| one.name == "payloads_dold").unwrap();
    world.store.drop_partition(&lock, old, &[], looked_at).await.unwrap();
    assert!(!has_payload(&world, keys[0]).await && has_payload(&world, keys[1]).await);
    check(&world);
}

#[tokio::test]
async fn one_node_at_a_time() {
    let world = aging(TestDatabase::fresh(Backend::Postgres)).await;
    let lock = world.store.lock_retention().await.unwrap().unwrap();
    assert!(matches!(super::try_run(&world.store).await, Err(retention::NotRun::Elsewhere)));
    drop(lock);
    lock_is_free(&world).await;
    assert!(super::try_run(&world.store).await.is_ok());
}
