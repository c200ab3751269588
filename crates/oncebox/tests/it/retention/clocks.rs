//! Clocks that jump: nothing is deleted early, and nothing at all until a person confirmed the time.

use oncebox::Clock;
use oncebox::gateway::retention::{NotRun, Retention, Schedule, Settings, Windows};
use oncebox::gateway::store::Asked;
use testkit::{Backend, TestDatabase};

use super::{DAY, PAYLOAD, aged, aging, has_payload, now, parts, stored, window};
use crate::world::{SOURCE, World};

fn settings() -> Settings {
    let windows = Windows::new(window(super::LEDGER, PAYLOAD), []);
    Settings {
        windows,
        schedule: Schedule { every: Some(std::time::Duration::from_millis(20)), ..Schedule::default() },
    }
}

async fn stopped(world: &World) -> Option<String> {
    world.store.retention(now()).await.unwrap().stopped.map(|(_, why)| why)
}

async fn wait_for_stop(world: &World) -> String {
    loop {
        match stopped(world).await {
            Some(why) => return why,
            None => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
        }
    }
}

testkit::contract! {
    async fn a_day_forward_and_back_deletes_nothing_early(db: TestDatabase) {
        let world = aging(db).await;
        let over = stored(&world, aged(&world, SOURCE, "over", PAYLOAD + DAY), "done").await;
        let key = stored(&world, aged(&world, SOURCE, "young", PAYLOAD - DAY / 2), "done").await;
        let clock = Clock::manual(now());
        let running = Retention::start(parts(&world.store, clock.clone()), settings());
        running.handle().run().await.unwrap();
        assert!(!has_payload(&world, over).await && has_payload(&world, key).await);
        clock.jump(DAY);
        assert_eq!(wait_for_stop(&world).await, "this node's clock jumped forward by 24 hours");
        assert!(matches!(running.handle().run().await, Err(NotRun::Doubtful(_))));
        clock.jump(-DAY);
        assert!(matches!(running.handle().run().await, Err(NotRun::Doubtful(_))), "until a person says so");
        assert!(has_payload(&world, key).await);
        let asked = Asked { id: "c".to_owned(), who: "ann".to_owned(), at: now() };
        assert!(world.store.confirm_time(&asked).await.unwrap());
        let again = Asked { id: "d".to_owned(), ..asked };
        assert!(!world.store.confirm_time(&again).await.unwrap(), "there is nothing to confirm");
        running.handle().run().await.unwrap();
        assert!(has_payload(&world, key).await);
        running.stop().await;
        let log = world.store.actions_after(None, 10).await.unwrap();
        assert_eq!((log.len(), log[0].kind.as_str(), log[0].who.as_str()), (1, "confirm", "ann"));
    }

    async fn back_and_then_forward_deletes_nothing_early(db: TestDatabase) {
        let world = aging(db).await;
        let clock = Clock::manual(now());
        let running = Retention::start(parts(&world.store, clock.clone()), settings());
        running.handle().run().await.unwrap();
        clock.jump(-DAY);
        assert_eq!(wait_for_stop(&world).await, "this node's clock jumped back by 24 hours");
        // Stored meanwhile, under a key that looks a day older than it is.
        let key = stored(&world, aged(&world, SOURCE, "evt_1", PAYLOAD - DAY / 2 + DAY), "done").await;
        let _ = running.handle().run().await;
        clock.jump(DAY);
        assert!(matches!(running.handle().run().await, Err(NotRun::Doubtful(_))));
        let asked = Asked { id: "c".to_owned(), who: "ann".to_owned(), at: now() };
        assert!(world.store.confirm_time(&asked).await.unwrap());
        running.handle().run().await.unwrap();
        assert!(has_payload(&world, key).await, "the day that its clock was behind is taken off");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_jump_across_a_restart_is_noticed_by_the_uptime() {
    let world = aging(TestDatabase::fresh(Backend::Sqlite)).await;
    let boot = |uptime: i64| {
        let uptime = std::time::Duration::from_millis(uptime.unsigned_abs());
        std::sync::Arc::new(move || Some(oncebox::gateway::retention::Boot { id: "b".to_owned(), uptime }))
    };
    let start = |clock: Clock, uptime: i64| oncebox::gateway::retention::Parts {
        boot: boot(uptime),
        ..parts(&world.store, clock)
    };
    let once = async |parts| oncebox::gateway::retention::run_once(parts, Default::default()).await;
    once(start(Clock::manual(now()), 1000)).await.unwrap();
    once(start(Clock::manual(now() + DAY), DAY + 1000)).await.unwrap();
    let jumped = once(start(Clock::manual(now() + 3 * DAY), DAY + 2000)).await;
    assert!(matches!(jumped, Err(NotRun::Doubtful(_))), "{jumped:?}");
    assert_eq!(stopped(&world).await.as_deref(), Some("the clock jumped forward by 2 days"));
}

#[tokio::test]
async fn a_node_an_hour_behind_deletes_nothing_and_makes_the_others_wait() {
    let world = aging(TestDatabase::fresh(Backend::Postgres)).await;
    let key = stored(&world, aged(&world, SOURCE, "evt_1", PAYLOAD + 1000), "done").await;
    let behind = Clock::manual(now() - 3_600_000);
    let refused = oncebox::gateway::retention::run_once(parts(&world.store, behind), Default::default()).await;
    assert!(matches!(refused, Err(NotRun::Doubtful(_))), "{refused:?}");
    assert_eq!(stopped(&world).await, None, "it stops nobody else");
    super::run(&world).await;
    assert!(has_payload(&world, key).await, "what that node stored looks an hour older than it is");
}
