//! Transactions that end early: dropped, failed, or cancelled at any point where they wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use oncebox::gateway::fault::Faults;
use oncebox::gateway::store::{Commit, Inserted, NewEvent, Store, StoreError, insert_events};
use oncebox_verify::OnRepeat;
use testkit::{Backend, TestDatabase};

use crate::world::{World, open, polled, unsigned, wait_until};

/// More polls than a transaction needs.
const POLLS_MAX: usize = 200;
const SWEEPS: usize = 4;
/// How long statements are cancelled, and for how long at most where a busy machine has run none.
const CANCEL_FOR: Duration = Duration::from_secs(2);
const CANCEL_MAX: Duration = Duration::from_secs(30);

testkit::contract! {
    async fn a_dropped_transaction_leaves_nothing(db: TestDatabase) {
        let world = World::new(db).await;
        let before = world.db.row_counts();
        for _ in 0..20 {
            let mut tx = world.store.begin().await.unwrap();
            let events: Arc<[_]> = [world.event("evt_1", "a")].into();
            assert!(matches!(insert_events(&mut tx, &events).await.unwrap()[..], [Inserted::Accepted(_)]));
            drop(tx);
        }
        wait_until_quiet(&world).await;
        assert_eq!(world.db.row_counts(), before);
        assert!(matches!(world.insert_one(world.event("evt_1", "a")).await, Inserted::Accepted(_)));
        world.check();
    }

    async fn dropping_at_any_point_leaves_all_or_nothing(db: TestDatabase) {
        let world = World::new(db).await;
        // SQLite's thread may answer before the next poll, so that a sweep meets other points each time.
        for sweep in 0..SWEEPS {
            let mut polls = 0;
            while !is_done_after(&world, sweep * POLLS_MAX + polls, polls).await {
                polls += 1;
                assert!(polls < POLLS_MAX, "the transaction never ended");
            }
        }
        world.check();
    }

    async fn a_transaction_whose_insert_was_dropped_does_not_commit(db: TestDatabase) {
        let world = World::new(db).await;
        for polls in 0..POLLS_MAX {
            let mut tx = world.store.begin().await.unwrap();
            let events: Arc<[_]> = three_kinds(&world, polls).into();
            let done = polled(insert_events(&mut tx, &events), polls).await.is_some();
            let commit = tx.commit().await;
            wait_until_quiet(&world).await;
            assert!(polls == 0 || matches!(commit, Commit::Committed) == done, "{polls} polls: {commit:?}");
            world.check();
            if done {
                return;
            }
        }
        panic!("the insert never ended");
    }

    async fn a_failed_insert_does_not_commit(db: TestDatabase) {
        let world = World::new(db).await;
        let before = world.db.row_counts();
        for point in ["events.referee", "events.write", "events.written"] {
            let faulty = world.store.clone().with_faults(Faults::parse(&format!("{point}=fail")).unwrap());
            let mut tx = faulty.begin().await.unwrap();
            insert_events(&mut tx, &three_kinds(&world, 0).into()).await.unwrap_err();
            assert!(matches!(tx.commit().await, Commit::Failed(_)), "{point}");
        }
        // The same by the database's own refusal, in the middle of a batch: two events under one key. The rows travel
        // with the commit, so the refusal shows there.
        let mut tx = world.store.begin().await.unwrap();
        let mut events = three_kinds(&world, 0);
        events[2].key = events[0].key;
        insert_events(&mut tx, &events.into()).await.unwrap();
        assert!(matches!(tx.commit().await, Commit::Failed(StoreError::Refused(_))));
        wait_until_quiet(&world).await;
        assert_eq!(world.db.row_counts(), before);
    }

    async fn a_dropped_read_disturbs_nobody(db: TestDatabase) {
        let world = World::new(db).await;
        let key = world.insert_one(world.event("evt_1", "a")).await.key();
        for polls in 0..20 {
            drop(polled(world.store.event_detail(key), polls).await);
            drop(polled(world.store.begin(), polls).await);
            assert_eq!(world.store.event(key).await.unwrap().unwrap().event_id, "evt_1");
        }
        world.insert_one(world.event("evt_2", "a")).await;
        world.check();
    }
}

/// Drops a transaction after some polls and shows that all of it is there or nothing; true if it ended by itself.
async fn is_done_after(world: &World, round: usize, polls: usize) -> bool {
    let events: Arc<[_]> = three_kinds(world, round).into();
    let done = polled(store_all(&world.store, &events), polls).await.is_some();
    wait_until_quiet(world).await;
    world.check();
    let stored = world.query(&format!("select count(*) from {{events}} where source = 'drop-{round}'"));
    assert!(stored == [["3"]] || (stored == [["0"]] && !done), "{polls} polls left {stored:?} of 3 events");
    let again = world.insert(three_kinds(world, round)).await;
    let fresh = again.iter().filter(|outcome| !outcome.is_arrival_only()).count();
    assert_eq!(fresh, if stored == [["3"]] { 0 } else { 3 });
    done
}

async fn store_all(store: &Store, events: &Arc<[NewEvent]>) -> Commit {
    let mut tx = store.begin().await.unwrap();
    insert_events(&mut tx, events).await.unwrap();
    tx.commit().await
}

/// A new event, a repeat of its bytes, and one of the first referee alone.
fn three_kinds(world: &World, round: usize) -> Vec<NewEvent> {
    let source = format!("drop-{round}");
    let body = format!("body {round}");
    vec![
        unsigned(world.event_of(&source, "a", &body), OnRepeat::Hold),
        unsigned(world.event_of(&source, "b", &body), OnRepeat::Hold),
        world.event_of(&source, "c", &body),
    ]
}

/// Until no transaction of ours is open: on SQLite the next one must simply come through.
async fn wait_until_quiet(world: &World) {
    assert!(matches!(world.store.begin().await.unwrap().commit().await, Commit::Committed));
    if world.db.backend() == Backend::Postgres {
        let open = "select 1 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() \
                    and application_name = 'oncebox' and state <> 'idle'";
        wait_until("no transaction is open", || world.db.query(open).is_empty()).await;
    }
}

/// The referee's statement travels with BEGIN. Had BEGIN failed alone, the statement would commit by itself, and the
/// ledger would know an event that was never stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_referee_inserts_nothing_outside_a_transaction() {
    let world = World::new(TestDatabase::fresh(Backend::Postgres)).await;
    let array = "array['01a1e148-c9c7-76c7-94f7-d4794eebf00b']";
    for (statement, table) in [
        (include_str!("../../../../sql/postgres/claim_identities.sql"), "ledger"),
        (include_str!("../../../../sql/postgres/claim_fingerprints.sql"), "repeats"),
    ] {
        let statement = statement.replace("$1", array).replace("$2", array);
        assert!(world.db.query(&statement).is_empty());
        assert_eq!(world.db.count(&world.db.table(table)), 0);
        world.db.execute(&format!("begin; set local oncebox.begun = 'yes'; {statement}; commit"));
        assert_eq!(world.db.count(&world.db.table(table)), 1);
        world.db.execute(&format!("delete from {}", world.db.table(table)));
    }
}

/// BEGIN and the rows travel with other statements; whichever of them an operator cancels, no half of an event stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_cancelled_by_an_operator_leave_all_or_nothing() {
    let world = World::new(TestDatabase::fresh(Backend::Postgres)).await;
    let (stop, failed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let senders: Vec<_> = (0..4)
        .map(|sender| {
            let (stop, failed, store) = (stop.clone(), failed.clone(), world.store.clone());
            let rounds: Vec<Arc<[NewEvent]>> =
                (0..2_000).map(|round| three_kinds(&world, sender * 10_000 + round).into()).collect();
            tokio::spawn(async move {
                for events in rounds.iter().take_while(|_| !stop.load(Ordering::Relaxed)) {
                    let Ok(mut tx) = store.begin().await else { continue };
                    let inserted = insert_events(&mut tx, events).await;
                    if !(inserted.is_ok() && matches!(tx.commit().await, Commit::Committed)) {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    let started = Instant::now();
    while started.elapsed() < CANCEL_FOR || failed.load(Ordering::Relaxed) == 0 {
        assert!(started.elapsed() < CANCEL_MAX, "no statement was cancelled");
        let cancel = "select pg_cancel_backend(pid)::text from pg_stat_activity \
                      where datname = current_database() and application_name = 'oncebox'";
        world.db.query(cancel);
    }
    stop.store(true, Ordering::Relaxed);
    for sender in senders {
        sender.await.unwrap();
    }
    // A cancellation may still be on its way to a session; sessions of a new store are none of its business.
    world.store.close().await;
    let world = World { store: open(&world.db).await.unwrap(), ..world };
    wait_until_quiet(&world).await;
    world.check();
}
