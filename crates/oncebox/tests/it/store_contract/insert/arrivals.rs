//! Arrivals after the first: counted beside the event.

use oncebox::gateway::event::EventKey;
use oncebox::gateway::store::{ArrivalCount, ArrivalRecord};
use testkit::TestDatabase;

use crate::world::{NOW, World, no_key};

testkit::contract! {
    async fn counts_add_up_and_the_newest_come_first(db: TestDatabase) {
        let world = World::new(db).await;
        let key = world.insert_one(world.event("evt_1", "a")).await.key();
        let other = world.insert_one(world.event("evt_2", "a")).await.key();
        world.store.add_arrivals(&[count(key, 2, &[20, 10]), count(other, 1, &[15])]).await.unwrap();
        world.store.add_arrivals(&[count(key, 3, &[50, 40, 30])]).await.unwrap();

        let detail = world.store.event_detail(key).await.unwrap().unwrap();
        assert_eq!((detail.event.arrivals, detail.event.last_arrival_at), (6, NOW + 50));
        assert_eq!(detail.recent_arrivals, [50, 40, 30, 20, 10].map(record));
        let other = world.store.event(other).await.unwrap().unwrap();
        assert_eq!((other.arrivals, other.last_arrival_at), (2, NOW + 15));
    }

    async fn a_late_count_does_not_turn_the_clock_back(db: TestDatabase) {
        let world = World::new(db).await;
        let key = world.insert_one(world.event("evt_1", "a")).await.key();
        world.store.add_arrivals(&[count(key, 1, &[50])]).await.unwrap();
        world.store.add_arrivals(&[count(key, 1, &[20])]).await.unwrap();
        let event = world.store.event(key).await.unwrap().unwrap();
        assert_eq!((event.arrivals, event.last_arrival_at), (3, NOW + 50));
    }

    async fn what_is_remembered_is_bounded_and_what_is_cut_is_left_out(db: TestDatabase) {
        let world = World::new(db).await;
        let key = world.insert_one(world.event("evt_1", "a")).await.key();
        for at in 0..100 {
            world.store.add_arrivals(&[count(key, 1, &[at])]).await.unwrap();
        }
        let detail = world.store.event_detail(key).await.unwrap().unwrap();
        assert_eq!(detail.event.arrivals, 101);
        let kept = detail.recent_arrivals.len() as i64;
        assert!((8..100).contains(&kept), "{kept} are kept");
        let newest: Vec<_> = (100 - kept..100).rev().map(record).collect();
        assert_eq!(detail.recent_arrivals, newest);
    }

    async fn no_counts_and_counts_of_a_forgotten_event_are_harmless(db: TestDatabase) {
        let world = World::new(db).await;
        world.store.add_arrivals(&[]).await.unwrap();
        world.store.add_arrivals(&[count(no_key(), 1, &[1])]).await.unwrap();
        assert_eq!(world.store.event(no_key()).await.unwrap(), None);
    }
}

fn count(key: EventKey, count: i64, at: &[i64]) -> ArrivalCount {
    let recent: Vec<_> = at.iter().map(|at| (NOW + at, REMOTE.to_owned())).collect();
    ArrivalCount { key, count, last_at: recent[0].0, recent }
}

fn record(at: i64) -> ArrivalRecord {
    ArrivalRecord { at: NOW + at, remote: REMOTE.to_owned() }
}

const REMOTE: &str = "[2001:db8::7]:443";
