//! Claiming, finishing, failing, leases.

mod claims;
mod effects;
mod lost;
mod order;
mod time;

use std::time::Duration;

use oncebox::RetryPolicy;
use oncebox::gateway::delivery::Next;
use oncebox::gateway::event::{LeaseToken, NodeKey};
use oncebox::gateway::store::{
    Claimed, DeliveryFilter, Failure, Fence, Fenced, Finished, HandlerFacts, NodeEntry, OnDead, Want,
};
use testkit::{Backend, TestDatabase};

use crate::world::{HANDLERS, NOW, World, committed, open};

pub(crate) const LEASE: Duration = Duration::from_secs(60);
pub(crate) const BILLING: &str = HANDLERS[0];

/// A world whose handlers are registered with three attempts.
pub(crate) async fn processing(db: TestDatabase) -> World {
    let world = World::new(db).await;
    register(&world, OnDead::Skip).await;
    world
}

pub(crate) async fn register(world: &World, on_dead: OnDead) {
    let retry = RetryPolicy { attempts: 3, base: Duration::from_secs(1), cap: Duration::from_secs(9) };
    let facts = HANDLERS.map(|name| HandlerFacts { name: name.to_owned(), retry, lease: LEASE, on_dead });
    world.store.register_handlers(&facts).await.unwrap();
}

pub(super) fn want(handler: &str, limit: usize) -> Want {
    Want {
        handler: handler.to_owned(),
        limit,
        bytes: oncebox::gateway::limits::CLAIMED_BYTES_MAX,
        lease: LEASE,
        in_order: false,
        payload: true,
    }
}

pub(super) async fn claim(world: &World, limit: usize) -> Vec<Claimed> {
    let in_order = world.store.has_order_keys(BILLING).await.unwrap();
    world.store.claim(&[Want { in_order, ..want(BILLING, limit) }], None, NOW).await.unwrap().claimed
}

pub(super) async fn finish(world: &World, fences: &[Fence]) -> Finished {
    let mut tx = world.store.begin().await.unwrap();
    let finished = tx.finish(fences, NOW).await.unwrap();
    match finished {
        Finished::All => committed(tx).await.unwrap(),
        Finished::LeaseLost(_) => assert!(committed(tx).await.is_err(), "a lost lease must not commit"),
    }
    finished
}

pub(super) async fn fail(world: &World, fence: Fence, next: Next) -> Fenced {
    let failure = Failure { fence, next, error: "it broke".to_owned(), status: Some(500) };
    world.store.fail(&[failure], NOW).await.unwrap()[0]
}

/// State and attempt of the deliveries of the first handler, oldest first.
pub(crate) fn states(world: &World) -> Vec<Vec<String>> {
    world.query("select state, attempt from {deliveries} where handler = 'billing' order by key")
}

/// Lets every lease of the database be over.
pub(crate) fn end_leases(world: &World) {
    let deliveries = world.db.table("deliveries");
    world.db.execute(&format!("update {deliveries} set lease_until_ms = 1 where state = 'claimed'"));
}

/// Lets everything be due.
pub(crate) fn make_due(world: &World) {
    world.db.execute(&format!("update {} set due_at_ms = 1 where state = 'ready'", world.db.table("deliveries")));
}

fn now_then_later() -> Next {
    Next::Retry { after: Duration::from_secs(3600) }
}

testkit::contract! {
    async fn a_claim_brings_all_that_a_handler_needs(db: TestDatabase) {
        let world = processing(db).await;
        let event = world.event("evt_1", r#"{"a":1}"#);
        world.insert_one(event.clone()).await;
        let node = NodeKey::from_bytes([9; 16]);
        let claims = world.store.claim(&[want(BILLING, 10)], Some(node), NOW).await.unwrap();
        assert_eq!((claims.claimed.len(), claims.buried.len()), (1, 0));
        let one = &claims.claimed[0];
        assert_eq!((one.key, one.fence.delivery), (event.key, event.key.of_delivery(BILLING)));
        assert_eq!((one.source.as_str(), one.event_id.as_str(), one.event_type.as_str()), ("src", "evt_1", "invoice.paid"));
        assert_eq!((&one.body, &one.headers, one.received_at), (&event.event.body, &event.headers, NOW));
        assert_eq!((one.attempt, one.attempts_before, one.order_key), (1, 0, None));
        assert!(one.lease_until > one.due_at);
        assert_eq!(claim(&world, 10).await.len(), 0, "it is claimed");
        assert_eq!(finish(&world, &[one.fence]).await, Finished::All);
        assert_eq!(states(&world), [["done", "1"]]);
        assert!(world.store.was_finished(one.fence).await.unwrap());
        assert_eq!(finish(&world, &[one.fence]).await, Finished::LeaseLost(vec![one.fence.delivery]));
    }

    async fn limits_hold_for_each_handler_and_the_oldest_come_first(db: TestDatabase) {
        let world = processing(db).await;
        for n in 0..5 {
            world.insert_one(world.event(&format!("evt_{n}"), "a")).await;
        }
        let deliveries = world.db.table("deliveries");
        world.db.execute(&format!("update {deliveries} set due_at_ms = 2"));
        let oldest = world.query("select key from {deliveries} where handler = 'billing' order by key desc limit 1");
        let literal = match world.db.backend() {
            Backend::Sqlite => format!("x'{}'", oldest[0][0].trim_start_matches("\\x")),
            Backend::Postgres => format!("'{}'", oldest[0][0]),
        };
        world.db.execute(&format!("update {deliveries} set due_at_ms = 1 where key = {literal}"));
        let claims = world.store.claim(&[want(BILLING, 3), want("mail", 1), want("unknown", 9)], None, NOW).await.unwrap();
        let handlers: Vec<_> = claims.claimed.iter().map(|one| one.handler.as_str()).collect();
        assert_eq!(handlers.iter().filter(|name| **name == BILLING).count(), 3);
        assert_eq!(handlers.iter().filter(|name| **name == "mail").count(), 1);
        let first = claims.claimed.iter().find(|one| one.handler == BILLING).unwrap();
        assert_eq!(first.due_at, 1);
        let fences: Vec<_> = claims.claimed.iter().map(|one| one.fence).collect();
        assert_eq!(finish(&world, &fences).await, Finished::All);
    }

    async fn one_lost_lease_spoils_the_whole_finish(db: TestDatabase) {
        let world = processing(db).await;
        world.insert([world.event("evt_1", "a"), world.event("evt_2", "b")]).await;
        let claimed = claim(&world, 10).await;
        let stale = Fence { token: LeaseToken::from_bytes([1; 16]), ..claimed[1].fence };
        assert_eq!(finish(&world, &[claimed[0].fence, stale]).await, Finished::LeaseLost(vec![stale.delivery]));
        assert_eq!(states(&world), [["claimed", "1"], ["claimed", "1"]]);
    }

    async fn a_finish_past_the_lease_counts_until_somebody_else_claims(db: TestDatabase) {
        let world = processing(db).await;
        world.insert([world.event("evt_1", "a"), world.event("evt_2", "b")]).await;
        let first = claim(&world, 10).await;
        end_leases(&world);
        assert_eq!(finish(&world, &[first[0].fence]).await, Finished::All);
        assert!(world.store.leases_ended(NOW).await.unwrap());
        assert_eq!(world.store.expire_leases(NOW).await.unwrap().len(), 1);
        assert!(!world.store.leases_ended(NOW).await.unwrap());
        assert_eq!(world.store.expire_leases(NOW).await.unwrap(), []);
        let second = claim(&world, 10).await;
        assert_eq!((second.len(), second[0].attempt), (1, 2));
        assert!(matches!(finish(&world, &[first[1].fence]).await, Finished::LeaseLost(_)));
        assert_eq!(fail(&world, first[1].fence, Next::Dead).await, Fenced::LeaseLost);
        assert_eq!(world.store.extend(first[1].fence, LEASE, NOW).await.unwrap(), None);
        assert_eq!(world.store.give_back(&[first[1].fence], Duration::ZERO, NOW).await.unwrap(), [Fenced::LeaseLost]);
        assert_eq!(finish(&world, &[second[0].fence]).await, Finished::All);
        assert_eq!(states(&world), [["done", "1"], ["done", "2"]]);
    }

    async fn failures_wait_then_die_after_exactly_the_attempts(db: TestDatabase) {
        let world = processing(db).await;
        world.insert_one(world.event("evt_1", "a")).await;
        for attempt in 1..=3_u32 {
            make_due(&world);
            let claimed = claim(&world, 1).await;
            assert_eq!(claimed[0].attempt, attempt);
            let next = if attempt == 3 { Next::Dead } else { now_then_later() };
            assert_eq!(fail(&world, claimed[0].fence, next).await, Fenced::Recorded);
            assert_eq!(claim(&world, 1).await.len(), 0, "not due, or dead");
        }
        assert_eq!(states(&world), [["dead", "3"]]);
        let attempts = world.query("select attempt, outcome, status, error from {attempts} order by attempt");
        let row = |n: &str, outcome: &str| [n, outcome, "500", "it broke"].map(str::to_owned).to_vec();
        assert_eq!(attempts, [row("1", "failed"), row("2", "failed"), row("3", "dead")]);
    }

    async fn a_worker_that_always_dies_makes_a_dead_letter(db: TestDatabase) {
        let world = processing(db).await;
        world.insert_one(world.event("evt_1", "a")).await;
        for attempt in 1..=3_u32 {
            make_due(&world);
            assert_eq!(claim(&world, 1).await[0].attempt, attempt);
            end_leases(&world);
            let expired = world.store.expire_leases(NOW).await.unwrap();
            assert_eq!((expired.len(), expired[0].dead), (1, attempt == 3));
        }
        assert_eq!(states(&world), [["dead", "3"]]);
        assert_eq!(world.count("attempts"), 3);
    }

    async fn a_claim_beyond_the_budget_is_a_dead_letter(db: TestDatabase) {
        let world = processing(db).await;
        world.insert_one(world.event("evt_1", "a")).await;
        world.db.execute(&format!("update {} set attempt = 3", world.db.table("deliveries")));
        let claims = world.store.claim(&[want(BILLING, 1)], None, NOW).await.unwrap();
        assert_eq!((claims.claimed.len(), claims.buried.len()), (0, 1));
        assert_eq!(states(&world), [["dead", "3"]]);
        world.db.execute(&format!("update {} set state = 'ready', attempts_before = 3", world.db.table("deliveries")));
        assert_eq!(claim(&world, 1).await[0].attempt, 4);
    }

    async fn what_is_given_back_used_no_attempt(db: TestDatabase) {
        let world = processing(db).await;
        world.insert_one(world.event("evt_1", "a")).await;
        let claimed = claim(&world, 1).await;
        let back = world.store.give_back(&[claimed[0].fence], Duration::ZERO, NOW).await.unwrap();
        assert_eq!(back, [Fenced::Recorded]);
        assert_eq!(states(&world), [["ready", "0"]]);
        assert_eq!(claim(&world, 1).await[0].attempt, 1);
    }

    async fn a_lease_can_be_longer(db: TestDatabase) {
        let world = processing(db).await;
        world.insert_one(world.event("evt_1", "a")).await;
        let claimed = claim(&world, 1).await;
        let until = world.store.extend(claimed[0].fence, 10 * LEASE, NOW).await.unwrap().unwrap();
        assert!(until > claimed[0].lease_until);
    }

    async fn a_paused_handler_claims_nothing_on_any_node(db: TestDatabase) {
        let world = processing(db).await;
        world.insert_one(world.event("evt_1", "a")).await;
        assert!(world.pause(BILLING, true).await);
        assert!(!world.pause("nobody", true).await);
        assert_eq!(claim(&world, 1).await.len(), 0);
        register(&world, OnDead::Skip).await;
        assert!(world.store.handlers().await.unwrap().iter().any(|one| one.paused && one.facts.name == BILLING));
        assert_eq!(claim(&world, 1).await.len(), 0, "a restart does not resume it");
        assert!(world.pause(BILLING, false).await);
        assert_eq!(claim(&world, 1).await.len(), 1);
    }

    async fn only_the_claims_of_a_dead_process_are_reclaimed(db: TestDatabase) {
        let world = processing(db).await;
        let entry = |name: &str, n: u8| NodeEntry { name: name.to_owned(), node: NodeKey::from_bytes([n; 16]) };
        let (old, other, new) = (entry("a", 1), entry("b", 2), entry("a", 3));
        for (n, node) in [Some(&old), Some(&other), None].into_iter().enumerate() {
            if let Some(entry) = node {
                world.store.register_node(entry, NOW).await.unwrap();
            }
            world.insert_one(world.event(&format!("evt_{n}"), "a")).await;
            let node = node.map(|entry| entry.node);
            assert_eq!(world.store.claim(&[want(BILLING, 1)], node, NOW).await.unwrap().claimed.len(), 1);
        }
        world.store.register_node(&new, NOW).await.unwrap();
        let kin: Vec<_> = world.store.kin(&new).await.unwrap().into_iter().map(|kin| kin.node).collect();
        // The SQLite file has one server: whoever wrote into it before is dead, whatever its name.
        let expected = if world.db.backend() == Backend::Sqlite { vec![old.node, other.node] } else { vec![old.node] };
        assert_eq!(kin, expected);
        assert!(world.store.chores(&new, NOW).await.unwrap().has_kin);
        assert_eq!(world.store.reclaim(old.node, NOW).await.unwrap().len(), 1);
        assert_eq!(world.store.reclaim(old.node, NOW).await.unwrap(), []);
        assert!(!world.store.chores(&new, NOW).await.unwrap().has_kin);
        assert_eq!(states(&world), [["ready", "1"], ["claimed", "1"], ["claimed", "1"]]);
        assert_eq!(world.count("nodes"), 2);
    }

    async fn a_payload_that_is_gone_makes_a_dead_letter(db: TestDatabase) {
        let world = processing(db).await;
        world.insert_one(world.event("evt_1", "a")).await;
        world.db.execute(&format!("delete from {}", world.db.table("payloads")));
        let claims = world.store.claim(&[want(BILLING, 1)], None, NOW).await.unwrap();
        assert_eq!((claims.claimed.len(), claims.buried.len()), (0, 1));
        assert_eq!(states(&world), [["dead", "1"]]);
    }

    async fn deliveries_attempts_and_depths_are_shown(db: TestDatabase) {
        let world = processing(db).await;
        world.insert((0..3).map(|n| world.event(&format!("evt_{n}"), "a"))).await;
        let claimed = claim(&world, 2).await;
        fail(&world, claimed[0].fence, Next::Dead).await;
        let dead = DeliveryFilter { state: Some("dead".to_owned()), ..DeliveryFilter::default() };
        let page = world.store.deliveries(&dead, 10).await.unwrap();
        assert_eq!((page.items.len(), page.next), (1, None));
        assert_eq!(page.items[0].delivery.last_error.as_deref(), Some("it broke"));
        let mut filter = DeliveryFilter { handler: Some(BILLING.to_owned()), ..DeliveryFilter::default() };
        let mut seen = Vec::new();
        loop {
            let page = world.store.deliveries(&filter, 2).await.unwrap();
            seen.extend(page.items.into_iter().map(|line| line.event_id));
            filter.before = page.next;
            if page.next.is_none() {
                break;
            }
        }
        seen.sort();
        assert_eq!(seen, ["evt_0", "evt_1", "evt_2"]);
        let attempts = world.store.attempts(claimed[0].key).await.unwrap();
        assert_eq!((attempts.len(), attempts[0].status, attempts[0].handler.as_str()), (1, Some(500), BILLING));
        let mut depths: Vec<_> = world.store.queue_depths().await.unwrap().into_iter().map(|one| (one.name, one.state, one.count)).collect();
        depths.sort();
        let row = |name: &str, state: &str, count| (name.to_owned(), state.to_owned(), count);
        assert_eq!(depths, [row(BILLING, "claimed", 1), row(BILLING, "dead", 1), row(BILLING, "ready", 1), row("mail", "ready", 3)]);
    }

    async fn two_nodes_share_the_work_and_nothing_twice(db: TestDatabase) {
        let world = processing(db).await;
        world.insert((0..200).map(|n| world.event(&format!("evt_{n}"), "a"))).await;
        let (one, two) = (world.store.clone(), open(&world.db).await.unwrap());
        let work = async |store: oncebox::gateway::store::Store| {
            let mut seen = Vec::new();
            loop {
                let claimed = store.claim(&[want(BILLING, 7)], None, NOW).await.unwrap().claimed;
                if claimed.is_empty() {
                    return seen;
                }
                seen.extend(claimed.iter().map(|one| one.fence.delivery));
            }
        };
        let (mut first, second) = tokio::join!(work(one), work(two));
        first.extend(second);
        first.sort();
        first.dedup();
        assert_eq!(first.len(), 200);
    }
}

#[test]
fn a_node_lock_is_for_one_session() {
    testkit::database::run(Backend::Postgres, async |db: TestDatabase| {
        let world = World::new(db).await;
        let other = open(&world.db).await.unwrap();
        let lock = world.store.lock_node("a").await.unwrap().unwrap();
        assert!(lock.is_held());
        assert!(other.lock_node("a").await.unwrap().is_none());
        assert!(other.lock_node("b").await.unwrap().is_some());
        // A process by its key: gone only while no session holds its lock, and asking takes nothing from anybody.
        let node = NodeKey::from_bytes([7; 16]);
        let living = other.lock_node(&node.to_string()).await.unwrap().unwrap();
        assert!(!lock.proves_gone(node).await.unwrap());
        drop(living);
        while !lock.proves_gone(node).await.unwrap() {}
        assert!(lock.proves_gone(node).await.unwrap());
        assert!(other.lock_node(&node.to_string()).await.unwrap().is_some());
        drop(lock);
        let mut freed = other.lock_node("a").await.unwrap();
        for _ in 0..1000 {
            if freed.is_some() {
                return;
            }
            freed = other.lock_node("a").await.unwrap();
        }
        panic!("the lock outlived its session");
    });
}
