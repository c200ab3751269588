//! What alerts keep: who was told what, what processes counted; and what a clean stop gives back.

use oncebox::Clock;
use oncebox::gateway::store::{NodeEntry, Told};
use testkit::{Backend, TestDatabase};

use super::deliveries::{processing, want};
use crate::world::{NOW, World};

fn told(condition: &str, since: i64, told_at: i64) -> Told {
    Told { receiver: "ops".to_owned(), condition: condition.to_owned(), since, told_at, value: Some(told_at) }
}

testkit::contract! {
    async fn what_was_told_is_kept_until_it_is_over(db: TestDatabase) {
        let world = World::new(db).await;
        let store = &world.store;
        assert_eq!(store.alerts().await.unwrap(), []);
        store.alert_told(&told("held", NOW, NOW)).await.unwrap();
        store.alert_told(&told("dead", NOW + 1, NOW + 1)).await.unwrap();
        // Told again: it began when it began.
        store.alert_told(&told("dead", NOW + 9, NOW + 9)).await.unwrap();
        let both = [told("dead", NOW + 1, NOW + 9), told("held", NOW, NOW)];
        assert_eq!(store.alerts().await.unwrap(), both);
        store.alert_over("ops", "dead").await.unwrap();
        store.alert_over("nobody", "held").await.unwrap();
        assert_eq!(store.alerts().await.unwrap(), [told("held", NOW, NOW)]);
    }

    async fn every_process_shares_its_counts_until_it_is_long_gone(db: TestDatabase) {
        let world = World::new(db).await;
        let (one, other) = (world.keys.make(NOW), world.keys.make(NOW));
        world.store.report_counts(one, "{}", NOW).await.unwrap();
        world.store.report_counts(other, "{\"rejected\":1}", NOW).await.unwrap();
        world.store.report_counts(other, "{\"rejected\":2}", NOW).await.unwrap();
        let reports = world.store.node_counts(NOW + 5_000).await.unwrap();
        let counts: Vec<_> = reports.iter().map(|report| (report.node, report.counts.as_str())).collect();
        assert_eq!(counts, [(one, "{}"), (other, "{\"rejected\":2}")]);
        if world.db.backend() == Backend::Sqlite {
            assert_eq!(reports[0].age_ms, 5_000);
        }
        world.db.execute(&format!("update {} set at_ms = at_ms - 3600001", world.db.table("node_counts")));
        world.store.report_counts(other, "{}", NOW).await.unwrap();
        assert_eq!(world.store.node_counts(NOW).await.unwrap().len(), 1);
    }

    async fn the_database_tells_its_time(db: TestDatabase) {
        let world = World::new(db).await;
        let store = &world.store;
        let now = Clock::system().now();
        let theirs = store.database_time(now).await.unwrap();
        assert!((theirs - now).abs() < 10_000, "{theirs} {now}");
    }

    async fn a_stop_gives_back_all_that_the_process_has_and_nothing_else(db: TestDatabase) {
        let world = processing(db).await;
        let ours = NodeEntry { name: "us/1".to_owned(), node: world.keys.make(NOW) };
        let theirs = NodeEntry { name: "them/1".to_owned(), node: world.keys.make(NOW) };
        world.insert(["a", "b", "c"].map(|id| world.event(id, "{}"))).await;
        let now = Clock::system().now();
        for (node, limit) in [(Some(ours.node), 1), (Some(theirs.node), 1), (None, 1)] {
            assert_eq!(world.store.claim(&[want("billing", limit)], node, now).await.unwrap().claimed.len(), 1);
        }
        assert_eq!(world.store.give_back_all(ours.node, now).await.unwrap(), 1);
        assert_eq!(world.store.give_back_all(ours.node, now).await.unwrap(), 0);
        let rows = world.query("select state, attempt, count(*) from {deliveries} where handler = 'billing' group by state, attempt order by state");
        assert_eq!(rows, [["claimed", "1", "2"], ["ready", "0", "1"]]);
    }
}
