//! Units of work: what fails, fails alone.

use std::sync::Arc;
use std::time::Duration;

use oncebox::gateway::worker::handler::{HandlerSpec, Work};
use testkit::TestDatabase;

use super::{BILLING, Moody, effect, event, handler, sql, start, wait_while, world};
use crate::world::World;

fn outcomes(world: &World) -> Vec<Vec<String>> {
    world.query(&format!(
        "select event_id, state, attempt from {{deliveries_v1}} where handler = '{BILLING}' and state <> 'done' order by event_id"
    ))
}

testkit::contract! {
    async fn every_event_has_its_effect_once(db: TestDatabase) {
        let world = world(db).await;
        world.insert((0..500).map(|n| event(&world, &format!("evt_{n}"), "{}"))).await;
        let workers = [1, 2].map(|_| start(&world, vec![handler(effect(&world))]));
        wait_while(&world, "'ready', 'claimed'").await;
        assert_eq!(world.db.query("select count(*), count(distinct event_id) from effects"), [["500", "500"]]);
        for worker in workers {
            worker.stop(Duration::from_secs(1)).await;
        }
    }

    async fn panics_rejections_and_failures_are_their_own(db: TestDatabase) {
        let world = world(db).await;
        let ids = (0..40).map(|n| format!("fine_{n}")).chain(["panic_1", "reject_1", "retry_1", "panic_2"].map(str::to_owned));
        world.insert(ids.map(|id| event(&world, &id, "{}"))).await;
        let workers = start(&world, vec![handler(Work::Call(Arc::new(Moody)))]);
        wait_while(&world, "'ready', 'claimed'").await;
        assert_eq!(
            outcomes(&world),
            [["panic_1", "dead", "3"], ["panic_2", "dead", "3"], ["reject_1", "dead", "1"], ["retry_1", "dead", "3"]]
        );
        workers.stop(Duration::from_secs(1)).await;
    }

    async fn a_body_that_statements_cannot_take_is_dead_at_once(db: TestDatabase) {
        let world = world(db).await;
        world.db.execute("create table strict (id text check (id not like 'retry%'), body text)");
        let ids = (0..20).map(|n| format!("fine_{n}")).chain(["reject_1", "retry_1"].map(str::to_owned));
        world.insert(ids.map(|id| event(&world, &id, if id == "reject_1" { "a\0b" } else { "{}" }))).await;
        let text = "insert into strict (id, body) values (:event_id, :body)";
        let workers = start(&world, vec![handler(sql(&world, text))]);
        wait_while(&world, "'ready', 'claimed'").await;
        assert_eq!(outcomes(&world), [["reject_1", "dead", "1"], ["retry_1", "dead", "3"]]);
        assert_eq!(world.db.count("strict"), 20);
        workers.stop(Duration::from_secs(1)).await;
    }

    async fn statements_that_are_refused_cost_their_event_alone(db: TestDatabase) {
        let world = world(db).await;
        world.db.execute("create table strict (id text check (id not like 'bad%'))");
        let text = "insert into effects (event_id) values (:event_id); insert into strict values (:event_id)";
        let id = |n: usize| if n % 50 == 20 || n >= 590 { format!("bad_{n}") } else { format!("evt_{n}") };
        world.insert((0..600).map(|n| event(&world, &id(n), "{}"))).await;
        let workers = start(&world, vec![handler(sql(&world, text))]);
        wait_while(&world, "'ready', 'claimed'").await;
        let expected = (0..600).map(id).filter(|id| id.starts_with("bad")).count();
        let outcomes = outcomes(&world);
        assert_eq!(outcomes.len(), expected);
        assert!(outcomes.iter().all(|one| one[0].starts_with("bad") && one[1..] == ["dead", "3"]), "{outcomes:?}");
        let good = (600 - expected).to_string();
        assert_eq!(world.db.query("select count(*), count(distinct event_id) from effects"), [[good.clone(), good]]);
        let recorded = format!("select outcome, count(*) from {} group by outcome order by 1", world.db.table("attempts"));
        let (dead, failed) = (expected.to_string(), (2 * expected).to_string());
        assert_eq!(world.db.query(&recorded), [["dead".to_owned(), dead], ["failed".to_owned(), failed]]);
        workers.stop(Duration::from_secs(1)).await;
    }

    async fn what_never_ends_is_cut_off_before_its_lease(db: TestDatabase) {
        let world = world(db).await;
        world.insert(["slow_1", "fine_1", "fine_2"].map(|id| event(&world, id, "{}"))).await;
        let spec = HandlerSpec { lease: Duration::from_secs(2), ..handler(Work::Call(Arc::new(Moody))) };
        let workers = start(&world, vec![spec]);
        wait_while(&world, "'ready', 'claimed'").await;
        assert_eq!(outcomes(&world), [["slow_1", "dead", "3"]]);
        workers.stop(Duration::from_secs(1)).await;
    }

    async fn a_paused_handler_is_left_alone(db: TestDatabase) {
        let world = world(db).await;
        let workers = start(&world, vec![handler(effect(&world))]);
        world.store.register_handlers(&[handler(effect(&world)).facts()]).await.unwrap();
        assert!(world.pause(BILLING, true).await);
        world.insert([event(&world, "evt_1", "{}")]).await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(outcomes(&world), [["evt_1", "ready", "0"]]);
        world.pause(BILLING, false).await;
        wait_while(&world, "'ready', 'claimed'").await;
        workers.stop(Duration::from_secs(1)).await;
    }

    async fn a_statement_that_takes_too_long_costs_its_event_alone(db: TestDatabase) {
        let world = world(db).await;
        // Counts for a long time where the id says so.
        let text = "insert into effects (event_id, n) with recursive c(i) as (select 1 union all select i + 1 from c \
            where i < case when :event_id = 'slow_1' then 2000000000 else 1 end) select :event_id, count(*) from c";
        world.insert(["fine_1", "slow_1", "fine_2"].map(|id| event(&world, id, "{}"))).await;
        let spec = HandlerSpec { lease: Duration::from_secs(2), ..handler(sql(&world, text)) };
        let workers = start(&world, vec![spec]);
        wait_while(&world, "'ready', 'claimed'").await;
        assert_eq!(outcomes(&world), [["slow_1", "dead", "3"]]);
        assert_eq!(world.db.query("select count(*), count(distinct event_id) from effects"), [["2", "2"]]);
        workers.stop(Duration::from_secs(1)).await;
    }
}

/// Statements that make their transaction unfit for the mark: they fail like any other, and others do not notice.
#[test]
fn statements_that_keep_the_mark_from_being_written_cost_their_event_alone() {
    testkit::database::run(testkit::Backend::Postgres, async |db| {
        let world = world(db).await;
        world.db.execute(
            "create function seal(id text) returns void language plpgsql as $$ begin \
            if id = 'sealed' then set transaction read only; end if; \
            if id = 'barred' then set local role pg_monitor; end if; end $$",
        );
        let text = "insert into effects (event_id) values (:event_id); select seal(:event_id)";
        let ids = (0..20).map(|n| format!("evt_{n}")).chain(["sealed", "barred"].map(str::to_owned));
        world.insert(ids.map(|id| event(&world, &id, "{}"))).await;
        let workers = start(&world, vec![handler(sql(&world, text))]);
        wait_while(&world, "'ready', 'claimed'").await;
        assert_eq!(outcomes(&world), [["barred", "dead", "3"], ["sealed", "dead", "3"]]);
        assert_eq!(world.db.query("select count(*), count(distinct event_id) from effects"), [["20", "20"]]);
        let errors = world.query("select last_error from {deliveries_v1} where state = 'dead' order by event_id");
        assert!(errors.iter().all(|one| one[0].contains("cannot be marked in the same transaction")), "{errors:?}");
        workers.stop(Duration::from_secs(1)).await;
    });
}

/// Whoever runs its statements as another role needs no rights on our tables.
#[test]
fn statements_may_run_as_another_role() {
    testkit::database::run(testkit::Backend::Postgres, async |db| {
        let world = world(db).await;
        world.db.execute("grant insert on effects to pg_monitor");
        let text = "set local role pg_monitor; insert into effects (event_id) values (:event_id)";
        world.insert((0..20).map(|n| event(&world, &format!("evt_{n}"), "{}"))).await;
        let workers = start(&world, vec![handler(sql(&world, text))]);
        wait_while(&world, "'ready', 'claimed'").await;
        assert_eq!(outcomes(&world), [[""; 3]; 0]);
        assert_eq!(world.db.query("select count(*), count(distinct event_id) from effects"), [["20", "20"]]);
        workers.stop(Duration::from_secs(1)).await;
    });
}

/// The nearest that a statement can come to killing a worker.
#[test]
fn a_statement_that_ends_its_session_costs_its_event_alone() {
    testkit::database::run(testkit::Backend::Postgres, async |db| {
        let world = world(db).await;
        let text = "insert into effects (event_id) select :event_id from (select case when :event_id = 'evt_9' then \
            pg_terminate_backend(pg_backend_pid()) else true end) as ended";
        world.insert((0..20).map(|n| event(&world, &format!("evt_{n}"), "{}"))).await;
        let workers = start(&world, vec![handler(sql(&world, text))]);
        wait_while(&world, "'ready', 'claimed'").await;
        assert_eq!(outcomes(&world), [["evt_9", "dead", "3"]]);
        assert_eq!(world.db.query("select count(*), count(distinct event_id) from effects"), [["19", "19"]]);
        workers.stop(Duration::from_secs(1)).await;
    });
}
