//! Filling a database with events of the past.

use bytes::Bytes;
use oncebox::event::sha256;
use oncebox::fault::Faults;
use oncebox::store::{Depth, Filled, Inserted, PastEvent};
use testkit::TestDatabase;

use crate::world::{NOW, World};

/// Events with these numbers; the even ones still have their payload.
fn past(world: &World, numbers: std::ops::Range<u64>) -> Vec<PastEvent> {
    let one = |number: u64| PastEvent {
        key: world.keys.make(NOW),
        source: "stripe".into(),
        event_id: format!("evt_{number}"),
        event_type: "invoice.paid".into(),
        body_sha256: sha256(number.to_string().as_bytes()),
        received_at: NOW,
        payload: number.is_multiple_of(2).then(|| Bytes::from(number.to_string())),
    };
    numbers.map(one).collect()
}

testkit::contract! {
    async fn a_slice_is_written_once(db: TestDatabase) {
        let world = World::new(db).await;
        assert_eq!(world.store.fill(past(&world, 0..50), "bench").await.unwrap(), Filled::Written);
        assert_eq!(world.store.fill(past(&world, 0..50), "bench").await.unwrap(), Filled::Known);
        assert_eq!(world.store.fill(past(&world, 40..60), "bench").await.unwrap(), Filled::Partly);
        assert_eq!(world.store.fill(Vec::new(), "bench").await.unwrap(), Filled::Known);
        let counts = ["ledger", "events", "payloads", "deliveries"].map(|table| world.count(table));
        assert_eq!(counts, [50, 50, 25, 50]);
        assert_eq!(world.query("select distinct state, handler, attempt from {deliveries}"), [["done", "bench", "1"]]);
        let again = world.insert_one(world.event_of("stripe", "evt_7", "7")).await;
        assert!(matches!(again, Inserted::Duplicate(_)), "{again:?}");
        let found = world.store.inspect(Depth::All, |_| {}).await.unwrap();
        assert!(found.iter().all(|one| one.faults.is_empty()), "{found:?}");
    }

    async fn a_slice_that_was_cut_off_left_nothing(db: TestDatabase) {
        let world = World::new(db).await;
        let cut = world.store.clone().with_faults(Faults::parse("store.commit=fail@1").unwrap());
        assert!(cut.fill(past(&world, 0..10), "bench").await.is_err());
        assert_eq!(world.count("ledger"), 0);
        assert_eq!(world.store.fill(past(&world, 0..10), "bench").await.unwrap(), Filled::Written);
    }

    async fn sizes_and_rows_are_known(db: TestDatabase) {
        let world = World::new(db).await;
        world.store.fill(past(&world, 0..500), "bench").await.unwrap();
        let rows = world.store.tier_rows().await.unwrap();
        assert_eq!((rows.ledger, rows.events, rows.payloads, rows.deliveries), (500, 500, 250, 500));
        let sizes = world.store.table_sizes().await.unwrap();
        for table in ["ledger", "events", "payloads", "deliveries"] {
            let size = sizes.iter().find(|size| size.table == table).unwrap();
            assert!(size.rows_bytes + size.index_bytes >= 8192, "{size:?}");
        }
        assert_eq!(world.store.log_position().await.unwrap().is_some(), world.store.kind() == "postgres");
    }
}
