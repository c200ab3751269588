//! What an application may get wrong, and what comes of it.

use diesel_async::{AsyncConnection, AsyncPgConnection};
use oncebox::{Once, Outcome, once};
use sqlx::PgPool;
use testkit::{Backend, TestDatabase};

use crate::world::{App, Diesel, open, receiver, request, serve, signed};

/// Work that swallows an error of the database leaves an aborted transaction, and Postgres would answer COMMIT with a
/// quiet ROLLBACK: that must not be acknowledged.
async fn swallowed<P: App>(db: TestDatabase) {
    let pool = open::<P>(&db).await;
    let verified = receiver().receive(&request(&signed("evt_1")), None).await.unwrap();
    let answer = verified
        .once(&pool, async |tx: &mut P::Tx, event: &oncebox::Event| {
            P::effect(tx, &event.id).await?;
            let _swallowed = oncebox::adapter::Transaction::batch(tx, "insert into nowhere values (1)").await;
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
