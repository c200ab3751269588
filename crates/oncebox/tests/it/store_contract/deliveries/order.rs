//! One at a time per key, newest version only, one change once, prerequisites.

use std::time::Duration;

use oncebox::gateway::delivery::Next;
use oncebox::gateway::delivery::order::{Revision, order_key};
use oncebox::gateway::delivery::routing::NewDelivery;
use oncebox::gateway::event::{Key, Mark};
use oncebox::gateway::store::{Aged, Change, Fenced, Finished, NewEvent, OnDead, Prerequisite, Version};
use oncebox_verify::BodyPointer;
use testkit::{Backend, TestDatabase};

use super::{BILLING, claim, fail, finish, make_due, processing, register, states};
use crate::world::{NOW, World, committed};

fn serial(world: &World, id: &str, key: &str) -> NewEvent {
    let mut event = world.event(id, "{}");
    event.handlers = vec![NewDelivery { handler: BILLING.into(), order_key: Some(order_key(key)) }];
    event
}

async fn ids(world: &World, limit: usize) -> Vec<String> {
    let mut ids: Vec<_> = claim(world, limit).await.into_iter().map(|one| one.event_id).collect();
    ids.sort();
    ids
}

async fn newer(world: &World, version: impl Into<Revision>, or_equal: bool) -> Version {
    let mut tx = world.store.begin().await.unwrap();
    let answer = tx.newer(BILLING, order_key("sub_1"), version, or_equal, NOW).await.unwrap();
    committed(tx).await.unwrap();
    answer
}

async fn once_per(world: &World, mark: u8, delivery: u8, now: i64) -> Change {
    let mut tx = world.store.begin().await.unwrap();
    let (mark, delivery) = (Key::from_bytes([mark; 16]), Key::from_bytes([delivery; 16]));
    let answer = tx.once_per(mark, delivery, Duration::from_secs(600), now).await.unwrap();
    committed(tx).await.unwrap();
    answer
}

testkit::contract! {
    async fn one_at_a_time_per_key_in_the_order_of_arrival(db: TestDatabase) {
        let world = processing(db).await;
        world.insert(["a1", "a2", "a3", "b1", "b2"].map(|id| serial(&world, id, &id[..1]))).await;
        for expected in [&["a1", "b1"][..], &["a2", "b2"], &["a3"], &[]] {
            let claimed = claim(&world, 10).await;
            let mut names: Vec<_> = claimed.iter().map(|one| one.event_id.as_str()).collect();
            names.sort_unstable();
            assert_eq!(names, expected);
            assert_eq!(claim(&world, 10).await.len(), 0, "the keys are busy");
            let fences: Vec<_> = claimed.iter().map(|one| one.fence).collect();
            assert_eq!(finish(&world, &fences).await, Finished::All);
        }
    }

    async fn a_retry_blocks_its_own_key_only(db: TestDatabase) {
        let world = processing(db).await;
        world.insert(["a1", "a2"].map(|id| serial(&world, id, &id[..1]))).await;
        let first = claim(&world, 1).await;
        assert_eq!(first[0].event_id, "a1");
        world.insert_one(serial(&world, "b1", "b")).await;
        fail(&world, first[0].fence, Next::Retry { after: Duration::from_secs(3600) }).await;
        assert_eq!(ids(&world, 10).await, ["b1"]);
        make_due(&world);
        assert_eq!(ids(&world, 10).await, ["a1"]);
    }

    async fn a_late_event_of_a_busy_key_waits(db: TestDatabase) {
        let world = processing(db).await;
        let early = serial(&world, "a1", "a");
        world.insert_one(serial(&world, "a2", "a")).await;
        assert_eq!(ids(&world, 10).await, ["a2"]);
        world.insert_one(early).await;
        assert_eq!(claim(&world, 10).await.len(), 0, "another of its key is claimed");
    }

    async fn a_dead_one_is_skipped_or_blocks_as_asked(db: TestDatabase) {
        let world = processing(db).await;
        world.insert(["a1", "a2"].map(|id| serial(&world, id, "a"))).await;
        let first = claim(&world, 10).await;
        fail(&world, first[0].fence, Next::Dead).await;
        register(&world, OnDead::Block).await;
        assert_eq!(claim(&world, 10).await.len(), 0);
        register(&world, OnDead::Skip).await;
        assert_eq!(ids(&world, 10).await, ["a2"]);
    }

    async fn only_newer_versions_are_applied(db: TestDatabase) {
        let world = processing(db).await;
        assert_eq!(newer(&world, 5_i64, false).await, Version::Newer);
        assert_eq!(newer(&world, 5_i64, false).await, Version::Older);
        assert_eq!(newer(&world, 5_i64, true).await, Version::Newer);
        assert_eq!(newer(&world, 4_i64, true).await, Version::Older);
        assert_eq!(newer(&world, i64::MAX, false).await, Version::Newer);
        let mut tx = world.store.begin().await.unwrap();
        assert_eq!(tx.newer("mail", order_key("sub_1"), 1_i64, false, NOW).await.unwrap(), Version::Newer);
        drop(tx);
        assert_eq!(world.count("versions"), 1, "a version goes with its effect");
    }

    async fn versions_that_are_no_whole_numbers_are_compared(db: TestDatabase) {
        let world = processing(db).await;
        let pointer = BodyPointer::parse("/v").unwrap();
        for (version, expected) in [
            ("5", Version::Newer),
            ("5.5", Version::Newer),
            ("5", Version::Older),
            ("5.25", Version::Older),
            ("5.50", Version::Newer),
            (r#""5.500000000000000001""#, Version::Newer),
            ("6", Version::Newer),
            ("5.9", Version::Older),
            ("6.0", Version::Newer),
            (r#""1355517523.000006""#, Version::Newer),
            (r#""1355517523.000005""#, Version::Older),
            ("1731699999.5", Version::Newer),
            ("1731699999", Version::Older),
            ("9223372036854775807", Version::Newer),
            ("100000000000000000000", Version::Newer),
            ("10000000000000000000", Version::Older),
            ("1e20", Version::Newer),
            ("100000000000000000000.5", Version::Newer),
            ("100000000000000000000", Version::Older),
            ("9223372036854775807", Version::Older),
            ("100000000000000000001", Version::Newer),
        ] {
            let revision = Revision::read(&pointer, format!(r#"{{"v":{version}}}"#).as_bytes()).unwrap();
            assert_eq!(newer(&world, revision, true).await, expected, "{version}");
        }
    }

    async fn a_version_is_not_newer_than_itself(db: TestDatabase) {
        let world = processing(db).await;
        for (version, expected) in [("5.5", Version::Newer), ("5.5", Version::Older), ("5.6", Version::Newer)] {
            assert_eq!(newer(&world, Revision::parse(version).unwrap(), false).await, expected, "{version}");
        }
    }

    async fn a_superseded_delivery_is_over(db: TestDatabase) {
        let world = processing(db).await;
        world.insert_one(world.event("evt_1", "{}")).await;
        let claimed = claim(&world, 1).await;
        let mut tx = world.store.begin().await.unwrap();
        assert_eq!(tx.supersede(claimed[0].fence, "older than 5", NOW).await.unwrap(), Fenced::Recorded);
        committed(tx).await.unwrap();
        assert_eq!(states(&world), [["superseded", "1"]]);
    }

    async fn a_change_counts_once_within_its_window(db: TestDatabase) {
        let world = processing(db).await;
        assert_eq!(once_per(&world, 1, 1, NOW).await, Change::First);
        assert_eq!(once_per(&world, 1, 1, NOW).await, Change::First);
        assert_eq!(once_per(&world, 1, 2, NOW).await, Change::Again);
        assert_eq!(once_per(&world, 2, 2, NOW).await, Change::First);
        world.db.execute(&format!("update {} set until_ms = 1", world.db.table("changes")));
        assert_eq!(once_per(&world, 1, 2, NOW).await, Change::First);
    }

    async fn who_waits_is_woken_by_what_it_waits_for(db: TestDatabase) {
        let world = processing(db).await;
        let mark = Mark::from_bytes([3; 16]);
        let within = Duration::from_secs(600);
        world.insert_one(world.event("evt_1", "{}")).await;
        let claimed = claim(&world, 1).await;
        let mut tx = world.store.begin().await.unwrap();
        assert_eq!(tx.wait_for(claimed[0].fence, mark, within, NOW).await.unwrap(), Prerequisite::Waiting);
        committed(tx).await.unwrap();
        assert_eq!((states(&world), claim(&world, 1).await.len()), (vec![vec!["ready".into(), "0".into()]], 0));
        let mut tx = world.store.begin().await.unwrap();
        assert_eq!(tx.wait_for(claimed[0].fence, mark, within, NOW).await.unwrap(), Prerequisite::LeaseLost);
        tx.prerequisite_done(mark, NOW).await.unwrap();
        committed(tx).await.unwrap();
        let claimed = claim(&world, 1).await;
        assert_eq!(claimed[0].attempt, 1);
        let mut tx = world.store.begin().await.unwrap();
        assert_eq!(tx.wait_for(claimed[0].fence, mark, within, NOW).await.unwrap(), Prerequisite::Done);
    }

    async fn waiting_ends_at_the_deadline(db: TestDatabase) {
        let world = processing(db).await;
        world.insert_one(world.event("evt_1", "{}")).await;
        world.db.execute(&format!("update {} set wait_until_ms = 1", world.db.table("deliveries")));
        let claimed = claim(&world, 1).await;
        let mut tx = world.store.begin().await.unwrap();
        let answer = tx.wait_for(claimed[0].fence, Mark::from_bytes([3; 16]), Duration::from_secs(600), NOW).await;
        assert_eq!(answer.unwrap(), Prerequisite::Overdue);
    }

    async fn a_done_prerequisite_is_kept(db: TestDatabase) {
        let world = processing(db).await;
        let (done, wanted, waited) = (Mark::from_bytes([3; 16]), Mark::from_bytes([4; 16]), Mark::from_bytes([5; 16]));
        let within = Duration::from_secs(600);
        world.insert(["evt_1", "evt_2"].map(|id| world.event(id, "{}"))).await;
        let claimed = claim(&world, 2).await;
        let mut tx = world.store.begin().await.unwrap();
        tx.prerequisite_done(done, NOW).await.unwrap();
        for (claim, mark) in claimed.iter().zip([wanted, waited]) {
            assert_eq!(tx.wait_for(claim.fence, mark, within, NOW).await.unwrap(), Prerequisite::Waiting);
        }
        committed(tx).await.unwrap();
        world.db.execute(&format!("update {} set waits_for = null where delivery = {}", world.db.table("deliveries"), key_text(&world, claimed[0].fence.delivery)));
        let late = 2 * oncebox::Clock::system().now();
        assert_eq!(world.store.remove_aged(Aged::Prerequisites, late, 100).await.unwrap(), 1, "the one that nobody waits for");
        let claimed = { make_due(&world); claim(&world, 2).await };
        let mut tx = world.store.begin().await.unwrap();
        assert_eq!(tx.wait_for(claimed[0].fence, done, within, NOW).await.unwrap(), Prerequisite::Done);
    }
}

fn key_text<K>(world: &World, key: Key<K>) -> String {
    match world.db.backend() {
        Backend::Sqlite => format!("x'{}'", key.to_string().replace('-', "")),
        Backend::Postgres => format!("'{key}'"),
    }
}
