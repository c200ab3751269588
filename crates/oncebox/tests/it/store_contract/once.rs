//! `once`: the primitive for applications that deduplicate in their own transaction.

use oncebox::Once;
use testkit::TestDatabase;

use crate::application::{self, End};
use crate::world::World;

async fn once(world: &World, scope: &str, id: &str) -> Once {
    application::once(&world.db, scope, &[id], End::Commit).await.unwrap()[0]
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
        let undone = application::once(&world.db, "stripe", &["evt_1", "evt_1"], End::RollBack).await.unwrap();
        assert_eq!(undone, [Once::Fresh, Once::Duplicate]);
        assert_eq!(once(&world, "stripe", "evt_1").await, Once::Fresh);
    }
}
