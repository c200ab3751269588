//! Effects in the transaction of their mark.

use std::time::Duration;

use oncebox::gateway::delivery::Failed;
use oncebox::gateway::store::{Claimed, Failures, Finished, HandlerSql, RanEach, Tx};
use testkit::{Backend, TestDatabase};

use super::{claim, processing, states};
use crate::world::{ALL, NOW, World, committed, run_handler};

const DEADLINE: Duration = Duration::from_secs(5);

async fn with_effects(db: TestDatabase) -> World {
    let world = processing(db).await;
    world.db.execute("create table effects (id text, key text, attempt integer, body text, at text, source text)");
    world
}

fn parse(world: &World, sql: &str) -> HandlerSql {
    HandlerSql::parse(sql, world.store.dialect()).unwrap()
}

fn endless(world: &World) -> &'static str {
    match world.db.backend() {
        Backend::Sqlite => "with recursive n (i) as (select 1 union all select i + 1 from n) select count(*) from n",
        Backend::Postgres => "select pg_sleep(60)",
    }
}

async fn run(world: &World, sql: &str, batch: &[Claimed]) -> (Tx, RanEach) {
    let mut tx = world.store.begin().await.unwrap();
    let ran = run_handler(&mut tx, &parse(world, sql), batch, DEADLINE).await.unwrap();
    (tx, ran)
}

testkit::contract! {
    async fn effects_and_marks_commit_together(db: TestDatabase) {
        let world = with_effects(db).await;
        world.insert((0..40).map(|n| world.event(&format!("evt_{n:02}"), r#"{"a":"ü"}"#))).await;
        let batch = claim(&world, 100).await;
        let sql = "insert into effects (id, key, attempt, body, source) values (:event_id, :key, :attempt, :body, :source); \
                   select count(*) from effects where id = :event_id; -- done\n";
        let (mut tx, ran) = run(&world, sql, &batch).await;
        assert_eq!(ran, ALL);
        let fences: Vec<_> = batch.iter().map(|one| one.fence).collect();
        assert_eq!(tx.finish(&fences, NOW).await.unwrap(), Finished::All);
        assert_eq!(world.db.count("effects"), 0, "nothing shows before the commit");
        committed(tx).await.unwrap();
        assert_eq!(world.db.count("effects"), 40);
        let row = world.db.query("select id, attempt, body, source from effects order by id limit 1");
        assert_eq!(row, [["evt_00", "1", r#"{"a":"ü"}"#, "src"]]);
        assert_eq!(world.db.query("select key from effects order by id limit 1")[0][0], batch.iter().find(|one| one.event_id == "evt_00").unwrap().key.to_string());
        assert!(states(&world).iter().all(|row| row[0] == "done"));
    }

    async fn what_runs_apart_commits_and_rolls_back_alike(db: TestDatabase) {
        let world = with_effects(db).await;
        world.insert((0..2).map(|n| world.event(&format!("evt_{n}"), "{}"))).await;
        let batch = claim(&world, 2).await;
        let sql = parse(&world, "insert into effects (id) values (:event_id)");
        for (one, effects) in batch.chunks(1).zip([0, 1]) {
            let mut tx = world.store.begin_isolated().await.unwrap();
            assert_eq!(run_handler(&mut tx, &sql, one, DEADLINE).await.unwrap(), ALL);
            if effects == 0 {
                tx.rollback().await;
            } else {
                assert_eq!(tx.finish(&[one[0].fence], NOW).await.unwrap(), Finished::All);
                committed(tx).await.unwrap();
            }
            assert_eq!(world.db.count("effects"), effects);
        }
    }

    async fn the_failing_event_is_named_and_nothing_commits(db: TestDatabase) {
        let world = with_effects(db).await;
        world.db.execute("create table strict (id text check (id <> 'evt_2'))");
        world.insert((0..5).map(|n| world.event(&format!("evt_{n}"), "{}"))).await;
        let mut batch = claim(&world, 100).await;
        let sql = "insert into effects (id) values (:event_id); insert into strict values (:event_id)";
        let (mut tx, ran) = run(&world, sql, &batch).await;
        let bad = batch.iter().position(|one| one.event_id == "evt_2").unwrap();
        assert!(matches!(&ran, RanEach::Stopped { at: Some(at), failed: Failed::Transient { .. }, error, session_lost: false }
            if *at == bad && error.to_lowercase().contains("check")), "{ran:?}");
        let fences: Vec<_> = batch.iter().map(|one| one.fence).collect();
        let _ = tx.finish(&fences, NOW).await;
        assert!(committed(tx).await.is_err());
        assert_eq!(world.db.count("effects"), 0);
        batch.remove(bad);
        let (mut tx, ran) = run(&world, sql, &batch).await;
        assert_eq!(ran, ALL);
        let fences: Vec<_> = batch.iter().map(|one| one.fence).collect();
        assert_eq!(tx.finish(&fences, NOW).await.unwrap(), Finished::All);
        committed(tx).await.unwrap();
        assert_eq!(world.db.count("effects"), 4);
    }

    /// Two statements an event, so that the first leaves something to be undone.
    async fn failing_events_are_undone_alone(db: TestDatabase) {
        let world = with_effects(db).await;
        world.db.execute("create table strict (id text check (id not like '%bad'))");
        // Alone, side by side, first and last of a chunk, and many of them.
        let is_bad = |n: usize| matches!(n, 0 | 7 | 8 | 63 | 64) || (100..140).contains(&n) && n.is_multiple_of(2);
        let name = |n: usize| format!("evt_{n:03}{}", if is_bad(n) { "_bad" } else { "" });
        world.insert((0..150).map(|n| world.event(&name(n), if n == 9 { "a\0b" } else { "{}" }))).await;
        let mut batch = claim(&world, 200).await;
        batch.sort_by(|a, b| a.event_id.cmp(&b.event_id));
        let sql = "insert into effects (id, body) values (:event_id, :body); insert into strict values (:event_id)";
        let mut tx = world.store.begin().await.unwrap();
        let all: Vec<&Claimed> = batch.iter().collect();
        let ran = tx.run_each(&parse(&world, sql), &all, Failures::Apart, DEADLINE).await.unwrap();
        let RanEach::Written(failed) = ran else { panic!("{ran:?}") };
        let mut places: Vec<usize> = failed.iter().map(|one| one.index).collect();
        places.sort_unstable();
        assert_eq!(places, (0..150).filter(|n| is_bad(*n) || *n == 9).collect::<Vec<_>>());
        let is_permanent = |index: usize| failed.iter().any(|one| one.index == index && one.failed == Failed::Permanent);
        assert!(is_permanent(9) && !is_permanent(8), "{failed:?}");
        let good = batch.iter().enumerate().filter(|(place, _)| !places.contains(place));
        let fences: Vec<_> = good.map(|(_, one)| one.fence).collect();
        assert_eq!(tx.finish(&fences, NOW).await.unwrap(), Finished::All);
        committed(tx).await.unwrap();
        let effects = world.db.query("select count(*), count(distinct id) from effects");
        assert_eq!(effects, [[fences.len().to_string(), fences.len().to_string()]]);
        assert_eq!(world.db.query("select count(*) from effects where id like '%bad'"), [["0"]]);
    }

    async fn what_stands_together_falls_together(db: TestDatabase) {
        let world = with_effects(db).await;
        world.db.execute("create table strict (id text check (id <> 'evt_2'))");
        world.insert((0..5).map(|n| world.event(&format!("evt_{n}"), "{}"))).await;
        let batch = claim(&world, 100).await;
        let all: Vec<&Claimed> = batch.iter().collect();
        let sql = parse(&world, "insert into strict values (:event_id)");
        let mut tx = world.store.begin().await.unwrap();
        let ran = tx.run_each(&sql, &all, Failures::Together, DEADLINE).await.unwrap();
        assert!(matches!(&ran, RanEach::Stopped { at: Some(at), session_lost: false, .. } if batch[*at].event_id == "evt_2"), "{ran:?}");
        assert!(committed(tx).await.is_err());
        assert_eq!(world.db.count("strict"), 0);
    }

    async fn a_body_that_is_no_text_fails_for_good_unless_bytes_are_asked_for(db: TestDatabase) {
        let world = with_effects(db).await;
        world.insert_one(world.event("evt_1", "a\0b")).await;
        let batch = claim(&world, 1).await;
        let (tx, ran) = run(&world, "insert into effects (body) values (:body)", &batch).await;
        assert!(matches!(&ran, RanEach::Stopped { failed: Failed::Permanent, error, .. } if error.contains(":body_bytes")), "{ran:?}");
        drop(tx);
        let (tx, ran) = run(&world, "insert into effects (attempt) values (length(:body_bytes))", &batch).await;
        assert_eq!(ran, ALL);
        committed(tx).await.unwrap();
        assert_eq!(world.db.query("select attempt from effects"), [["3"]]);
    }

    async fn the_time_is_bound_as_a_time(db: TestDatabase) {
        let world = with_effects(db).await;
        world.insert_one(world.event("evt_1", "{}")).await;
        let batch = claim(&world, 1).await;
        let sql = match world.db.backend() {
            Backend::Sqlite => "insert into effects (at) values (:received_at)",
            Backend::Postgres => {
                "insert into effects (at) select to_char(:received_at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"
            }
        };
        let (tx, ran) = run(&world, sql, &batch).await;
        assert_eq!(ran, ALL);
        committed(tx).await.unwrap();
        assert_eq!(world.db.query("select at from effects"), [["2024-11-15T19:46:40.123Z"]]);
    }

    async fn a_deadline_counts_the_work_and_not_the_line(db: TestDatabase) {
        let world = with_effects(db).await;
        world.insert((0..2).map(|n| world.event(&format!("evt_{n}"), "{}"))).await;
        let batch = claim(&world, 2).await;
        let sql = parse(&world, "insert into effects (id) values (:event_id)");
        let mut first = world.store.begin().await.unwrap();
        first.turn().await.unwrap();
        let (store, behind, same) = (world.store.clone(), batch[1].clone(), sql.clone());
        let waiting = tokio::spawn(async move {
            let mut tx = store.begin().await.unwrap();
            tx.turn().await.unwrap();
            assert_eq!(run_handler(&mut tx, &same, std::slice::from_ref(&behind), DEADLINE).await.unwrap(), ALL);
            assert_eq!(tx.finish(&[behind.fence], NOW).await.unwrap(), Finished::All);
            committed(tx).await.unwrap();
        });
        // Longer than the deadline of whoever stands behind.
        tokio::time::sleep(DEADLINE + Duration::from_millis(500)).await;
        // Postgres lets others write meanwhile, and ends a transaction that does nothing for so long.
        if world.db.backend() == Backend::Sqlite {
            assert_eq!(run_handler(&mut first, &sql, &batch[..1], DEADLINE).await.unwrap(), ALL);
            assert_eq!(first.finish(&[batch[0].fence], NOW).await.unwrap(), Finished::All);
            committed(first).await.unwrap();
        }
        waiting.await.unwrap();
        assert_eq!(world.db.count("effects"), if world.db.backend() == Backend::Sqlite { 2 } else { 1 });
    }

    async fn a_statement_ends_at_its_deadline_though_nobody_waits(db: TestDatabase) {
        let world = with_effects(db).await;
        world.insert_one(world.event("evt_1", "{}")).await;
        let batch = claim(&world, 1).await;
        let (store, endless, claims) = (world.store.clone(), parse(&world, endless(&world)), batch.clone());
        let running = tokio::spawn(async move {
            let mut tx = store.begin().await.unwrap();
            run_handler(&mut tx, &endless, &claims, Duration::from_secs(1)).await.map(drop)
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        running.abort();
        let next = tokio::time::timeout(Duration::from_secs(60), run(&world, "select 1", &batch)).await;
        assert_eq!(next.expect("the line moves on").1, ALL);
    }

    async fn a_statement_ends_at_its_deadline(db: TestDatabase) {
        let world = with_effects(db).await;
        world.insert_one(world.event("evt_1", "{}")).await;
        let batch = claim(&world, 1).await;
        let mut tx = world.store.begin().await.unwrap();
        let ran = run_handler(&mut tx, &parse(&world, endless(&world)), &batch, Duration::from_millis(200)).await.unwrap();
        assert!(matches!(ran, RanEach::Stopped { at: Some(0), failed: Failed::Transient { .. }, session_lost: false, .. }), "{ran:?}");
        assert!(committed(tx).await.is_err());
        assert_eq!(run(&world, "select 1", &batch).await.1, ALL);
    }
}
