//! `once`: the primitive for applications that deduplicate in their own transaction.

use oncebox::store::Once;
use testkit::TestDatabase;

use crate::world::{NOW, World, committed};

async fn once(world: &World, scope: &str, id: &str) -> Once {
    let mut tx = world.store.begin().await.unwrap();
    let outcome = tx.once(scope, id, NOW).await.unwrap();
    committed(tx).await.unwrap();
    outcome
}

testkit::contract! {
    async fn the_first_is_fresh_and_the_rest_are_not(db: TestDatabase) {
        let world = World::new(db).await;
        assert_eq!(once(&world, "stripe", "evt_1").await, Once::Fresh);
        for _ in 0..3 {
            assert_eq!(once(&world, "stripe", "evt_1").await, Once::Duplicate);
        }
        for (scope, id) in [("github", "evt_1"), ("stripe", "evt_2"), ("stripeevt", "_1"), ("stripe", "EVT_1"), ("stripe", "evt_1 ")] {
            assert_eq!(once(&world, scope, id).await, Once::Fresh, "{scope} {id}");
        }
        assert_eq!((world.count("remembered"), world.count("ledger")), (6, 0));
    }

    async fn what_rolls_back_was_never_there(db: TestDatabase) {
        let world = World::new(db).await;
        let mut tx = world.store.begin().await.unwrap();
        assert_eq!(tx.once("stripe", "evt_1", NOW).await.unwrap(), Once::Fresh);
        assert_eq!(tx.once("stripe", "evt_1", NOW).await.unwrap(), Once::Duplicate);
        drop(tx);
        assert_eq!(once(&world, "stripe", "evt_1").await, Once::Fresh);
    }
}
