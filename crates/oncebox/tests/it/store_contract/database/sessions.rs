//! Connections to Postgres after a transaction: kept after every clean end, and as clean as they were.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use oncebox::Once;
use oncebox::gateway::store::{Claimed, Commit, HandlerSql, Inserted, NewEvent, RanEach, Settled, Tx, insert_events};
use oncebox_verify::OnRepeat;
use testkit::database::postgres_query;
use testkit::postgres::{Cluster, Options};
use testkit::{Backend, TestDatabase};

use crate::application::{self, End};
use crate::store_contract::deliveries::{claim, processing};
use crate::world::{ALL, World, committed, fingerprinted, run_handler};

const DEADLINE: Duration = Duration::from_secs(5);

/// The processes of the server that work for the store.
fn sessions(world: &World) -> BTreeSet<String> {
    let sql = "select pid from pg_stat_activity where datname = current_database() and application_name = 'oncebox'";
    world.db.query(sql).into_iter().map(|mut row| row.remove(0)).collect()
}

async fn run(world: &World, sql: &str, batch: &[Claimed]) -> (Tx, RanEach) {
    let sql = HandlerSql::parse(sql, world.store.dialect()).unwrap();
    let mut tx = world.store.begin().await.unwrap();
    let ran = run_handler(&mut tx, &sql, batch, DEADLINE).await.unwrap();
    (tx, ran)
}

async fn with_claim(db: TestDatabase) -> (World, Vec<Claimed>) {
    let world = processing(db).await;
    world.db.execute("create table seen (what text check (what <> 'bad'), n serial)");
    world.db.execute("create table late (n integer unique deferrable initially deferred)");
    world.insert_one(world.event("evt_1", "{}")).await;
    let batch = claim(&world, 1).await;
    (world, batch)
}

#[test]
fn a_transaction_that_was_rolled_back_keeps_its_connection() {
    testkit::database::run(Backend::Postgres, async |db| {
        let (world, batch) = with_claim(db).await;
        let before = sessions(&world);
        for _ in 0..20 {
            let (tx, ran) = run(&world, "insert into seen (what) values ('bad')", &batch).await;
            assert!(matches!(ran, RanEach::Stopped { session_lost: false, .. }), "{ran:?}");
            tx.rollback().await;
            // Refused by the server at the very end.
            let (tx, ran) = run(&world, "insert into late values (1), (1)", &batch).await;
            assert_eq!(ran, ALL);
            assert!(committed(tx).await.is_err());
        }
        assert_eq!(sessions(&world), before);
        assert_eq!((world.db.count("seen"), world.db.count("late")), (0, 0));
    });
}

#[test]
fn statements_that_end_their_session_apart_cost_nobody_else_one() {
    testkit::database::run(Backend::Postgres, async |db| {
        let (world, batch) = with_claim(db).await;
        let before = sessions(&world);
        let deadly = "insert into seen (what) select 'x' where pg_terminate_backend(pg_backend_pid())";
        let deadly = HandlerSql::parse(deadly, world.store.dialect()).unwrap();
        for _ in 0..3 {
            let mut tx = world.store.begin_isolated().await.unwrap();
            let ran = run_handler(&mut tx, &deadly, &batch, DEADLINE).await;
            assert!(!matches!(&ran, Ok(ran) if *ran == ALL), "{ran:?}");
            tx.rollback().await;
            let (tx, ran) = run(&world, "insert into seen (what) values ('good')", &batch).await;
            assert_eq!(ran, ALL);
            committed(tx).await.unwrap();
        }
        assert!(sessions(&world).is_superset(&before), "those of the pool are the same");
        assert_eq!(world.db.count("seen"), 3);
    });
}

#[test]
fn a_transaction_without_a_clean_end_closes_its_connection() {
    testkit::database::run(Backend::Postgres, async |db| {
        let (world, batch) = with_claim(db).await;
        let (tx, ran) = run(&world, "insert into seen (what) select 'pid ' || pg_backend_pid()", &batch).await;
        assert_eq!(ran, ALL);
        let sleeping = "select pid from pg_stat_activity where datname = current_database() and state like 'idle in%'";
        let pid = world.db.query(sleeping)[0][0].clone();
        drop(tx);
        crate::world::wait_until("its session is gone", || !sessions(&world).contains(&pid)).await;
        assert_eq!(world.db.count("seen"), 0);
    });
}

#[test]
fn what_a_handler_sets_ends_with_its_transaction() {
    testkit::database::run(Backend::Postgres, async |db| {
        let (world, batch) = with_claim(db).await;
        let look = "insert into seen (what) select concat_ws(' ', pg_backend_pid(), current_setting('work_mem'), \
                    current_setting('idle_in_transaction_session_timeout'), current_user, (select count(*) from pg_locks l \
                    where l.locktype = 'advisory' and l.pid = pg_backend_pid()), to_regclass('pg_temp.own'))";
        let seen = async || {
            let (tx, ran) = run(&world, look, &batch).await;
            assert_eq!(ran, ALL);
            committed(tx).await.unwrap();
            world.db.query("select what from seen order by n desc limit 1")
        };
        let before = seen().await;
        assert!(before[0][0].contains(" 5s "), "{before:?}: what we set ourselves must be there");
        for traces in [
            "set work_mem = '7MB'; set idle_in_transaction_session_timeout = 0",
            "select set_config('work_mem', '7MB', false), set_config('idle_in_transaction_session_timeout', '0', false)",
            "set role pg_monitor",
            "select pg_advisory_lock(7)",
            "create temporary table own (n integer)",
            "do $$ begin perform set_config('work_mem', '7MB', false); end $$",
        ] {
            let (tx, ran) = run(&world, traces, &batch).await;
            assert_eq!(ran, ALL, "{traces}");
            committed(tx).await.unwrap();
            assert_eq!(seen().await, before, "{traces}");
            let (tx, _) = run(&world, &format!("{traces}; insert into seen (what) values ('bad')"), &batch).await;
            tx.rollback().await;
            assert_eq!(seen().await, before, "{traces}, rolled back");
        }
    });
}

/// Waits until somebody on this database waits for a lock of somebody else.
async fn until_somebody_waits(world: &World) {
    let waiting =
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    while world.db.query(waiting) == [["0"]] {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn a_stricter_isolation_level_by_default_is_not_ours() {
    for level in ["repeatable read", "serializable"] {
        testkit::database::run(Backend::Postgres, async |db| {
            let (_, name) = db.url().rsplit_once('/').expect("a URL names a database");
            db.execute(&format!("alter database {name} set default_transaction_isolation = '{level}'"));
            let world = World::new(db).await;
            for ingest in [true, false] {
                let event = || world.event(&format!("evt_{ingest}"), "a");
                let begin = async || match ingest {
                    true => world.store.begin_ingest().await.unwrap(),
                    false => world.store.begin().await.unwrap(),
                };
                let mut first = begin().await;
                insert_events(&mut first, &[event()].into()).await.unwrap();
                let second = async {
                    let mut tx = begin().await;
                    let outcome = insert_events(&mut tx, &[event()].into()).await;
                    tx.rollback().await;
                    outcome
                };
                let release = async {
                    until_somebody_waits(&world).await;
                    committed(first).await.unwrap();
                };
                let (outcome, ()) = tokio::join!(second, release);
                let outcome = outcome.unwrap_or_else(|error| panic!("{level}: {}", error.chain()));
                assert!(matches!(outcome[..], [Inserted::Duplicate(_)]), "{level}: {outcome:?}");
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_stopped_waiting_for_the_standby_is_unknown() {
    let cluster = Cluster::start(Options::default());
    let (world, batch) = with_claim(TestDatabase::fresh_on(&cluster)).await;
    world.db.execute("alter system set synchronous_standby_names = 'nobody'");
    world.db.execute("select pg_reload_conf()");
    while world.db.query("show synchronous_standby_names") != [["nobody"]] {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (tx, ran) = run(&world, "insert into seen (what) values ('good')", &batch).await;
    assert_eq!(ran, ALL);
    let (outcome, _) = tokio::join!(tx.commit(), cancel_wait(&world));
    let Commit::Unknown(error) = outcome else { panic!("{outcome:?}") };
    assert!(error.chain().contains("synchronous replication"), "{}", error.chain());
    // It is here all the same, and who looks finds it.
    assert_eq!(world.db.query("select what from seen"), [["good"]]);
    world.db.execute("alter system reset synchronous_standby_names");
    world.db.execute("select pg_reload_conf()");
}

/// Ends the wait of whoever waits for the standby; false where nobody does.
async fn cancel_wait(world: &World) -> bool {
    let cancel = "select count(pg_cancel_backend(pid)) from pg_stat_activity where wait_event = 'SyncRep'";
    let begun = Instant::now();
    while begun.elapsed() < DEADLINE {
        if world.db.query(cancel) != [["0"]] {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

/// A batch that writes nothing would commit without a word of the standby, and what it saw might be on one disk alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_duplicate_waits_for_the_standby_as_a_new_event_does() {
    let cluster = Cluster::start(Options::default());
    let world = World::new(TestDatabase::fresh_on(&cluster)).await;
    let plain = |nth: i32| world.event(&format!("evt_{nth}"), "a");
    let signed = || fingerprinted(world.event("signed", "b"), OnRepeat::Hold);
    world.insert((0..8).map(plain).chain([signed()])).await;
    let once = async || application::once(&world.db, "charges", &["ch_1"], End::Commit).await.unwrap();
    assert_eq!(once().await, [Once::Fresh]);
    world.db.execute("alter system set synchronous_standby_names = 'nobody'");
    world.db.execute("select pg_reload_conf()");
    while world.db.query("show synchronous_standby_names") != [["nobody"]] {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let one = || vec![plain(0)];
    let few = || (0..8).map(plain).collect::<Vec<_>>();
    for (what, batch) in [
        ("one", one()),
        ("several", few()),
        ("several, looked for first", few()),
        ("one, looked for first", one()),
        ("with a second referee", vec![signed()]),
        ("with a second referee, and others", vec![signed(), plain(1)]),
    ] {
        let batch: Arc<[NewEvent]> = batch.into();
        let (outcome, waited) = tokio::join!(world.store.insert(&batch), cancel_wait(&world));
        assert!(waited, "{what}: it did not wait");
        assert!(matches!(outcome, Ok(Settled::Unknown(_))), "{what}: {outcome:?}");
    }
    let (answer, waited) = tokio::join!(once(), cancel_wait(&world));
    assert_eq!((answer, waited), (vec![Once::Duplicate], true), "once");
    let in_sql = tokio::task::spawn_blocking({
        let url = world.db.url().to_owned();
        move || postgres_query(&url, "select oncebox.once('charges', 'ch_1')")
    });
    let (answer, waited) = tokio::join!(in_sql, cancel_wait(&world));
    assert_eq!((answer.unwrap(), waited), (vec![vec!["f".to_owned()]], true), "once in SQL");
    world.db.execute("alter system reset synchronous_standby_names");
    world.db.execute("select pg_reload_conf()");
}

#[test]
fn a_warning_of_the_application_is_no_doubt() {
    testkit::database::run(Backend::Postgres, async |db| {
        let (world, batch) = with_claim(db).await;
        world.db.execute(
            "create function warn() returns trigger language plpgsql as $$ begin raise warning 'late'; return null; end $$; \
             create constraint trigger warn after insert on seen deferrable initially deferred \
             for each row execute function warn()",
        );
        let (tx, ran) = run(&world, "insert into seen (what) values ('good')", &batch).await;
        assert_eq!(ran, ALL);
        committed(tx).await.unwrap();
    });
}
