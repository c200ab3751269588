//! What an application may get wrong, and what comes of it.

use std::time::Duration;

use diesel_async::{AsyncConnection, AsyncPgConnection};
use oncebox::Clock;
use oncebox::database::Transaction;
use oncebox::inbox::Inbox;
use oncebox::{HandlerError, Once, Outcome, once};
use sqlx::{PgPool, SqlitePool};
use testkit::{Backend, TestDatabase};

use crate::handlers::quick;
use crate::world::{App, Diesel, open, receiver, request, serve, signed, stored, wait_until};

/// Work that swallows an error of the database leaves an aborted transaction, and Postgres would answer COMMIT with a
/// quiet ROLLBACK: that must not be acknowledged.
async fn swallowed<P: App>(db: TestDatabase) {
    let pool = open::<P>(&db).await;
    let verified = receiver().receive(&request(&signed("evt_1")), None).await.unwrap();
    let answer = verified
        .once(&pool, async |tx: &mut P::Tx, event: &oncebox::Event| {
            P::effect(tx, &event.id).await?;
            let _swallowed = oncebox::database::Transaction::batch(tx, "insert into nowhere values (1)").await;
            Ok(())
        })
        .await;
    assert_eq!(answer.outcome(), Outcome::Unavailable);
    assert_eq!(db.count("effects"), 0);
}

#[test]
fn a_swallowed_error_is_not_acknowledged() {
    testkit::database::run(Backend::Postgres, swallowed::<PgPool>);
    testkit::database::run(Backend::Postgres, swallowed::<deadpool_postgres::Pool>);
}

/// Outside of a transaction a mark would be committed before the work it stands for. Where the driver has a type for
/// transactions this does not compile; Diesel has none.
async fn no_transaction(db: TestDatabase) {
    let pool = open::<Diesel>(&db).await;
    let mut pooled = pool.get().await.unwrap();
    let connection: &mut AsyncPgConnection = &mut pooled;
    assert!(once(connection, "stripe", "evt_1").await.is_err());
    let work = async |connection: &mut AsyncPgConnection| {
        let claimed = once(connection, "stripe", "evt_1").await.unwrap();
        Ok::<_, diesel::result::Error>(claimed)
    };
    assert_eq!(connection.transaction(work).await.unwrap(), Once::Fresh);
    assert_eq!(connection.transaction(work).await.unwrap(), Once::Duplicate);
}

#[test]
fn a_claim_outside_of_a_transaction_is_refused() {
    testkit::database::run(Backend::Postgres, no_transaction);
}

/// Nothing reaches the handler that is not verified.
async fn refused(db: TestDatabase) {
    let address = serve(open::<PgPool>(&db).await).await.to_string();
    let cases = tokio::task::spawn_blocking(move || {
        let long = vec![b' '; 2 * 1024 * 1024];
        [
            signed("evt_1").tampered().post(&address, "stripe").status,
            signed("evt_1").without_header("stripe-signature").post(&address, "stripe").status,
            signed("evt_1").with_header("content-encoding", "gzip").post(&address, "stripe").status,
            testkit::http::post(&address, "/in/stripe", &[], &long).status,
            testkit::http::get(&address, "/in/stripe", &[]).status,
            signed("evt_1").post(&address, "stripe").status,
        ]
    });
    assert_eq!(cases.await.unwrap(), [401, 401, 415, 413, 405, 200]);
    assert_eq!(db.count("effects"), 1);
}

#[test]
fn what_is_not_verified_never_runs() {
    testkit::database::run(Backend::Postgres, refused);
}

/// Ways to end a transaction that belongs to somebody else.
fn ends(db: &TestDatabase) -> &'static [&'static str] {
    match db.file() {
        None => &["rollback", "commit", "commit and chain", "rollback; begin", "commit; begin"],
        Some(_) => &["rollback", "commit", "rollback; begin", "commit; begin"],
    }
}

/// A commit in the work would make two transactions of effect and mark: that must not be acknowledged, and the
/// connection must be good for the next one.
async fn ended_webhook<P: App>(db: TestDatabase) {
    let pool = open::<P>(&db).await;
    for (place, end) in ends(&db).iter().enumerate() {
        let verified = receiver().receive(&request(&signed(&format!("evt_{place}"))), None).await.unwrap();
        let answer = verified
            .once(&pool, async |tx: &mut P::Tx, event: &oncebox::Event| {
                P::effect(tx, &event.id).await?;
                Ok(Transaction::batch(tx, end).await?)
            })
            .await;
        assert_eq!(answer.outcome(), Outcome::Unavailable, "{end}");
        let id = format!("well_{place}");
        let verified = receiver().receive(&request(&signed(&id)), None).await.unwrap();
        let answer = verified
            .once(&pool, async |tx: &mut P::Tx, event: &oncebox::Event| {
                Transaction::batch(tx, "savepoint mine").await?;
                P::effect(tx, &event.id).await?;
                Ok(Transaction::batch(tx, "release savepoint mine").await?)
            })
            .await;
        assert_eq!(answer.outcome(), Outcome::Fresh, "after {end}");
        assert_eq!(db.query(&format!("select count(*) from effects where id = '{id}'")), [["1"]], "after {end}");
    }
}

#[test]
fn a_webhook_whose_work_ends_the_transaction_is_not_acknowledged() {
    testkit::database::run(Backend::Postgres, ended_webhook::<PgPool>);
    testkit::database::run(Backend::Postgres, ended_webhook::<deadpool_postgres::Pool>);
    testkit::database::run(Backend::Postgres, ended_webhook::<Diesel>);
    testkit::database::run(Backend::Sqlite, ended_webhook::<SqlitePool>);
    testkit::database::run(Backend::Sqlite, ended_webhook::<oncebox::database::rusqlite::Database>);
}

/// The event's id says how the handler ends its transaction, and whether it fails behind that or ends it in a step.
async fn ended_delivery<P: App>(db: TestDatabase) {
    let ends = ends(&db);
    let pool = open::<P>(&db).await;
    let kinds = ["plain", "failing", "step"];
    let ids: Vec<String> = kinds.iter().flat_map(|kind| (0..ends.len()).map(move |n| format!("{kind}_{n}"))).collect();
    stored(&db, &ids).await;
    let inbox = Inbox::new(pool, Clock::system()).on("billing", quick(), move |context| {
        Box::pin(async move {
            let id = context.event().id.clone();
            let (kind, place) = id.split_once('_').unwrap();
            let end = ends[place.parse::<usize>().unwrap()];
            if kind == "step" {
                let id = id.clone();
                let step = context.step_in("ends", |tx, _key| {
                    Box::pin(async move {
                        P::effect(tx, &id).await?;
                        Ok(Transaction::batch(tx, end).await?)
                    })
                });
                return step.await;
            }
            let tx = context.tx().await?;
            P::effect(tx, &id).await?;
            Transaction::batch(tx, end).await?;
            if kind == "failing" { Err(HandlerError::retry("not yet")) } else { Ok(()) }
        })
    });
    let running = inbox.start().await.unwrap();
    let open = format!(
        "select count(*) from {} where handler = 'billing' and state in ('ready', 'claimed')",
        db.table("deliveries")
    );
    wait_until("all deliveries end", || db.query(&open) == [["0"]]).await;
    running.stop(Duration::from_secs(5)).await;
    let view = db.table("deliveries_v1");
    let wrong = format!(
        "select event_id, state, attempt, last_error from {view} where handler = 'billing'
         and not (state = 'dead' and attempt = 1 and last_error like '%ended its transaction%')"
    );
    assert_eq!(db.query(&wrong), Vec::<Vec<String>>::new());
    // None was tried again: what a commit left behind is there once.
    assert_eq!(db.query("select id from effects group by id having count(*) > 1"), Vec::<Vec<String>>::new());
}

#[test]
fn a_handler_that_ends_the_transaction_makes_a_dead_letter() {
    testkit::database::run(Backend::Postgres, ended_delivery::<PgPool>);
    testkit::database::run(Backend::Postgres, ended_delivery::<deadpool_postgres::Pool>);
    testkit::database::run(Backend::Postgres, ended_delivery::<Diesel>);
    testkit::database::run(Backend::Sqlite, ended_delivery::<SqlitePool>);
    testkit::database::run(Backend::Sqlite, ended_delivery::<oncebox::database::rusqlite::Database>);
}
