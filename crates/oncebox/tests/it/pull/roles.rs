//! The role script: a consumer can do its work and nothing else, a reader can read the views and nothing else.

use testkit::{Backend, Session};

use crate::store_contract::deliveries::processing;
use crate::world::World;

const ROLES: &str = include_str!("../../../../../docs/sql/roles.sql");

fn run<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    testkit::database::run(Backend::Postgres, async |db| {
        let world = processing(db).await;
        world.db.execute(&format!("begin; {ROLES}; commit"));
        test(world).await;
    });
}

async fn session(world: &World, role: &str) -> Session {
    let session = Session::open(world.db.url()).await;
    session.query(&format!("set role {role}")).await.unwrap();
    session
}

async fn check_denied(session: &Session, statements: &[&str]) {
    for sql in statements {
        let denied = session.query(sql).await.expect_err(sql);
        assert_eq!(denied.sqlstate, "42501", "{sql}: {denied:?}");
    }
}

#[test]
fn a_consumer_can_do_its_work() {
    run(async |world| {
        world.insert((0..5).map(|n| world.event(&format!("evt_{n}"), "a"))).await;
        let consumer = session(&world, "oncebox_consumer").await;
        let claim = "select delivery, token from oncebox.claim('billing', max => 1)";
        for end in [
            "select oncebox.send('crm', '{}', delivery => $d, step => 'notify'); select oncebox.finish($d, $t)",
            "select oncebox.fail($d, $t, 'it broke')",
            "select oncebox.fail($d, $t, 'never', retry => false)",
            "select oncebox.extend($d, $t, '5 minutes'); select oncebox.give_back($d, $t)",
        ] {
            let row = consumer.query(claim).await.unwrap().remove(0);
            let sql = end.replace("$d", &format!("'{}'", row[0])).replace("$t", &format!("'{}'", row[1]));
            consumer.query(&sql).await.unwrap();
        }
        assert_eq!(consumer.value("select oncebox.once('stripe', 'evt_1')").await, "t");
        assert_eq!(consumer.value("select oncebox.newer('billing', 'sub_1', 1)").await, "t");
        assert_eq!(consumer.value("select oncebox.newer('billing', 'sub_1', 2)").await, "t");
        assert_eq!(consumer.value("select count(*) from oncebox.deliveries_v1 where handler = 'billing'").await, "5");
        // An ended lease and a claim without a payload write attempts, too.
        consumer.query(claim).await.unwrap();
        world.db.execute(
            "update oncebox.deliveries set lease_until_ms = 1 where state = 'claimed'; delete from oncebox.payloads",
        );
        consumer.query(claim).await.unwrap();
    });
}

#[test]
fn a_consumer_can_do_nothing_else() {
    run(async |world| {
        world.insert_one(world.event("evt_1", "a")).await;
        let consumer = session(&world, "oncebox_consumer").await;
        check_denied(
            &consumer,
            &[
                "insert into oncebox.ledger values (gen_random_uuid(), gen_random_uuid())",
                "select * from oncebox.ledger",
                "update oncebox.deliveries set handler = 'mail'",
                "update oncebox.deliveries set attempts_before = 9",
                "insert into oncebox.deliveries (delivery, key, handler, state, due_at_ms) select gen_random_uuid(), key, 'x', 'ready', 1 from oncebox.events",
                "delete from oncebox.deliveries",
                "update oncebox.events set type = 'x'",
                "update oncebox.payloads set body = 'x'",
                "delete from oncebox.remembered",
                "update oncebox.remembered set at_ms = 0",
                "update oncebox.handlers set paused = 1",
                "update oncebox.outbox set state = 'sent'",
                "select state from oncebox.outbox",
                "select body from oncebox.outbox_contents",
                "update oncebox.outbox_contents set body = 'x'",
                "select * from oncebox.arrived_secrets",
                "select * from oncebox.actions",
                "create table oncebox.mine (x int)",
            ],
        )
        .await;
    });
}

#[test]
fn a_reader_reads_the_views_and_nothing_else() {
    run(async |world| {
        world.insert_one(world.event("evt_1", "a")).await;
        let reader = session(&world, "oncebox_reader").await;
        for view in ["events_v1", "deliveries_v1", "outbox_v1"] {
            reader.query(&format!("select * from oncebox.{view}")).await.unwrap();
        }
        check_denied(
            &reader,
            &[
                "select * from oncebox.events",
                "select * from oncebox.payloads",
                "select * from oncebox.arrived_secrets",
                "select oncebox.once('stripe', 'evt_1')",
                "select * from oncebox.claim('billing')",
                "update oncebox.deliveries set state = 'done'",
            ],
        )
        .await;
    });
}
