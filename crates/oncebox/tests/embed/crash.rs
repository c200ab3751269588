//! A crash between the claim and the commit: nothing is lost, nothing is there twice.

use oncebox::{HandlerError, Once, Outcome, once};
use sqlx::{PgPool, SqlitePool};
use testkit::{Backend, TestDatabase};

use crate::world::{App, open, receiver, request, signed};

/// Where the process stops, as the database sees it: the connection goes away with the transaction open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    AfterClaim,
    AfterEffect,
    Nowhere,
}

async fn check<P: App>(db: TestDatabase) {
    let pool = open::<P>(&db).await;
    for stop in [Stop::AfterClaim, Stop::AfterEffect, Stop::Nowhere] {
        let mut tx = pool.begin().await.unwrap();
        assert_eq!(once(&mut tx, "stripe", "evt_1").await.unwrap(), Once::Fresh, "{stop:?}");
        if stop != Stop::AfterClaim {
            P::effect(&mut tx, "evt_1").await.unwrap();
        }
        if stop == Stop::Nowhere {
            assert!(matches!(P::commit(tx).await, oncebox::database::Commit::Committed));
        } else {
            drop(tx);
            assert_eq!(db.count("effects"), 0, "{stop:?}");
        }
    }
    assert_eq!(db.count("effects"), 1);
    let mut tx = pool.begin().await.unwrap();
    assert_eq!(once(&mut tx, "stripe", "evt_1").await.unwrap(), Once::Duplicate);
    drop(tx);
    dropped_at_every_await::<P>(&db, &pool).await;
}

/// A client that hangs up drops the handler's future wherever it is.
async fn dropped_at_every_await<P: App>(db: &TestDatabase, pool: &P) {
    for polls in 1.. {
        let request = request(&signed("evt_2"));
        let verified = receiver().receive(&request, None).await.unwrap();
        let work = verified.once(pool, async |tx: &mut P::Tx, event: &oncebox::Event| P::effect(tx, &event.id).await);
        let answer = polled(work, polls).await;
        let effects = db.query("select count(*) from effects where id = 'evt_2'");
        match answer {
            Some(answer) => {
                assert!([Outcome::Fresh, Outcome::Duplicate].contains(&answer.outcome()), "{answer:?}");
                assert_eq!(effects, [["1"]], "after {polls} polls");
                return;
            }
            // Dropped during the commit, it may have gone through.
            None => assert!(effects == [["0"]] || effects == [["1"]], "after {polls} polls: {effects:?}"),
        }
    }
}

/// Polls a future this often, with time for what it waits for in between, then drops it.
async fn polled<T>(work: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut work = std::pin::pin!(work);
    for _ in 0..times {
        let mut outcome = None;
        std::future::poll_fn(|context| {
            if let std::task::Poll::Ready(ready) = work.as_mut().poll(context) {
                outcome = Some(ready);
            }
            std::task::Poll::Ready(())
        })
        .await;
        if outcome.is_some() {
            return outcome;
        }
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    None
}

#[test]
fn sqlx_postgres() {
    testkit::database::run(Backend::Postgres, check::<PgPool>);
}

#[test]
fn sqlx_sqlite() {
    testkit::database::run(Backend::Sqlite, check::<SqlitePool>);
}

#[test]
fn tokio_postgres() {
    testkit::database::run(Backend::Postgres, check::<deadpool_postgres::Pool>);
}

/// What the application's own code says decides about the answer; nothing of a failed attempt stays.
async fn check_errors<P: App>(db: TestDatabase) {
    let pool = open::<P>(&db).await;
    let fail = [
        (Some(HandlerError::retry("later")), Outcome::Unavailable, 503),
        (Some(HandlerError::reject("never")), Outcome::Unprocessable, 422),
        (None, Outcome::Fresh, 200),
    ];
    for (error, outcome, status) in fail {
        let verified = receiver().receive(&request(&signed("evt_3")), None).await.unwrap();
        let mut error = error;
        let answer = verified
            .once(&pool, async |tx: &mut P::Tx, event: &oncebox::Event| {
                P::effect(tx, &event.id).await?;
                error.take().map_or(Ok(()), Err)
            })
            .await;
        assert_eq!((answer.outcome(), answer.status().as_u16()), (outcome, status));
        assert_eq!(db.count("effects"), i64::from(outcome == Outcome::Fresh));
    }
}

#[test]
fn errors_roll_back_on_postgres() {
    testkit::database::run(Backend::Postgres, check_errors::<PgPool>);
}

#[test]
fn errors_roll_back_on_sqlite() {
    testkit::database::run(Backend::Sqlite, check_errors::<SqlitePool>);
}

#[test]
fn rusqlite() {
    testkit::database::run(Backend::Sqlite, check::<oncebox::database::rusqlite::Database>);
}

#[test]
fn diesel() {
    testkit::database::run(Backend::Postgres, check::<crate::world::Diesel>);
}

/// Where a child process finds the database it is to die on.
const CHILD: &str = "ONCEBOX_TEST_CHILD";

/// Not a test of its own: what the child of [`killed`] does before it dies.
#[test]
fn child() {
    let Ok(place) = std::env::var(CHILD) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        if place.starts_with("postgres") {
            die(&PgPool::connect(&place).await.unwrap()).await;
        } else {
            die(&SqlitePool::connect(&place).await.unwrap()).await;
        }
    });
}

async fn die<P: App>(pool: &P) {
    let mut tx = pool.begin().await.unwrap();
    assert_eq!(once(&mut tx, "stripe", "evt_1").await.unwrap(), Once::Fresh);
    P::effect(&mut tx, "evt_1").await.unwrap();
    std::process::abort();
}

/// A process that dies between claim and commit, for good: the next one finds nothing of it, and has the effect once.
async fn killed<P: App>(db: TestDatabase) {
    let pool = open::<P>(&db).await;
    for _ in 0..3 {
        let program = std::env::current_exe().unwrap();
        let mut child = std::process::Command::new(program);
        child.args(["--exact", "crash::child"]).env(CHILD, db.url()).stdout(std::process::Stdio::null());
        assert!(!child.status().unwrap().success(), "the child lived");
        assert_eq!(db.count("effects"), 0);
    }
    for expected in [Once::Fresh, Once::Duplicate] {
        let mut tx = pool.begin().await.unwrap();
        assert_eq!(once(&mut tx, "stripe", "evt_1").await.unwrap(), expected);
        if expected == Once::Fresh {
            P::effect(&mut tx, "evt_1").await.unwrap();
        }
        assert!(matches!(P::commit(tx).await, oncebox::database::Commit::Committed));
    }
    assert_eq!(db.count("effects"), 1);
}

#[test]
fn killed_on_postgres() {
    testkit::database::run(Backend::Postgres, killed::<PgPool>);
}

#[test]
fn killed_on_sqlite() {
    testkit::database::run(Backend::Sqlite, killed::<SqlitePool>);
}

/// The connection is lost under a transaction: the commit must not claim to have happened.
async fn cut<P: App>(db: TestDatabase) {
    let pool = open::<P>(&db).await;
    let mut tx = pool.begin().await.unwrap();
    assert_eq!(once(&mut tx, "stripe", "evt_1").await.unwrap(), Once::Fresh);
    P::effect(&mut tx, "evt_1").await.unwrap();
    db.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()");
    assert!(!matches!(P::commit(tx).await, oncebox::database::Commit::Committed));
    assert_eq!(db.count("effects"), 0);
}

#[test]
fn cut_off() {
    testkit::database::run(Backend::Postgres, cut::<PgPool>);
    testkit::database::run(Backend::Postgres, cut::<deadpool_postgres::Pool>);
    testkit::database::run(Backend::Postgres, cut::<crate::world::Diesel>);
}
