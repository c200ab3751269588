//! Reading for people: pages, one event, counts.

mod inspect;
mod operators;
mod plans;
mod views;

use oncebox::gateway::event::EventKey;
use oncebox::gateway::store::{Action, ActionFilter, ActionKind, EventFilter, NewEvent, QueueCount, SourceCount};
use oncebox_verify::OnRepeat;
use testkit::TestDatabase;

use crate::world::{HANDLERS, NOW, SOURCE, World, held, no_key, typed, unsigned};

testkit::contract! {
    async fn an_event_is_found_by_key_and_by_name(db: TestDatabase) {
        let world = World::new(db).await;
        let event = world.event("evt_1", "a");
        let key = world.insert_one(event.clone()).await.key();
        let detail = world.store.event_detail(key).await.unwrap().unwrap();
        let row = &detail.event;
        assert_eq!((row.key, row.source.as_str(), row.event_id.as_str()), (key, SOURCE, "evt_1"));
        assert_eq!((row.event_type.as_str(), row.identity.as_str()), ("invoice.paid", "id"));
        assert_eq!((&row.body_sha256[..], row.received_at), (&event.event.body_sha256[..], NOW));
        assert_eq!((row.arrivals, row.last_arrival_at, row.original), (1, NOW, None));
        let handlers: Vec<_> = detail.deliveries.iter().map(|delivery| delivery.handler.as_str()).collect();
        assert_eq!(handlers, HANDLERS);
        for (delivery, new) in detail.deliveries.iter().zip(&event.handlers) {
            let key = event.key.of_delivery(&new.handler);
            assert_eq!((delivery.delivery, delivery.attempt, delivery.finished_at), (key, 0, None));
            assert!(delivery.next_attempt_at.is_some() && delivery.last_error.is_none());
        }
        let payload = detail.payload.unwrap();
        assert_eq!((payload.remote.as_str(), payload.headers.as_slice()), (&*event.remote, &*event.headers));
        assert_eq!(world.store.events_named(SOURCE, "evt_1").await.unwrap(), [detail.event]);
    }

    async fn what_is_not_there_is_none(db: TestDatabase) {
        let world = World::new(db).await;
        assert_eq!(world.store.event(no_key()).await.unwrap(), None);
        assert_eq!(world.store.event_detail(no_key()).await.unwrap(), None);
        assert_eq!(world.store.payload(no_key()).await.unwrap(), None);
        assert_eq!(world.store.events_named(SOURCE, "evt_1").await.unwrap(), []);
        let page = world.store.events(&EventFilter::default(), 10).await.unwrap();
        assert!(page.items.is_empty() && page.next.is_none());
        let stats = world.store.stats(0).await.unwrap();
        assert!(stats.recent.events.is_empty() && stats.recent.deliveries.is_empty() && stats.messages.is_empty());
        assert!(stats.depths.is_empty() && stats.message_depths.is_empty() && stats.recent.since.is_none());
        assert_eq!((stats.ledger_rows, stats.ledger_rows_last_day), (0, 0));
    }

    async fn all_events_of_a_name_are_found(db: TestDatabase) {
        let world = World::new(db).await;
        world.insert([world.event("evt_1", "a"), world.event("evt_1", "b"), world.event_of("other", "evt_1", "a")]).await;
        let states: Vec<_> = named(&world, "evt_1").await;
        assert_eq!(states, ["accepted", "conflict"]);
        world.insert(["x", "y"].map(|body| unsigned(world.event("evt_2", body), OnRepeat::Hold))).await;
        assert_eq!(named(&world, "evt_2").await, ["accepted", "accepted"]);
    }

    async fn filters_mean_the_same_on_both(db: TestDatabase) {
        let world = World::new(db).await;
        let kinds = ["invoice.paid", "Invoice.paid", "invoice_paid", "100%", "a!b", "", "caf\u{e9}"];
        let mut events: Vec<NewEvent> = kinds.iter().map(|kind| typed(world.event(&format!("id:{kind}"), "a"), kind)).collect();
        events.push(held(typed(world.event_of("other", "H_1", "?"), "x")));
        for (n, event) in events.iter_mut().enumerate() {
            event.received_at = NOW + n as i64;
            event.key = world.keys.make(event.received_at);
        }
        world.insert(events).await;
        let all = EventFilter::default;
        let types = |event_type: &str| EventFilter { event_type: Some(event_type.into()), ..all() };
        let text = |text: &str| EventFilter { text: Some(text.into()), ..all() };
        for (filter, expected) in [
            (all(), &["x", "caf\u{e9}", "", "a!b", "100%", "invoice_paid", "Invoice.paid", "invoice.paid"][..]),
            (types("invoice.paid"), &["invoice.paid"]),
            (types("invoice.*"), &["invoice.paid"]),
            (types("*.paid"), &["Invoice.paid", "invoice.paid"]),
            (types("invoice_paid"), &["invoice_paid"]),
            (types("100%"), &["100%"]),
            (types("1%"), &[]),
            (types("a!b"), &["a!b"]),
            (types(""), &[""]),
            (types("CAF\u{c9}"), &[]),
            (types("caf\u{e9}"), &["caf\u{e9}"]),
            (text("_"), &["x", "invoice_paid"]),
            (text("%"), &["100%"]),
            (text("!"), &["a!b"]),
            (text("h_1"), &[]),
            (text("H_1"), &["x"]),
            (text("nvoice"), &["invoice_paid", "Invoice.paid", "invoice.paid"]),
            (text("' or 1=1 --"), &[]),
            (EventFilter { source: Some("other".into()), ..all() }, &["x"]),
            (EventFilter { source: Some("Other".into()), ..all() }, &[]),
            (EventFilter { state: Some("held".into()), ..all() }, &["x"]),
            (EventFilter { since: Some(NOW + 6), ..all() }, &["x", "caf\u{e9}"]),
            (EventFilter { until: Some(NOW + 2), ..all() }, &["Invoice.paid", "invoice.paid"]),
            (EventFilter { since: Some(NOW + 1), until: Some(NOW + 2), ..types("*") }, &["Invoice.paid"]),
        ] {
            let page = world.store.events(&filter, 100).await.unwrap();
            let found: Vec<_> = page.items.iter().map(|event| event.event_type.as_str()).collect();
            assert_eq!(found, expected, "{filter:?}");
        }
    }

    async fn pages_join_without_gap_or_overlap(db: TestDatabase) {
        let world = World::new(db).await;
        let events: Vec<_> = (0..25).map(|n| world.event(&format!("evt_{n}"), "a")).collect();
        let mut expected: Vec<_> = events.iter().map(|event| event.key).collect();
        expected.reverse();
        world.insert(events).await;
        for limit in [1, 7, 24, 25, 26, usize::MAX] {
            assert_eq!(walk(&world, limit).await, expected, "{limit} on a page");
        }
        let nothing = world.store.events(&EventFilter::default(), 0).await.unwrap();
        assert!(nothing.items.is_empty());
    }

    async fn an_empty_body_is_one_that_holds_nothing(db: TestDatabase) {
        let world = World::new(db).await;
        world.insert([world.event("evt_1", "abc"), world.event("evt_2", ""), world.event("evt_3", "de")]).await;
        let bodies = world.store.bodies_below(None, None, 10, 2).await.unwrap();
        let bodies: Vec<Vec<u8>> = bodies.into_iter().map(|(_, body)| body).collect();
        assert_eq!(bodies, [b"de".to_vec(), Vec::new(), b"ab".to_vec()]);
    }

    async fn what_was_forgotten_did_not_grow(db: TestDatabase) {
        let world = World::new(db).await;
        world.insert((0..5).map(|n| world.event(&format!("evt_{n}"), "{}"))).await;
        let key = world.store.events_named(SOURCE, "evt_1").await.unwrap()[0].key;
        let filter = ActionFilter { key: Some(key), ..ActionFilter::default() };
        let forget = Action { id: "a".to_owned(), kind: ActionKind::Forget, filter, who: "ann".to_owned() };
        assert_eq!(world.store.act(&forget, None, NOW).await.unwrap(), 1);
        let stats = world.store.stats(NOW).await.unwrap();
        assert_eq!((stats.ledger_rows, stats.ledger_rows_last_day), (4, 4));
    }

    async fn counts_are_by_source_handler_and_state(db: TestDatabase) {
        let world = World::new(db).await;
        let key = world.insert_one(world.event("evt_1", "a")).await.key();
        world.insert([world.event("evt_1", "b"), world.event("evt_2", "a"), held(world.event_of("other", "h", "?"))]).await;
        world.store.add_arrivals(&[oncebox::gateway::store::ArrivalCount { key, count: 4, last_at: NOW, recent: vec![] }]).await.unwrap();
        let stats = world.store.stats(NOW).await.unwrap();
        let count = |source: &str, state: &str, events, repeats| SourceCount {
            source: source.into(), state: state.into(), events, repeats,
        };
        assert_eq!(stats.recent.events, [count("other", "held", 1, 0), count(SOURCE, "accepted", 2, 4), count(SOURCE, "conflict", 1, 0)]);
        let queues: Vec<_> = stats.recent.deliveries.iter().map(|QueueCount { name, state, count, .. }| (name.as_str(), state.as_str(), *count)).collect();
        assert_eq!(queues, [("billing", "held", 1), ("billing", "ready", 2), ("mail", "held", 1), ("mail", "ready", 2)]);
        assert_eq!((stats.ledger_rows, stats.ledger_rows_last_day), (4, 4));
        assert_eq!(world.store.stats(NOW + 1).await.unwrap().ledger_rows_last_day, 0);
    }
}

/// The states of the events of one name.
async fn named(world: &World, id: &str) -> Vec<String> {
    world.store.events_named(SOURCE, id).await.unwrap().into_iter().map(|event| event.state).collect()
}

async fn walk(world: &World, limit: usize) -> Vec<EventKey> {
    let (mut keys, mut before) = (Vec::new(), None);
    loop {
        let page = world.store.events(&EventFilter { before, ..EventFilter::default() }, limit).await.unwrap();
        assert!(page.items.len() <= limit);
        keys.extend(page.items.iter().map(|event| event.key));
        before = page.next;
        if before.is_none() {
            return keys;
        }
    }
}
