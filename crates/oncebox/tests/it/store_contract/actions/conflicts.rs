//! A person settles a conflict: the other body runs as a second effect, or nobody is told of it any more.

use oncebox::gateway::delivery::routing::{Glob, Route, Routes};
use oncebox::gateway::event::EventKey;
use oncebox::gateway::fault::Faults;
use oncebox::gateway::store::Inserted::{Conflict, ConflictAgain, Duplicate};
use oncebox::gateway::store::{
    Action, ActionError, ActionFilter, ActionKind, Depth, Erasure, EventFilter, NewEvent, Subject,
};
use testkit::TestDatabase;

use crate::store_contract::deliveries::{BILLING, claim, processing};
use crate::world::{HANDLERS, NOW, SOURCE, World, held};

fn routes() -> Routes {
    let route = |handler: &str, types: &str| Route {
        handler: handler.into(),
        sources: vec![SOURCE.to_owned()],
        types: vec![Glob::parse(types).unwrap()],
        serial: None,
    };
    Routes::new(vec![route(HANDLERS[0], "invoice.*"), route(HANDLERS[1], "*"), route("other", "customer.*")])
}

fn action(id: &str, kind: ActionKind, filter: ActionFilter) -> Action {
    Action { id: id.to_owned(), kind, filter, who: "ann".to_owned() }
}

fn one(key: EventKey) -> ActionFilter {
    ActionFilter { key: Some(key), ..ActionFilter::default() }
}

fn conflicts() -> ActionFilter {
    ActionFilter { source: Some(SOURCE.to_owned()), state: Some("conflict".to_owned()), ..ActionFilter::default() }
}

async fn act(world: &World, id: &str, kind: ActionKind, filter: ActionFilter) -> i64 {
    world.store.act(&action(id, kind, filter), Some(&routes()), NOW).await.unwrap()
}

/// An event that has the id, and another body under it.
async fn conflicting(world: &World, id: &str) -> (EventKey, EventKey) {
    let original = world.insert_one(world.event(id, "a")).await.key();
    let conflict = world.insert_one(other(world, id)).await;
    assert!(matches!(conflict, Conflict(_)), "{conflict:?}");
    (original, conflict.key())
}

fn other(world: &World, id: &str) -> NewEvent {
    world.event(id, "b")
}

async fn row(world: &World, key: EventKey) -> (String, Option<String>) {
    let event = world.store.event(key).await.unwrap().unwrap();
    (event.state, event.reason)
}

fn settled(reason: &str) -> (String, Option<String>) {
    ("accepted".to_owned(), Some(reason.to_owned()))
}

async fn handlers(world: &World, key: EventKey) -> Vec<(String, String)> {
    let detail = world.store.event_detail(key).await.unwrap().unwrap();
    let mut deliveries: Vec<_> = detail.deliveries.into_iter().map(|one| (one.handler, one.state)).collect();
    deliveries.sort();
    deliveries
}

async fn open_conflicts(world: &World) -> usize {
    let filter = EventFilter { state: Some("conflict".to_owned()), ..EventFilter::default() };
    let listed = world.store.events(&filter, 100).await.unwrap().items.len();
    let recent = world.store.stats(0).await.unwrap().recent;
    let counted: i64 = recent.events.iter().filter(|one| one.state == "conflict").map(|one| one.events).sum();
    assert_eq!(i64::try_from(listed).unwrap(), counted);
    listed
}

async fn assert_sound(world: &World) {
    let faults: Vec<_> =
        world.store.inspect(Depth::All, |_| {}).await.unwrap().into_iter().flat_map(|one| one.faults).collect();
    assert!(faults.is_empty(), "{faults:?}");
}

testkit::contract! {
    async fn a_released_conflict_runs_as_a_second_effect(db: TestDatabase) {
        let world = processing(db).await;
        let (original, conflict) = conflicting(&world, "evt_1").await;
        let before = handlers(&world, original).await;
        assert_eq!(world.store.count_action(ActionKind::Release, &one(conflict)).await.unwrap(), 1);
        assert_eq!(act(&world, "r", ActionKind::Release, one(conflict)).await, 1);
        assert_eq!(row(&world, conflict).await, settled("conflict_released"));
        let ready = HANDLERS.map(|name| (name.to_owned(), "ready".to_owned()));
        assert_eq!(handlers(&world, conflict).await, ready, "only the handlers that fit");
        assert_eq!((handlers(&world, original).await, row(&world, original).await.0), (before, "accepted".to_owned()));
        assert_eq!(open_conflicts(&world).await, 0);
        let mut claimed = claim(&world, 10).await;
        claimed.sort_by_key(|one| one.key);
        assert_eq!(claimed.iter().map(|one| one.key).collect::<Vec<_>>(), [original, conflict]);
        assert_ne!(claimed[0].fence.delivery, claimed[1].fence.delivery, "its idempotency key is its own");
        assert_eq!(act(&world, "r", ActionKind::Release, one(conflict)).await, 1, "it tells what it did");
        assert_eq!(act(&world, "again", ActionKind::Release, one(conflict)).await, 0);
        assert_eq!(act(&world, "late", ActionKind::Discard, one(conflict)).await, 0, "it is no conflict any more");
        let log = world.store.action("r").await.unwrap().unwrap();
        assert_eq!((log.kind.as_str(), log.who.as_str(), log.counted, log.acted), ("release", "ann", Some(1), 1));
        assert_sound(&world).await;
    }

    async fn a_discarded_conflict_is_told_of_no_more_and_never_runs(db: TestDatabase) {
        let world = processing(db).await;
        let (_, conflict) = conflicting(&world, "evt_1").await;
        // Nobody need know the handlers for that.
        let discard = action("d", ActionKind::Discard, one(conflict));
        assert_eq!(world.store.act(&discard, None, NOW).await.unwrap(), 1);
        assert_eq!(row(&world, conflict).await, settled("conflict_discarded"));
        assert_eq!((open_conflicts(&world).await, handlers(&world, conflict).await.len()), (0, 0));
        assert_eq!(act(&world, "r", ActionKind::Release, one(conflict)).await, 0);
        let late = ActionFilter { handler: Some("late".to_owned()), since: Some(1), ..ActionFilter::default() };
        let route = Route { handler: "late".into(), sources: Vec::new(), types: Vec::new(), serial: None };
        assert_eq!(world.store.count_backfill(&late, &route).await.unwrap(), 1);
        let backfill = action("b", ActionKind::Backfill, late);
        assert_eq!(world.store.act(&backfill, Some(&Routes::new(vec![route])), NOW).await.unwrap(), 1, "the original");
        assert_eq!(handlers(&world, conflict).await, []);
        assert_sound(&world).await;
    }

    async fn a_settled_conflict_that_comes_again_is_a_duplicate(db: TestDatabase) {
        let world = processing(db).await;
        for (id, kind) in [("evt_1", ActionKind::Release), ("evt_2", ActionKind::Discard)] {
            let (original, conflict) = conflicting(&world, id).await;
            assert_eq!(world.insert_one(other(&world, id)).await, ConflictAgain(conflict));
            assert_eq!(act(&world, id, kind, one(conflict)).await, 1);
            let (reason, ran) = (row(&world, conflict).await, handlers(&world, conflict).await);
            let batch = [other(&world, id), other(&world, id), world.event(id, "a"), world.event(id, "third")];
            let third = batch[3].key;
            let expected = [Duplicate(conflict), Duplicate(conflict), Duplicate(original), Conflict(third)];
            assert_eq!(world.insert(batch).await, expected, "{kind:?}");
            assert_eq!((row(&world, conflict).await, handlers(&world, conflict).await), (reason, ran));
            let named = world.store.events_named(SOURCE, id).await.unwrap();
            let keys: Vec<_> = named.iter().map(|one| one.key).collect();
            assert_eq!(keys, [original, conflict, third], "all of them carry the id");
        }
        assert_eq!(open_conflicts(&world).await, 2, "bodies of their own are conflicts of their own");
    }

    async fn a_filter_takes_conflicts_only_where_it_says_so(db: TestDatabase) {
        let world = processing(db).await;
        let (_, first) = conflicting(&world, "evt_1").await;
        let (_, second) = conflicting(&world, "evt_2").await;
        world.insert_one(held(world.event("odd", "x"))).await;
        let of_source = ActionFilter { source: Some(SOURCE.to_owned()), ..ActionFilter::default() };
        for kind in [ActionKind::Release, ActionKind::Discard] {
            assert_eq!(world.store.count_action(kind, &of_source).await.unwrap(), 2, "the held deliveries");
            assert_eq!(world.store.count_action(kind, &conflicts()).await.unwrap(), 2);
            let held = ActionFilter { state: Some("held".to_owned()), ..one(first) };
            assert_eq!(world.store.count_action(kind, &held).await.unwrap(), 0);
            let of_handler = ActionFilter { handler: Some(BILLING.to_owned()), ..conflicts() };
            let refused = world.store.count_action(kind, &of_handler).await;
            assert!(matches!(refused, Err(ActionError::State)), "a conflict is settled for all handlers: {refused:?}");
        }
        assert!(matches!(world.store.count_action(ActionKind::Replay, &conflicts()).await, Err(ActionError::State)));
        assert_eq!(act(&world, "held", ActionKind::Release, of_source).await, 2);
        assert_eq!(open_conflicts(&world).await, 2);
        assert_eq!(act(&world, "d", ActionKind::Discard, ActionFilter { key: Some(first), ..conflicts() }).await, 1);
        assert_eq!(act(&world, "all", ActionKind::Release, conflicts()).await, 1);
        assert_eq!(row(&world, first).await, settled("conflict_discarded"));
        assert_eq!(row(&world, second).await, settled("conflict_released"));
    }

    async fn nobody_releases_a_conflict_without_knowing_the_handlers(db: TestDatabase) {
        let world = processing(db).await;
        let (_, conflict) = conflicting(&world, "evt_1").await;
        for filter in [one(conflict), conflicts()] {
            let refused = world.store.act(&action("r", ActionKind::Release, filter), None, NOW).await;
            assert!(matches!(refused, Err(ActionError::Unrouted)), "{refused:?}");
        }
        assert_eq!((open_conflicts(&world).await, world.store.actions_after(None, 9).await.unwrap().len()), (1, 0));
    }

    async fn a_release_of_conflicts_that_is_cut_off_goes_on(db: TestDatabase) {
        let world = processing(db).await;
        world.insert((0..600).map(|n| world.event(&format!("evt_{n}"), "a"))).await;
        world.insert((0..600).map(|n| other(&world, &format!("evt_{n}")))).await;
        let release = action("r", ActionKind::Release, conflicts());
        let stopped = world.store.clone().with_faults(Faults::parse("actions.slice=fail@2").unwrap());
        assert!(stopped.act(&release, Some(&routes()), NOW).await.is_err());
        assert_eq!(world.store.actions_after(None, 1).await.unwrap()[0].acted, 500);
        let ready = || world.query("select count(*) from {deliveries} where state = 'ready'");
        assert_eq!(ready(), [["2200"]], "of the originals and of the first slice");
        assert_eq!(world.store.act(&release, Some(&routes()), NOW).await.unwrap(), 600);
        assert_eq!((ready(), open_conflicts(&world).await), (vec![vec!["2400".to_owned()]], 0));
    }

    async fn of_two_who_settle_a_conflict_one_does(db: TestDatabase) {
        let world = processing(db).await;
        for round in 0..8 {
            let (_, conflict) = conflicting(&world, &format!("evt_{round}")).await;
            let settle = |kind: ActionKind| {
                let (store, action) = (world.store.clone(), action(&format!("{round} {kind:?}"), kind, one(conflict)));
                tokio::spawn(async move { store.act(&action, Some(&routes()), NOW).await.unwrap() })
            };
            let (released, discarded) = (settle(ActionKind::Release), settle(ActionKind::Discard));
            let (released, discarded) = (released.await.unwrap(), discarded.await.unwrap());
            let deliveries = handlers(&world, conflict).await.len();
            match row(&world, conflict).await.1.as_deref() {
                Some("conflict_released") => assert_eq!((released, discarded, deliveries), (1, 0, 2)),
                other => assert_eq!((other, released, discarded, deliveries), (Some("conflict_discarded"), 0, 1, 0)),
            }
        }
    }

    async fn a_conflict_without_its_bytes_can_only_be_discarded(db: TestDatabase) {
        let world = processing(db).await;
        let (_, conflict) = conflicting(&world, "evt_1").await;
        let erasure = Erasure { id: "e".to_owned(), who: "ann".to_owned(), subject: Subject::Event(conflict) };
        assert_eq!(world.store.erase(&erasure, NOW).await.unwrap(), 1);
        assert_eq!(act(&world, "r", ActionKind::Release, conflicts()).await, 0);
        assert_eq!(open_conflicts(&world).await, 1);
        assert_eq!(act(&world, "d", ActionKind::Discard, conflicts()).await, 1);
        assert_eq!(open_conflicts(&world).await, 0);
        assert_sound(&world).await;
    }

    async fn a_settled_conflict_that_is_forgotten_is_told_of_again_and_does_not_run(db: TestDatabase) {
        let world = processing(db).await;
        let (original, conflict) = conflicting(&world, "evt_1").await;
        assert_eq!(act(&world, "d", ActionKind::Discard, one(conflict)).await, 1);
        assert!(world.store.is_remembered(conflict).await.unwrap());
        assert_eq!(act(&world, "f", ActionKind::Forget, one(conflict)).await, 1);
        assert!(!world.store.is_remembered(conflict).await.unwrap());
        assert!(world.store.is_remembered(original).await.unwrap());
        assert!(matches!(world.insert_one(other(&world, "evt_1")).await, Conflict(key) if key != conflict));
        assert_eq!(open_conflicts(&world).await, 1);
        assert_sound(&world).await;
    }
}
