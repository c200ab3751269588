//! Deliveries that were lost with their worker are claimed apart: a few together once, then each alone.

use oncebox::gateway::event::NodeKey;
use oncebox::gateway::limits::LOST_TOGETHER_MAX;
use oncebox::gateway::store::Claimed;
use testkit::TestDatabase;

use super::{BILLING, claim, end_leases, fail, make_due, processing, want};
use crate::world::{NOW, World};

fn node() -> NodeKey {
    NodeKey::from_bytes([3; 16])
}

const EVENTS: usize = 40;

async fn claim_sound(world: &World) -> Vec<Claimed> {
    world.store.claim(&[want(BILLING, 100)], Some(node()), NOW).await.unwrap().claimed
}

async fn claim_lost(world: &World) -> Vec<Claimed> {
    world.store.claim_lost(&want(BILLING, 100), node(), NOW).await.unwrap().claimed
}

async fn lose(world: &World) {
    end_leases(world);
    world.store.expire_leases(NOW).await.unwrap();
    make_due(world);
}

testkit::contract! {
    async fn what_was_lost_is_claimed_apart(db: TestDatabase) {
        let world = processing(db).await;
        world.insert((0..EVENTS).map(|n| world.event(&format!("evt_{n}"), "{}"))).await;
        assert_eq!(claim_lost(&world).await.len(), 0, "nothing was lost yet");
        assert_eq!(claim_sound(&world).await.len(), EVENTS);
        lose(&world).await;
        let due = world.store.due(NOW).await.unwrap();
        assert!(due.lost.iter().any(|handler| handler == BILLING), "{due:?}");
        assert_eq!(claim_sound(&world).await.len(), 0, "those that were lost are not among the others");
        assert_eq!(claim_lost(&world).await.len(), LOST_TOGETHER_MAX, "once lost, a few together");
        lose(&world).await;
        // Sixteen were lost twice, the others once.
        assert_eq!(claim_lost(&world).await.len(), LOST_TOGETHER_MAX);
        assert_eq!(claim_lost(&world).await.len(), EVENTS - 2 * LOST_TOGETHER_MAX);
        for _ in 0..LOST_TOGETHER_MAX {
            assert_eq!(claim_lost(&world).await.len(), 1, "lost twice, each alone");
        }
        assert_eq!(claim_lost(&world).await.len(), 0);
    }

    async fn a_failure_in_words_ends_the_suspicion(db: TestDatabase) {
        let world = processing(db).await;
        world.insert_one(world.event("evt_1", "{}")).await;
        claim_sound(&world).await;
        lose(&world).await;
        let claimed = claim_lost(&world).await;
        fail(&world, claimed[0].fence, oncebox::gateway::delivery::Next::Retry { after: std::time::Duration::ZERO }).await;
        make_due(&world);
        assert_eq!(claim_lost(&world).await.len(), 0);
        assert_eq!(claim_sound(&world).await.len(), 1);
    }

    /// One of them may be what took the consumer with it.
    async fn consumers_outside_get_what_was_lost_alone(db: TestDatabase) {
        let world = processing(db).await;
        world.insert((0..EVENTS).map(|n| world.event(&format!("evt_{n}"), "{}"))).await;
        assert_eq!(claim(&world, 100).await.len(), EVENTS);
        lose(&world).await;
        world.insert_one(world.event("fresh", "{}")).await;
        for _ in 0..EVENTS {
            assert_eq!(claim(&world, 100).await.len(), 1, "each alone");
        }
        assert_eq!(claim(&world, 100).await.len(), 1, "the fresh one");
    }
}
