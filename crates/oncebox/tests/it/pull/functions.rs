//! What only the functions have: their words for a refusal, the callers they must be safe with, and transactions that
//! meet half way.

use std::time::Duration;

use testkit::session::Refused;
use testkit::{Backend, Session};

use super::puller::{Puller, call};
use crate::store_contract::deliveries::{end_leases, processing, states};
use crate::world::World;

/// Long enough for a statement that would not wait to have ended.
const A_WHILE: Duration = Duration::from_millis(300);

fn run<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    testkit::database::run(Backend::Postgres, async |db| test(processing(db).await).await);
}

async fn session(world: &World) -> Session {
    Session::open(world.db.url()).await
}

async fn refused(world: &World, sql: &str) -> Refused {
    session(world).await.query(sql).await.expect_err(sql)
}

#[test]
fn a_second_caller_waits_for_the_first_ones_end() {
    run(async |world| {
        for (end, second) in [("commit", "f"), ("rollback", "t")] {
            let (one, other) = (session(&world).await, session(&world).await);
            let sql = format!("select oncebox.once('stripe', 'evt_{end}')");
            one.query("begin").await.unwrap();
            assert_eq!(one.value(&sql).await, "t");
            let waiting = other.value(&sql);
            tokio::pin!(waiting);
            assert!(tokio::time::timeout(A_WHILE, &mut waiting).await.is_err(), "it must wait");
            one.query(end).await.unwrap();
            assert_eq!(waiting.await, second, "after {end}");
        }
    });
}

#[test]
fn a_consumer_paused_past_its_lease_rolls_back_and_the_others_writes_stand() {
    run(async |world| {
        world.db.execute("create table effects (id text, who text)");
        world.insert_one(world.event("evt_1", "a")).await;
        let paused = session(&world).await;
        let slow = Puller::Functions.claim(&world, 1).await;
        paused.query("begin; insert into effects values ('evt_1', 'paused')").await.unwrap();
        end_leases(&world);

        // The paused one wakes while the other's claim is not committed yet: it must wait for that, then hear the truth.
        let other = session(&world).await;
        other.query("begin").await.unwrap();
        let current = other.query("select delivery, token from oncebox.claim('billing')").await.unwrap();
        let late = call("finish", slow[0].fence, "");
        let waking = paused.query(&late);
        tokio::pin!(waking);
        assert!(tokio::time::timeout(A_WHILE, &mut waking).await.is_err(), "the row is the other's");
        other.query("commit").await.unwrap();
        let heard = waking.await.unwrap_err();
        assert_eq!(heard.sqlstate, "OB001", "{heard:?}");
        let finish = format!("select oncebox.finish('{}', '{}')", current[0][0], current[0][1]);
        other.query(&format!("begin; insert into effects values ('evt_1', 'other'); {finish}; commit")).await.unwrap();
        paused.query("commit").await.unwrap();
        assert_eq!(world.db.query("select id, who from effects"), [["evt_1", "other"]]);
        assert_eq!(states(&world), [["done", "2"]]);
    });
}

#[test]
fn an_open_finish_keeps_the_delivery_from_being_taken_back() {
    run(async |world| {
        world.insert_one(world.event("evt_1", "a")).await;
        let claimed = Puller::Functions.claim(&world, 1).await;
        end_leases(&world);
        let one = session(&world).await;
        one.query(&format!("begin; {}", call("finish", claimed[0].fence, ""))).await.unwrap();
        assert!(Puller::Functions.claim(&world, 1).await.is_empty(), "somebody is about to commit");
        one.query("rollback").await.unwrap();
        assert_eq!(Puller::Functions.claim(&world, 1).await[0].attempt, 2);
    });
}

#[test]
fn a_refusal_has_words_and_a_code() {
    run(async |world| {
        world.insert_one(world.event("evt_1", "a")).await;
        let claimed = Puller::Functions.claim(&world, 1).await;
        let fence = claimed[0].fence;
        session(&world).await.value(&call("finish", fence, "")).await;
        let nobody = "'00000000-0000-7000-8000-000000000000'";
        for (sql, sqlstate, words) in [
            (call("finish", fence, ""), "OB002", "is done already"),
            (call("extend", fence, ""), "OB002", "is done already"),
            (format!("select oncebox.finish({nobody}, {nobody})"), "OB001", "was lost"),
            (format!("select oncebox.finish(null, {nobody})"), "22004", "finish needs a delivery, which is null"),
            (format!("select oncebox.finish({nobody}, null)"), "22004", "finish needs a token, which is null"),
            (format!("select oncebox.fail(null, {nobody})"), "22004", "fail needs a delivery"),
            (format!("select oncebox.fail({nobody}, null, 'x')"), "22004", "fail needs a token"),
            ("select oncebox.extend(null, null)".to_owned(), "22004", "extend needs a delivery"),
            (format!("select oncebox.give_back({nobody}, null)"), "22004", "give_back needs a token"),
            ("select * from oncebox.claim('nobody')".to_owned(), "42704", "there is no handler 'nobody'"),
            ("select * from oncebox.claim(null)".to_owned(), "22004", "claim needs a handler, which is null"),
            ("select * from oncebox.claim('billing', 0)".to_owned(), "22023", "max is from 1 to 1000"),
            ("select * from oncebox.claim('billing', 1001)".to_owned(), "22023", "max is from 1 to 1000"),
            ("select * from oncebox.claim('billing', lease => '999 ms')".to_owned(), "22023", "a lease is from"),
            ("select * from oncebox.claim('billing', lease => '25 h')".to_owned(), "22023", "a lease is from"),
            ("select oncebox.once('stripe', null)".to_owned(), "22004", "needs a scope and an id"),
            ("select oncebox.once(null, 'evt_1')".to_owned(), "22004", "needs a scope and an id"),
            ("select oncebox.once('', '')".to_owned(), "22023", "at least one character"),
            ("select oncebox.newer('billing', null, 1)".to_owned(), "22004", "needs a handler"),
            ("select oncebox.newer('nobody', 'sub_1', 1)".to_owned(), "42704", "there is no handler 'nobody'"),
        ] {
            let answer = refused(&world, &sql).await;
            assert_eq!(answer.sqlstate, sqlstate, "{sql}: {answer:?}");
            assert!(answer.message.contains(words), "{sql}: {answer:?}");
        }
    });
}

#[test]
fn a_long_reason_is_cut_where_a_letter_ends() {
    run(async |world| {
        world.insert_one(world.event("evt_1", "a")).await;
        let claimed = Puller::Functions.claim(&world, 1).await;
        let reason = "it broke: ".to_owned() + &"ü日".repeat(2000);
        Puller::Functions.fail(&world, claimed[0].fence, &reason, true).await.unwrap();
        let kept = world.query("select last_error from {deliveries} where last_error is not null")[0][0].clone();
        assert!((2040..=2048).contains(&kept.len()) && reason.starts_with(&kept), "{}", kept.len());
    });
}

/// The names that the functions use cannot be bent by a caller's own schema, and nothing runs with other rights.
#[test]
fn every_function_has_its_path_pinned_and_the_callers_rights() {
    run(async |world| {
        let loose = "select p.proname from pg_proc p where p.pronamespace = 'oncebox'::regnamespace \
                     and p.proname not in ('now_ms', 'message_id') and (p.prosecdef or p.proconfig is null \
                     or not 'search_path=pg_catalog, oncebox, pg_temp' = any (p.proconfig))";
        assert_eq!(world.db.query(loose), Vec::<Vec<String>>::new());

        world.insert_one(world.event("evt_1", "a")).await;
        let caller = session(&world).await;
        let bent = "create schema bent; create table bent.deliveries (x int); set search_path = bent, public; \
                    create function bent.sha256(bytea) returns bytea language sql as 'select ''x''::bytea'; \
                    create temp table remembered (mark uuid primary key, at_ms bigint)";
        caller.query(bent).await.unwrap();
        assert_eq!(caller.value("select oncebox.once('stripe', 'evt_1')").await, "t");
        assert!(!Puller::Verbs.once(&world, "stripe", "evt_1").await);
        assert_eq!(caller.value("select count(*) from oncebox.claim('billing')").await, "1");
    });
}
