//! What operators look at: what waits, what came since, how first attempts went, and both sides of `reconcile`.

use std::collections::HashSet;

use oncebox::gateway::delivery::Next;
use oncebox::gateway::delivery::routing::Route;
use oncebox::gateway::event::{EventKey, Position};
use oncebox::gateway::store::{ActionFilter, DeliveryFilter, DoneFilter, EventFilter, Failure, FirstTries, StoreError};
use testkit::TestDatabase;

use crate::store_contract::deliveries::{BILLING, claim, finish, processing};
use crate::world::{NOW, SOURCE, World, held};

async fn fail(world: &World, fence: oncebox::gateway::store::Fence, next: Next) {
    let failure = Failure { fence, next, error: "it broke".to_owned(), status: None };
    world.store.fail(&[failure], NOW).await.unwrap();
}

fn ids<T>(items: impl IntoIterator<Item = T>, id: impl Fn(T) -> String) -> Vec<String> {
    let mut ids: Vec<String> = items.into_iter().map(id).collect();
    ids.sort();
    ids
}

testkit::contract! {
    async fn held_events_and_held_deliveries_wait_for_a_person(db: TestDatabase) {
        let world = processing(db).await;
        world.insert([world.event("fine", "a"), world.event("broken", "b"), held(world.event("held", "c"))]).await;
        let claimed = claim(&world, 10).await;
        let broken = claimed.iter().find(|one| one.event_id == "broken").unwrap();
        fail(&world, broken.fence, Next::Held).await;
        let page = world.store.held(&EventFilter::default(), 10).await.unwrap();
        assert_eq!(ids(page.items, |event| event.event_id), ["broken", "held"]);
        let other = EventFilter { source: Some("other".to_owned()), ..EventFilter::default() };
        assert!(world.store.held(&other, 10).await.unwrap().items.is_empty());
        let first = world.store.held(&EventFilter::default(), 1).await.unwrap();
        let rest = EventFilter { before: first.next, ..EventFilter::default() };
        assert_eq!(world.store.held(&rest, 1).await.unwrap().items.len(), 1);
        let stopped = DeliveryFilter { state: Some("held".to_owned()), handler: Some(BILLING.to_owned()), ..DeliveryFilter::default() };
        assert_eq!(ids(world.store.deliveries(&stopped, 10).await.unwrap().items, |line| line.event_id), ["broken", "held"]);
    }

    async fn deliveries_are_listed_by_the_filters_of_actions(db: TestDatabase) {
        let world = processing(db).await;
        let key = world.insert_one(world.event("evt_1", "a")).await.key();
        world.insert_one(world.event("evt_2", "b")).await;
        let claimed = claim(&world, 2).await;
        for one in &claimed {
            fail(&world, one.fence, Next::Dead).await;
        }
        let base = || DeliveryFilter { handler: Some(BILLING.to_owned()), ..DeliveryFilter::default() };
        for (filter, expected) in [
            (DeliveryFilter { key: Some(key), ..base() }, 1),
            (DeliveryFilter { event_type: Some("invoice.*".to_owned()), ..base() }, 2),
            (DeliveryFilter { event_type: Some("INVOICE.*".to_owned()), ..base() }, 0),
            (DeliveryFilter { since: Some(NOW), until: Some(NOW + 1), ..base() }, 2),
            (DeliveryFilter { since: Some(NOW + 1), ..base() }, 0),
            (DeliveryFilter { until: Some(NOW), ..base() }, 0),
        ] {
            for state in [None, Some("dead".to_owned())] {
                let filter = DeliveryFilter { state, ..filter.clone() };
                assert_eq!(world.store.deliveries(&filter, 10).await.unwrap().items.len(), expected, "{filter:?}");
            }
        }
    }

    async fn what_came_since_is_told_oldest_first(db: TestDatabase) {
        let world = World::new(db).await;
        let first = world.insert_one(world.event("evt_1", "a")).await.key();
        world.insert([world.event("evt_2", "b"), world.event_of("other", "evt_3", "c")]).await;
        let all = EventFilter::default();
        let since = async |after, filter: &EventFilter, limit| {
            let page = world.store.events_after(after, filter, limit, 100).await.unwrap();
            page.items.into_iter().map(|event| event.event_id).collect::<Vec<_>>()
        };
        assert_eq!(since(first.position(), &all, 10).await, ["evt_2", "evt_3"]);
        assert_eq!(since(first.position(), &all, 1).await, ["evt_2"]);
        assert_eq!(since(Position::at(0), &all, 10).await.len(), 3);
        let other = EventFilter { source: Some("other".to_owned()), event_type: Some("invoice.*".to_owned()), ..all };
        assert_eq!(since(Position::at(0), &other, 10).await, ["evt_3"]);
        // However rare the wanted are, a look examines so many rows and says where the next one goes on.
        let page = world.store.events_after(Position::at(0), &other, 10, 2).await.unwrap();
        assert_eq!((page.items.len(), page.next.is_some()), (0, true));
        let page = world.store.events_after(page.next.unwrap(), &other, 10, 2).await.unwrap();
        assert_eq!((page.items[0].event_id.as_str(), page.next), ("evt_3", None));
    }

    async fn what_came_again_later_is_no_repeat_of_that_time(db: TestDatabase) {
        let world = World::new(db).await;
        let key = world.insert_one(world.event("evt_1", "a")).await.key();
        let counted = async |before| {
            let recent = world.store.recent(None, before, 10).await.unwrap();
            recent.events.iter().map(|one| (one.events, one.repeats)).collect::<Vec<_>>()
        };
        let hour_ago = key.moment() + 60_000;
        let table = world.db.table("arrivals");
        let literal = if world.db.backend() == testkit::Backend::Sqlite { format!("unhex('{key}', '-')") } else { format!("'{key}'") };
        world.db.execute(&format!("insert into {table} (key, count, last_at_ms, recent) values ({literal}, 5, {}, '')", hour_ago + 1));
        assert_eq!(counted(None).await, [(1, 5)]);
        assert_eq!(counted(Some(EventKey::at(hour_ago))).await, [(1, 0)]);
        assert_eq!(counted(Some(EventKey::at(hour_ago + 2))).await, [(1, 5)]);
    }

    async fn first_tries_are_counted_when_they_end(db: TestDatabase) {
        let world = processing(db).await;
        world.insert((0..4).map(|n| world.event(&format!("evt_{n}"), "a"))).await;
        let claimed = claim(&world, 3).await;
        assert_eq!(world.store.recent(None, None, 10).await.unwrap().tries, []);
        finish(&world, &[claimed[0].fence]).await;
        fail(&world, claimed[1].fence, Next::Retry { after: std::time::Duration::ZERO }).await;
        let tries = |tried, failed| [FirstTries { handler: BILLING.to_owned(), tried, failed }];
        assert_eq!(world.store.recent(None, None, 10).await.unwrap().tries, tries(2, 1));
        assert_eq!(world.store.recent(None, Some(EventKey::at(0)), 10).await.unwrap().tries, []);
        // Attempts go before their deliveries, and the rate must not fall by that.
        world.db.execute(&format!("delete from {}", world.db.table("attempts")));
        assert_eq!(world.store.recent(None, None, 10).await.unwrap().tries, tries(2, 1));
    }

    async fn marks_and_business_ids_are_read_for_reconcile(db: TestDatabase) {
        let world = processing(db).await;
        world.insert((0..3).map(|n| world.event(&format!("evt_{n}"), "a"))).await;
        let claimed = claim(&world, 2).await;
        finish(&world, &claimed.iter().map(|one| one.fence).collect::<Vec<_>>()).await;
        let filter = |handler: Option<&str>| DoneFilter { source: SOURCE.to_owned(), handler: handler.map(str::to_owned), ..DoneFilter::default() };
        let done = world.store.done_deliveries(&filter(None)).await.unwrap();
        assert_eq!(ids(done, |one| one.event_id), ids(&claimed, |one| one.event_id.to_string()));
        assert_eq!(world.store.done_deliveries(&filter(Some("mail"))).await.unwrap(), []);
        world.db.execute("create table paid (id text, n integer); insert into paid values ('evt_0', 7), (null, 8)");
        let known = async |query: &str| world.store.business_ids(query).await;
        assert_eq!(known("select id from paid -- all").await.unwrap(), HashSet::from(["evt_0".to_owned()]));
        assert_eq!(known("select n, id from paid;").await.unwrap(), HashSet::from(["7".to_owned(), "8".to_owned()]));
        for query in ["delete from paid", "drop table paid", "select id from nowhere", "select 1; delete from paid", ""] {
            assert!(matches!(known(query).await, Err(StoreError::Refused(_))), "{query}");
        }
        assert_eq!(world.db.count("paid"), 2);
    }

    async fn what_a_new_handler_lacks_is_counted(db: TestDatabase) {
        let world = processing(db).await;
        world.insert((0..3).map(|n| world.event(&format!("evt_{n}"), "{}"))).await;
        let route = |handler: &str, source: &str| Route {
            handler: handler.into(),
            sources: vec![source.to_owned()],
            types: Vec::new(),
            serial: None,
        };
        let filter = |handler: &str| ActionFilter { handler: Some(handler.to_owned()), since: Some(NOW), ..ActionFilter::default() };
        for (handler, source, expected) in [("late", SOURCE, 3), ("late", "other", 0), (BILLING, SOURCE, 0)] {
            let missing = world.store.count_backfill(&filter(handler), &route(handler, source)).await.unwrap();
            assert_eq!(missing, expected, "{handler} {source}");
        }
    }
}
