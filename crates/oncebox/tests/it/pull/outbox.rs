//! `send`: a message in the caller's transaction, under a key that a second run makes again.

use testkit::{Backend, Session};

use super::puller::{Puller, call};
use crate::store_contract::deliveries::{end_leases, processing};
use crate::world::World;

fn run<F: Future<Output = ()>>(test: impl FnOnce(World, Session) -> F) {
    testkit::database::run(Backend::Postgres, async |db| {
        let world = processing(db).await;
        world.insert_one(world.event("evt_1", "a")).await;
        let session = Session::open(world.db.url()).await;
        test(world, session).await;
    });
}

#[test]
fn a_message_is_there_with_the_commit_that_wrote_it_and_not_otherwise() {
    run(async |world, session| {
        let claimed = Puller::Functions.claim(&world, 1).await;
        let (fence, delivery) = (claimed[0].fence, claimed[0].fence.delivery);
        let send = format!(
            "select oncebox.send('crm', body => '{{\"a\\n\":\"ü\"}}', delivery => '{delivery}', step => 'notify')"
        );
        session.query(&format!("begin; {send}; rollback")).await.unwrap();
        assert_eq!(world.count("outbox"), 0);
        session.query(&format!("begin; {send}; {}; commit", call("finish", fence, ""))).await.unwrap();
        let row = "select destination, idempotency_key, state, attempt, path, method, headers, convert_from(body, 'UTF8'), \
                   handler, step, delivery_attempt, key::text from oncebox.outbox join oncebox.outbox_contents using (id)";
        let key = format!("{delivery}/crm/notify");
        let expected = [
            "crm",
            &key,
            "ready",
            "0",
            "",
            "POST",
            "{}",
            "{\"a\\n\":\"ü\"}",
            "billing",
            "notify",
            "1",
            &claimed[0].key,
        ];
        assert_eq!(world.db.query(row), [expected]);
    });
}

#[test]
fn a_step_twice_is_a_mistake_and_a_later_attempt_keeps_the_first() {
    run(async |world, session| {
        let first = Puller::Functions.claim(&world, 1).await;
        let send = |step: &str, body: &str| {
            format!("select oncebox.send('crm', '{body}', delivery => '{}', step => '{step}')", first[0].fence.delivery)
        };
        let id = session.value(&send("notify", "first")).await;
        let again = session.query(&send("notify", "second")).await.unwrap_err();
        assert_eq!(again.sqlstate, "23505", "{again:?}");
        assert_ne!(session.value(&send("invoice", "other")).await, id);
        end_leases(&world);
        assert_eq!(Puller::Functions.claim(&world, 1).await[0].attempt, 2);
        assert_eq!(session.value(&send("notify", "third")).await, id, "one message, one key");
        assert_eq!(
            world.db.query("select convert_from(body, 'UTF8') from oncebox.outbox_contents where step = 'notify'"),
            [["first"]]
        );
    });
}

#[test]
fn without_a_delivery_the_key_is_given_or_fresh() {
    run(async |world, session| {
        let id = session.value("select oncebox.send('crm', 'a', key => 'order-1')").await;
        assert_eq!(session.value("select oncebox.send('crm', 'b', key => 'order-1')").await, id);
        assert_ne!(session.value("select oncebox.send('erp', 'a', key => 'order-1')").await, id);
        session
            .value(
                "select oncebox.send('crm', 'a'::bytea, path => 'v1/x', method => 'put', headers => '{\"x-a\":\"b\"}')",
            )
            .await;
        session.value("select oncebox.send('crm', 'a')").await;
        assert_eq!(world.count("outbox"), 4);
        let row = "select path, method, headers::jsonb ->> 'x-a' from oncebox.outbox_contents where path <> ''";
        assert_eq!(world.db.query(row), [["v1/x", "PUT", "b"]]);
    });
}

#[test]
fn what_makes_no_message_is_refused_in_words() {
    run(async |_world, session| {
        for (sql, words) in [
            ("select oncebox.send('crm', null::text)", "needs a body"),
            ("select oncebox.send('http://evil/', 'x')", "a destination is"),
            ("select oncebox.send(null, 'x')", "a destination is"),
            (
                "select oncebox.send('crm', 'x', method => 'HEAD')",
                "a method is one of POST, PUT, PATCH, DELETE and GET",
            ),
            ("select oncebox.send('crm', 'x', method => '')", "a method is one of"),
            ("select oncebox.send('crm', repeat('canary', 2796203))", "at most 16 MiB"),
            ("select oncebox.send('crm', 'x', path => repeat('canary', 400))", "a path has at most 2048 characters"),
            ("select oncebox.send('crm', 'x', order_key => '')", "an order key has 1 to 200 characters"),
            (
                "select oncebox.send('crm', 'x', headers => jsonb_build_object('a', repeat('canary', 3000)))",
                "at most 16 kB",
            ),
            ("select oncebox.send('crm', 'x', step => 'a')", "a step belongs to a delivery"),
            ("select oncebox.send('crm', 'x', key => 'a/b')", "without a slash"),
            ("select oncebox.send('crm', 'x', headers => '{\"a\":1}')", "object of texts"),
            ("select oncebox.send('crm', 'x', headers => '[]')", "object of texts"),
            ("select oncebox.send('crm', 'x', delivery => gen_random_uuid(), step => 'a/b')", "a step is"),
            ("select oncebox.send('crm', 'x', delivery => gen_random_uuid(), key => 'a')", "give step and not key"),
            ("select oncebox.send('crm', 'x', delivery => gen_random_uuid())", "there is no delivery"),
        ] {
            let refused = session.query(sql).await.expect_err(sql);
            assert_eq!(refused.sqlstate, "22023", "{sql}: {refused:?}");
            assert!(refused.message.contains(words), "{sql}: {refused:?}");
            assert_eq!(refused.detail, "", "{sql} shows the row");
        }
    });
}

#[test]
fn the_table_itself_refuses_what_makes_no_message() {
    run(async |_world, session| {
        session.value("select oncebox.send('crm', 'x')").await;
        for wrong in [
            "outbox set destination = 'a b'",
            "outbox set destination = null",
            "outbox set order_key = ''",
            "outbox set state = 'x'",
            "outbox_contents set step = 'a/b'",
            "outbox_contents set path = repeat('x', 2049)",
            "outbox_contents set method = 'HEAD'",
            "outbox_contents set headers = '[]'",
            "outbox_contents set body = decode(repeat('00', 16777217), 'hex')",
        ] {
            let refused = session.query(&format!("update oncebox.{wrong}")).await.expect_err(wrong);
            assert!(["23514", "23502"].contains(&refused.sqlstate.as_str()), "{wrong}: {refused:?}");
        }
    });
}
