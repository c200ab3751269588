//! What operators do to many.

mod acting;
mod conflicts;
mod erase;

use oncebox::gateway::delivery::Next;
use oncebox::gateway::delivery::routing::{Glob, Route, Routes};
use oncebox::gateway::fault::Faults;
use oncebox::gateway::store::{
    Action, ActionError, ActionFilter, ActionKind, ActionRecord, Asked, EventFilter, Failure, Inserted,
};
use oncebox_verify::{BodyPointer, Identity, sha256};
use testkit::TestDatabase;

use super::deliveries::{BILLING, claim, finish, processing, states};
use crate::world::{NOW, SOURCE, World, held};

fn of_source() -> ActionFilter {
    ActionFilter { source: Some(SOURCE.to_owned()), ..ActionFilter::default() }
}

fn action(id: &str, kind: ActionKind, filter: ActionFilter) -> Action {
    Action { id: id.to_owned(), kind, filter, who: "ann".to_owned() }
}

async fn act(world: &World, id: &str, kind: ActionKind, filter: ActionFilter) -> i64 {
    world.store.act(&action(id, kind, filter), None, NOW).await.unwrap()
}

/// Events whose delivery to the first handler is dead.
async fn dead_letters(world: &World, count: usize) {
    world.insert((0..count).map(|n| world.event(&format!("evt_{n}"), "{}"))).await;
    let claimed = claim(world, count).await;
    let failure = |fence| Failure { fence, next: Next::Dead, error: "no".to_owned(), status: None };
    let failures: Vec<_> = claimed.iter().map(|one| failure(one.fence)).collect();
    world.store.fail(&failures, NOW).await.unwrap();
}

testkit::contract! {
    async fn an_operators_pause_is_in_the_log(db: TestDatabase) {
        let world = processing(db).await;
        let asked = |id: &str| Asked { id: id.to_owned(), who: "ann".to_owned(), at: NOW };
        assert!(world.store.pause_handler_as(&asked("p1"), BILLING, true).await.unwrap());
        assert!(world.store.handlers().await.unwrap().iter().any(|one| one.facts.name == BILLING && one.paused));
        assert!(world.store.pause_handler_as(&asked("p2"), BILLING, true).await.unwrap(), "known, and paused before");
        assert!(world.store.pause_handler_as(&asked("p3"), BILLING, false).await.unwrap());
        assert!(!world.store.pause_handler_as(&asked("p4"), "nobody", true).await.unwrap());
        let mut log = world.store.actions_after(None, 10).await.unwrap();
        log.sort_by(|a, b| a.id.cmp(&b.id));
        let lines: Vec<_> = log.iter().map(|one| (one.id.as_str(), one.kind.as_str(), one.acted, one.finished_at.is_some())).collect();
        assert_eq!(lines, [("p1", "pause", 1, true), ("p2", "pause", 0, true), ("p3", "resume", 1, true)]);
        assert_eq!(log[0].filter, format!("{{\"handler\":\"{BILLING}\"}}"));
    }

    async fn the_log_is_read_in_pages(db: TestDatabase) {
        let world = processing(db).await;
        for n in 0..7_i64 {
            // Some at the same moment.
            let asked = Asked { id: format!("{}", (n * 5) % 7), who: "ann".to_owned(), at: NOW };
            world.store.pause_handler_as(&asked, BILLING, n % 2 == 0).await.unwrap();
        }
        world.db.execute(&format!("update {} set started_at_ms = {NOW} + cast(action as int) / 3", world.db.table("actions")));
        let all: Vec<String> = world.store.actions_after(None, 10).await.unwrap().into_iter().map(|one| one.id).collect();
        assert_eq!(all, ["6", "5", "4", "3", "2", "1", "0"]);
        let mut paged = Vec::new();
        loop {
            let last = paged.last().map(|last: &ActionRecord| (last.started_at, last.id.as_str()));
            let page = world.store.actions_after(last, 2).await.unwrap();
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        assert_eq!(paged.into_iter().map(|one| one.id).collect::<Vec<_>>(), all);
    }

    async fn what_is_armed_and_run_is_in_the_log(db: TestDatabase) {
        let world = processing(db).await;
        let asked = |id: &str| Asked { id: id.to_owned(), who: "ann".to_owned(), at: NOW };
        world.store.arm_secret_as(&asked("a"), "asana").await.unwrap();
        world.store.open_run_as(&asked("r")).await.unwrap();
        let line = async |id: &str| {
            let one = world.store.action(id).await.unwrap().unwrap();
            (one.kind, one.filter, one.who, one.acted, one.finished_at.is_some())
        };
        let (who, arm, run) = ("ann".to_owned(), "arm".to_owned(), "retention".to_owned());
        assert_eq!(line("a").await, (arm, r#"{"source":"asana"}"#.to_owned(), who.clone(), 1, true));
        let about = r#"{"retention":"run now"}"#.to_owned();
        assert_eq!(line("r").await, (run.clone(), about.clone(), who.clone(), 0, false), "under way");
        world.store.end_run_as(&asked("r"), 7, NOW).await.unwrap();
        assert_eq!(line("r").await, (run, about, who, 7, true));
    }

    async fn a_replay_gives_dead_letters_a_fresh_budget_once(db: TestDatabase) {
        let world = processing(db).await;
        dead_letters(&world, 3).await;
        assert_eq!(world.store.count_action(ActionKind::Replay, &of_source()).await.unwrap(), 3);
        assert_eq!(act(&world, "r1", ActionKind::Replay, of_source()).await, 3);
        let claimed = claim(&world, 10).await;
        assert_eq!((claimed.len(), claimed[0].attempt, claimed[0].attempts_before), (3, 2, 1));
        let failure = |fence| Failure { fence, next: Next::Dead, error: "no".to_owned(), status: None };
        let failures: Vec<_> = claimed.iter().map(|one| failure(one.fence)).collect();
        world.store.fail(&failures, NOW).await.unwrap();
        assert_eq!(act(&world, "r1", ActionKind::Replay, of_source()).await, 3, "it tells what it did");
        assert_eq!(claim(&world, 10).await.len(), 0, "and does nothing");
        let other = ActionFilter { handler: Some(BILLING.to_owned()), ..of_source() };
        let reused = world.store.act(&action("r1", ActionKind::Replay, other), None, NOW).await;
        assert!(matches!(reused, Err(ActionError::Reused)));
        let log = world.store.actions_after(None, 10).await.unwrap();
        assert_eq!((log.len(), log[0].who.as_str(), log[0].counted, log[0].acted), (1, "ann", Some(3), 3));
        assert!(log[0].finished_at.is_some());
    }

    async fn forget_counts_what_it_forgets(db: TestDatabase) {
        let world = processing(db).await;
        let plain = world.insert_one(world.event("evt_1", "{}")).await.key();
        let conflict = world.insert_one(world.event("evt_1", "[]")).await.key();
        let mut joined = world.event("a:b", "{}");
        joined.event.identity = Identity::of_id(SOURCE, b"the parts, each with its length");
        let mut other = joined.clone();
        (other.key, other.event.body_sha256) = (world.event("x", "").key, sha256(b"[]"));
        let joined = world.insert_one(joined).await.key();
        let in_conflict = world.insert_one(other).await.key();
        let of = |key| ActionFilter { key: Some(key), ..ActionFilter::default() };
        let counted = async |filter| world.store.count_action(ActionKind::Forget, &filter).await.unwrap();
        assert_eq!(counted(ActionFilter { source: Some(SOURCE.to_owned()), ..ActionFilter::default() }).await, 2);
        assert_eq!(counted(ActionFilter { state: Some("conflict".to_owned()), ..ActionFilter::default() }).await, 0);
        for (key, remembered) in [(plain, 1), (conflict, 0), (in_conflict, 0), (joined, 1)] {
            assert_eq!((counted(of(key)).await, world.store.is_remembered(key).await.unwrap()), (remembered, remembered == 1));
            assert_eq!(act(&world, &format!("f {key}"), ActionKind::Forget, of(key)).await, remembered);
            assert_eq!((counted(of(key)).await, world.store.is_remembered(key).await.unwrap()), (0, false));
        }
        assert_eq!(world.count("ledger"), 2, "the conflicts' own, by which they are known when they come again");
    }

    async fn filters_choose_and_an_empty_one_is_refused(db: TestDatabase) {
        let world = processing(db).await;
        dead_letters(&world, 2).await;
        let key = world.store.events_named(SOURCE, "evt_1").await.unwrap()[0].key;
        let base = ActionFilter::default;
        for (filter, expected) in [
            (ActionFilter { source: Some("other".to_owned()), ..base() }, 0),
            (ActionFilter { event_type: Some("invoice.*".to_owned()), ..base() }, 2),
            (ActionFilter { event_type: Some("INVOICE.*".to_owned()), ..base() }, 0),
            (ActionFilter { handler: Some("mail".to_owned()), ..base() }, 0),
            (ActionFilter { handler: Some(BILLING.to_owned()), ..base() }, 2),
            (ActionFilter { since: Some(NOW + 1), ..base() }, 0),
            (ActionFilter { until: Some(NOW + 1), ..base() }, 2),
            (ActionFilter { key: Some(key), ..base() }, 1),
            (ActionFilter { state: Some("dead".to_owned()), ..base() }, 2),
        ] {
            assert_eq!(world.store.count_action(ActionKind::Discard, &filter).await.unwrap(), expected, "{filter:?}");
            let name = format!("{filter:?}");
            if expected != 2 {
                assert_eq!(act(&world, &name, ActionKind::Replay, filter.clone()).await, expected, "{filter:?}");
                world.db.execute(&format!("update {} set state = 'dead' where attempt > 0", world.db.table("deliveries")));
            }
        }
        assert!(matches!(world.store.count_action(ActionKind::Replay, &base()).await, Err(ActionError::EmptyFilter)));
        let done = ActionFilter { state: Some("done".to_owned()), ..base() };
        assert!(matches!(world.store.count_action(ActionKind::Replay, &done).await, Err(ActionError::State)));
    }

    async fn held_events_are_released_or_discarded_whole(db: TestDatabase) {
        let world = processing(db).await;
        let mut bare = held(world.event("bare", "x"));
        bare.handlers.clear();
        world.insert([held(world.event("a", "a")), bare]).await;
        assert_eq!(world.store.count_action(ActionKind::Release, &of_source()).await.unwrap(), 3);
        assert_eq!(act(&world, "r", ActionKind::Release, of_source()).await, 3);
        assert_eq!(world.query("select distinct state from {events}"), [["accepted"]]);
        assert_eq!(claim(&world, 10).await.len(), 1);
        world.insert_one(held(world.event("b", "b"))).await;
        assert_eq!(act(&world, "d", ActionKind::Discard, of_source()).await, 2);
        assert_eq!(states(&world), [["claimed", "1"], ["discarded", "0"]]);
        assert_eq!(world.query("select distinct state from {events}"), [["accepted"]]);
    }

    async fn an_action_on_one_event_leaves_its_neighbours(db: TestDatabase) {
        let world = processing(db).await;
        let mut bare = held(world.event("bare", "x"));
        bare.handlers.clear();
        world.insert([held(world.event("a", "a")), bare, held(world.event("b", "b"))]).await;
        let page = world.store.events(&EventFilter::default(), 10).await.unwrap();
        let one = |id: &str| {
            let event = page.items.iter().find(|event| event.event_id == id).unwrap();
            ActionFilter { key: Some(event.key), ..ActionFilter::default() }
        };
        for (kind, id, of, left) in [
            (ActionKind::Release, "bare", 1, vec![["a"], ["b"]]),
            (ActionKind::Discard, "a", 2, vec![["b"]]),
            (ActionKind::Discard, "a", 0, vec![["b"]]),
            (ActionKind::Forget, "b", 1, vec![["b"]]),
            (ActionKind::Release, "b", 2, vec![]),
        ] {
            assert_eq!(world.store.count_action(kind, &one(id)).await.unwrap(), of, "{kind:?} {id}");
            assert_eq!(act(&world, &format!("{kind:?} {id} {of}"), kind, one(id)).await, of, "{kind:?} {id}");
            let held = world.query("select event_id from {events} where state = 'held' order by event_id");
            assert_eq!(held, left, "{kind:?} {id}");
        }
        assert_eq!(world.query("select count(*) from {ledger}"), [["2"]]);
    }

    async fn a_forgotten_identity_is_new_again(db: TestDatabase) {
        let world = processing(db).await;
        let first = world.insert_one(world.event("evt_1", "a")).await.key();
        let filter = ActionFilter { key: Some(first), ..ActionFilter::default() };
        assert_eq!(act(&world, "f", ActionKind::Forget, filter).await, 1);
        let again = world.insert_one(world.event("evt_1", "a")).await;
        assert!(matches!(again, Inserted::Accepted(key) if key != first));
    }

    async fn a_handler_that_came_later_gets_stored_events(db: TestDatabase) {
        let world = processing(db).await;
        world.insert((0..3).map(|n| world.event(&format!("evt_{n}"), r#"{"id":"a"}"#))).await;
        let route = Route {
            handler: "late".into(),
            sources: Vec::new(),
            types: vec![Glob::parse("invoice.*").unwrap()],
            serial: BodyPointer::parse("/id"),
        };
        let routes = Routes::new(vec![route.clone()]);
        let filter = ActionFilter { handler: Some("late".to_owned()), since: Some(NOW), ..ActionFilter::default() };
        let replay = action("r", ActionKind::Replay, filter.clone());
        assert_eq!(world.store.act(&replay, None, NOW).await.unwrap(), 0, "a replay is of dead letters");
        assert_eq!(world.store.count_backfill(&filter, &route).await.unwrap(), 3);
        let late = action("l", ActionKind::Backfill, filter.clone());
        assert!(matches!(world.store.act(&late, None, NOW).await, Err(ActionError::Backfill)), "nobody knows what it wants");
        assert_eq!(world.store.act(&late, Some(&routes), NOW).await.unwrap(), 3);
        assert_eq!(world.store.act(&late, Some(&routes), NOW).await.unwrap(), 3);
        assert_eq!(world.store.count_backfill(&filter, &route).await.unwrap(), 0);
        for lacking in [ActionFilter { handler: None, ..filter.clone() }, ActionFilter { since: None, ..filter }] {
            let refused = world.store.count_backfill(&lacking, &route).await;
            assert!(matches!(refused, Err(ActionError::Backfill)), "{refused:?}");
        }
        let rows = world.query("select state, order_key is not null from {deliveries} where handler = 'late'");
        assert_eq!((rows.len(), rows[0][0].as_str()), (3, "ready"));
    }

    async fn what_waits_for_its_next_attempt_is_due_now_and_keeps_its_budget(db: TestDatabase) {
        let world = processing(db).await;
        world.insert((0..4).map(|n| world.event(&format!("evt_{n}"), "{}"))).await;
        let claimed = claim(&world, 3).await;
        let later = Next::Retry { after: std::time::Duration::from_secs(3600) };
        let failure = |fence| Failure { fence, next: later, error: "no".to_owned(), status: None };
        let failures: Vec<_> = claimed.iter().map(|one| failure(one.fence)).collect();
        world.store.fail(&failures, NOW).await.unwrap();
        // One of them waits for something else, which nobody but its prerequisite ends.
        world.db.execute(&format!(
            "update {0} set waits_for = delivery where key = (select key from {0} where attempt = 1 order by key limit 1)",
            world.db.table("deliveries")
        ));
        let waiting = |filter: ActionFilter| ActionFilter { waiting: true, ..filter };
        assert_eq!(world.store.count_hurry(&waiting(of_source()), NOW).await.unwrap(), 2);
        let other = ActionFilter { handler: Some("other".to_owned()), ..of_source() };
        assert_eq!(world.store.count_hurry(&waiting(other), NOW).await.unwrap(), 0);
        let all = world.store.count_hurry(&waiting(ActionFilter::default()), NOW).await;
        assert!(matches!(all, Err(ActionError::EmptyFilter)), "{all:?}");
        let dead = ActionFilter { state: Some("dead".to_owned()), ..of_source() };
        assert!(matches!(world.store.count_hurry(&waiting(dead), NOW).await, Err(ActionError::State)));
        assert_eq!(act(&world, "w", ActionKind::Replay, waiting(of_source())).await, 2);
        assert_eq!(act(&world, "w", ActionKind::Replay, waiting(of_source())).await, 2, "it tells what it did");
        let again = claim(&world, 10).await;
        let tried: Vec<_> = again.iter().filter(|one| one.attempt == 2).map(|one| one.attempts_before).collect();
        assert_eq!((again.len(), tried), (3, vec![0, 0]));
    }

    async fn what_is_done_runs_again_only_by_requeue(db: TestDatabase) {
        let world = processing(db).await;
        let key = world.insert_one(world.event("evt_1", "a")).await.key();
        let claimed = claim(&world, 1).await;
        finish(&world, &[claimed[0].fence]).await;
        for kind in [ActionKind::Replay, ActionKind::Release, ActionKind::Discard] {
            assert_eq!(act(&world, kind.as_str(), kind, of_source()).await, 0);
        }
        let filter = ActionFilter { handler: Some(BILLING.to_owned()), ..ActionFilter::default() };
        let again = action("q", ActionKind::Requeue, filter);
        assert_eq!(world.store.requeue(&again, &[key, key], NOW).await.unwrap(), 1);
        assert_eq!(world.store.requeue(&again, &[key], NOW).await.unwrap(), 1);
        assert_eq!(states(&world), [["ready", "1"]]);
    }

    async fn an_action_stopped_midway_goes_on_where_it_was(db: TestDatabase) {
        let world = processing(db).await;
        dead_letters(&world, 1200).await;
        let replay = action("r", ActionKind::Replay, of_source());
        let stopped = world.store.clone().with_faults(Faults::parse("actions.slice=fail@2").unwrap());
        assert!(stopped.act(&replay, None, NOW).await.is_err());
        assert_eq!(world.store.actions_after(None, 1).await.unwrap()[0].acted, 500);
        // What was replayed dies again before the rest is: it must not be replayed twice.
        let claimed = claim(&world, 500).await;
        let failure = |fence| Failure { fence, next: Next::Dead, error: "no".to_owned(), status: None };
        let failures: Vec<_> = claimed.iter().map(|one| failure(one.fence)).collect();
        world.store.fail(&failures, NOW).await.unwrap();
        assert_eq!(world.store.act(&replay, None, NOW).await.unwrap(), 1200);
        assert_eq!(world.query("select count(*) from {deliveries} where state = 'ready' and attempt = 1"), [["700"]]);
    }
}
