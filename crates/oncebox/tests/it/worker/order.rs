//! Order: latest, serial, once per change, and waiting for a prerequisite.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use oncebox::RetryPolicy;
use oncebox::gateway::delivery::Failed;
use oncebox::gateway::delivery::order::order_key;
use oncebox::gateway::delivery::routing::NewDelivery;
use oncebox::gateway::lane::circuit::Reached;
use oncebox::gateway::store::{Claimed, NewEvent};
use oncebox::gateway::worker::handler::{
    CallError, HandlerSpec, Latest, OncePer, OrderRules, Otherwise, Target, WaitFor, Work, Working,
};
use oncebox_verify::BodyPointer;
use testkit::TestDatabase;

use super::{BILLING, effect, event, handler, sql, start, wait_while, world};
use crate::world::{World, typed};

fn pointer(text: &str) -> BodyPointer {
    BodyPointer::parse(text).unwrap()
}

fn states(world: &World) -> Vec<Vec<String>> {
    world.query(&format!("select event_id, state from {{deliveries_v1}} where handler = '{BILLING}' order by event_id"))
}

fn waiting(otherwise: Otherwise, within: Duration) -> OrderRules {
    let wait_for = WaitFor {
        event_type: "customer.created".into(),
        key: pointer("/customer"),
        on: pointer("/id"),
        within,
        otherwise,
    };
    OrderRules { wait_for: Some(wait_for), ..OrderRules::default() }
}

testkit::contract! {
    async fn only_the_newest_version_is_applied_last(db: TestDatabase) {
        let world = world(db).await;
        let latest = Latest { key: pointer("/id"), version: pointer("/v") };
        let order = OrderRules { latest: Some(latest), ..OrderRules::default() };
        let spec = HandlerSpec { order, ..handler(sql(&world, "insert into effects (event_id, n) values (:event_id, 1)")) };
        let workers = start(&world, vec![spec]);
        for (id, version) in [("a_3", 3), ("b_1", 1), ("c_5", 5), ("d_4", 4), ("e_5", 5)] {
            world.insert([event(&world, id, &format!(r#"{{"id":"sub","v":{version}}}"#))]).await;
            wait_while(&world, "'ready', 'claimed'").await;
        }
        assert_eq!(
            states(&world),
            [["a_3", "done"], ["b_1", "superseded"], ["c_5", "done"], ["d_4", "superseded"], ["e_5", "done"]]
        );
        assert_eq!(world.db.count("effects"), 3);
        workers.stop(Duration::from_secs(1)).await;
    }

    async fn versions_of_any_form_are_compared(db: TestDatabase) {
        let world = world(db).await;
        let latest = Latest { key: pointer("/id"), version: pointer("/v") };
        let order = OrderRules { latest: Some(latest), ..OrderRules::default() };
        let workers = start(&world, vec![HandlerSpec { order, ..handler(effect(&world)) }]);
        let pairs = [
            ("6", "5.5"),
            ("5.6", "5.5"),
            (r#""1355517523.000005""#, r#""1355517522.000005""#),
            (r#""2026-01-02 00:00:00""#, r#""2026-01-01 00:00:00""#),
            (r#""2026-01-02""#, r#""2026-01-01""#),
            (r#""2026-01-01T00:00:00.0000002Z""#, r#""2026-01-01T00:00:00.0000001Z""#),
            ("100000000000000000000", "10000000000000000000"),
        ];
        for nth in ["1_newer", "2_older", "3_equal"] {
            let version = |pair: &(&'static str, &'static str)| if nth == "2_older" { pair.1 } else { pair.0 };
            let events = pairs.iter().enumerate().map(|(object, pair)| {
                event(&world, &format!("{nth}_{object}"), &format!(r#"{{"id":"{object}","v":{}}}"#, version(pair)))
            });
            world.insert(events).await;
            wait_while(&world, "'ready', 'claimed'").await;
        }
        let superseded = world.query("select event_id from {deliveries_v1} where state = 'superseded' order by event_id");
        let expected: Vec<Vec<String>> = (0..pairs.len()).map(|object| vec![format!("2_older_{object}")]).collect();
        assert_eq!(superseded, expected);
        assert_eq!(world.db.count("effects"), 14);
        workers.stop(Duration::from_secs(1)).await;
    }

    async fn versions_in_one_batch_end_at_the_newest(db: TestDatabase) {
        let world = world(db).await;
        let objects = 0..10;
        let events = objects.flat_map(|object| [2, 9, 4, 7].map(|v| (object, v)));
        world.insert(events.map(|(object, v)| event(&world, &format!("{object}_{v}"), &format!(r#"{{"id":"{object}","v":{v}}}"#)))).await;
        let latest = Latest { key: pointer("/id"), version: pointer("/v") };
        let order = OrderRules { latest: Some(latest), ..OrderRules::default() };
        let workers = start(&world, vec![HandlerSpec { order, ..handler(effect(&world)) }]);
        wait_while(&world, "'ready', 'claimed'").await;
        // Whatever ran, the newest of each ran, and nothing older after it.
        assert_eq!(world.db.query("select count(*) from effects where event_id like '%9'"), [["10"]]);
        assert_eq!(world.query("select count(*) from {versions} where version = 9"), [["10"]]);
        workers.stop(Duration::from_secs(1)).await;
    }

    async fn one_at_a_time_per_key_in_the_order_of_arrival(db: TestDatabase) {
        let world = world(db).await;
        let order_of = |n: usize| NewEvent {
            handlers: vec![NewDelivery { handler: BILLING.into(), order_key: Some(order_key(&format!("key_{}", n % 7))) }],
            ..event(&world, &format!("{:04}", n), "{}")
        };
        world.insert((0..140).map(order_of)).await;
        let text = "insert into effects (event_id, n) select :event_id, count(*) from effects";
        let workers = start(&world, vec![handler(sql(&world, text))]);
        wait_while(&world, "'ready', 'claimed'").await;
        let rows = world.db.query("select event_id, n from effects order by n, event_id");
        assert_eq!(rows.len(), 140);
        let mut last = [0_usize; 7];
        for row in world.db.query("select event_id from effects order by n") {
            let number: usize = row[0].parse().unwrap();
            assert!(number / 7 + 1 > last[number % 7], "{number} after {}", last[number % 7]);
            last[number % 7] = number / 7 + 1;
        }
        workers.stop(Duration::from_secs(1)).await;
    }

    async fn two_ids_of_one_change_have_one_effect(db: TestDatabase) {
        let world = world(db).await;
        let once_per = OncePer { fields: vec![pointer("/type"), pointer("/object")], window: Duration::from_secs(600) };
        let order = OrderRules { once_per: Some(once_per), ..OrderRules::default() };
        world.insert([("a", 1), ("b", 1), ("c", 2)].map(|(id, object)| event(&world, id, &format!(r#"{{"type":"t","object":{object}}}"#)))).await;
        let workers = start(&world, vec![HandlerSpec { order, ..handler(effect(&world)) }]);
        wait_while(&world, "'ready', 'claimed'").await;
        assert_eq!(world.db.count("effects"), 2);
        assert_eq!(world.query("select count(*) from {deliveries} where state = 'superseded'"), [["1"]]);
        workers.stop(Duration::from_secs(1)).await;
    }

    async fn what_waits_runs_after_its_prerequisite(db: TestDatabase) {
        let world = world(db).await;
        let order = waiting(Otherwise::Dead, Duration::from_secs(600));
        let workers = start(&world, vec![HandlerSpec { order, ..handler(sql(&world, "insert into effects (event_id, n) select :event_id, count(*) from effects")) }]);
        world.insert([event(&world, "later", r#"{"customer":"cus_1"}"#)]).await;
        let waits = "select count(*) from {deliveries} where waits_for is not null and state = 'ready' and attempt = 0";
        crate::world::wait_until("it waits", || world.query(waits) == [["1"]]).await;
        assert_eq!(world.db.count("effects"), 0);
        world.insert([typed(event(&world, "first", r#"{"id":"cus_1"}"#), "customer.created")]).await;
        wait_while(&world, "'ready', 'claimed'").await;
        assert_eq!(world.db.query("select event_id from effects order by n"), [["first"], ["later"]]);
        workers.stop(Duration::from_secs(1)).await;
    }

    async fn a_prerequisite_that_never_comes_has_a_deadline(db: TestDatabase) {
        for (otherwise, state) in [(Otherwise::Run, "done"), (Otherwise::Dead, "dead")] {
            let fresh = TestDatabase::fresh(db.backend());
            let world = world(fresh).await;
            let order = waiting(otherwise, Duration::from_secs(1));
            let workers = start(&world, vec![HandlerSpec { order, ..handler(effect(&world)) }]);
            world.insert([event(&world, "later", r#"{"customer":"cus_1"}"#)]).await;
            wait_while(&world, "'ready', 'claimed'").await;
            assert_eq!(states(&world), [["later", state]]);
            workers.stop(Duration::from_secs(1)).await;
        }
    }

    async fn a_superseded_prerequisite_counts_as_done(db: TestDatabase) {
        let world = world(db).await;
        let latest = Latest { key: pointer("/id"), version: pointer("/v") };
        let order = OrderRules { latest: Some(latest), ..waiting(Otherwise::Dead, Duration::from_secs(600)) };
        let workers = start(&world, vec![HandlerSpec { order, ..handler(effect(&world)) }]);
        world.insert([event(&world, "d_invoice", r#"{"customer":"cus_1"}"#)]).await;
        let customer = |id, kind, v| typed(event(&world, id, &format!(r#"{{"id":"cus_1","v":{v}}}"#)), kind);
        world.insert([customer("b_updated", "customer.updated", 2)]).await;
        crate::world::wait_until("the newer one is applied", || world.db.count("effects") == 1).await;
        world.insert([customer("a_created", "customer.created", 1)]).await;
        wait_while(&world, "'ready', 'claimed'").await;
        world.insert([event(&world, "e_invoice", r#"{"customer":"cus_1"}"#)]).await;
        wait_while(&world, "'ready', 'claimed'").await;
        assert_eq!(
            states(&world),
            [["a_created", "superseded"], ["b_updated", "done"], ["d_invoice", "done"], ["e_invoice", "done"]]
        );
        workers.stop(Duration::from_secs(1)).await;
    }

    async fn what_waits_does_not_hold_up_its_own_prerequisite(db: TestDatabase) {
        let world = world(db).await;
        let order = waiting(Otherwise::Dead, Duration::from_secs(600));
        let text = "insert into effects (event_id, n) select :event_id, count(*) from effects";
        let workers = start(&world, vec![HandlerSpec { order, ..handler(sql(&world, text)) }]);
        let of_key = |new: NewEvent| NewEvent {
            handlers: vec![NewDelivery { handler: BILLING.into(), order_key: Some(order_key("cus_1")) }],
            ..new
        };
        let waiting = |id| of_key(event(&world, id, r#"{"customer":"cus_1"}"#));
        world.insert([waiting("b_paid"), waiting("c_closed")]).await;
        let waits = "select count(*) from {deliveries} where waits_for is not null and state = 'ready'";
        crate::world::wait_until("both wait", || world.query(waits) == [["2"]]).await;
        world.insert([of_key(typed(event(&world, "a_created", r#"{"id":"cus_1"}"#), "customer.created"))]).await;
        wait_while(&world, "'ready', 'claimed'").await;
        assert_eq!(world.db.query("select event_id from effects order by n"), [["a_created"], ["b_paid"], ["c_closed"]]);
        workers.stop(Duration::from_secs(1)).await;
    }

    async fn a_call_is_made_once_per_change_also_by_two_at_once(db: TestDatabase) {
        let world = world(db).await;
        let once_per = OncePer { fields: vec![pointer("/object")], window: Duration::from_secs(600) };
        let order = OrderRules { once_per: Some(once_per), ..OrderRules::default() };
        let calls = Arc::new(AtomicU32::new(0));
        world.insert(["a", "b", "c"].map(|id| event(&world, id, r#"{"object":1}"#))).await;
        let workers = start(&world, vec![HandlerSpec { order, ..handler(Work::Call(Arc::new(Slow(calls.clone())))) }]);
        wait_while(&world, "'ready', 'claimed'").await;
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        assert_eq!(world.query("select count(*) from {deliveries} where state = 'superseded'"), [["2"]]);
        workers.stop(Duration::from_secs(1)).await;
    }

    async fn a_call_that_failed_is_made_again_and_supersedes_older_ones(db: TestDatabase) {
        let world = world(db).await;
        let latest = Latest { key: pointer("/id"), version: pointer("/v") };
        let order = OrderRules { latest: Some(latest), ..OrderRules::default() };
        let calls = Arc::new(AtomicU32::new(0));
        let target = Work::Call(Arc::new(FailsFirst(calls.clone())));
        let retry = RetryPolicy { attempts: 3, base: Duration::from_secs(1), cap: Duration::from_secs(1) };
        world.insert([event(&world, "b_newer", r#"{"id":"sub","v":2}"#)]).await;
        let workers = start(&world, vec![HandlerSpec { order, retry, ..handler(target) }]);
        crate::world::wait_until("the first call", || calls.load(Ordering::SeqCst) > 0).await;
        world.insert([event(&world, "a_older", r#"{"id":"sub","v":1}"#)]).await;
        wait_while(&world, "'ready', 'claimed'").await;
        assert_eq!(states(&world), [["a_older", "superseded"], ["b_newer", "done"]]);
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        workers.stop(Duration::from_secs(1)).await;
    }
}

/// Counts its calls and takes its time.
#[derive(Debug)]
struct Slow(Arc<AtomicU32>);

impl Target for Slow {
    fn call<'a>(&'a self, _event: &'a Claimed) -> Working<'a, Result<(), CallError>> {
        Box::pin(async move {
            self.0.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(500)).await;
            Ok(())
        })
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(5)
    }
}

/// Fails the first call: whether it reached anybody is not known.
#[derive(Debug)]
struct FailsFirst(Arc<AtomicU32>);

impl Target for FailsFirst {
    fn call<'a>(&'a self, _event: &'a Claimed) -> Working<'a, Result<(), CallError>> {
        Box::pin(async move {
            if self.0.fetch_add(1, Ordering::SeqCst) > 0 {
                return Ok(());
            }
            let failed = Failed::Transient { retry_after: None };
            Err(CallError { error: "no answer".to_owned(), status: None, failed, reached: Reached::Unknown })
        })
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(5)
    }
}
