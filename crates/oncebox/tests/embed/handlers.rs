//! Handlers over an application's own pool: one effect per event, whatever fails; leases, deadlines, stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use oncebox::Clock;
use oncebox::HandlerError;
use oncebox::RetryPolicy;
use oncebox::inbox::{Context, Handler, Inbox, Options};
use sqlx::{PgPool, SqlitePool};
use testkit::{Backend, TestDatabase};

use crate::world::{App, open, stored, wait_until};

pub(crate) fn quick() -> Options {
    let retry = RetryPolicy { attempts: 4, base: Duration::from_millis(1), cap: Duration::from_millis(5) };
    let (lease, deadline, poll) = (Duration::from_secs(3), Duration::from_secs(10), Duration::from_millis(20));
    Options { lease, deadline, retry, concurrency: 4, poll }
}

/// Has its effect, then does what the event's id says in its first attempts.
struct Moody(Arc<AtomicU32>);

impl<P: App> Handler<P> for Moody {
    async fn handle(&self, context: &mut Context<P>) -> Result<(), HandlerError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let attempt = context.attempt();
        let (event, tx) = context.event_and_tx().await?;
        P::effect(tx, &event.id).await?;
        match event.id.split('_').next().unwrap() {
            "retried" if attempt < 3 => Err(HandlerError::retry("not yet")),
            "dead" => Err(HandlerError::retry("never ready")),
            "rejected" => Err(HandlerError::reject("not for us")),
            "broken" if attempt < 2 => panic!("as planned"),
            "stuck" if attempt < 2 => std::future::pending().await,
            _ => Ok(()),
        }
    }
}

async fn moods<P: App>(db: TestDatabase) {
    let pool = open::<P>(&db).await;
    let moods = ["good", "retried", "dead", "rejected", "broken", "stuck"];
    let ids: Vec<String> = (0..30).map(|n| format!("{}_{n}", moods[n % moods.len()])).collect();
    stored(&db, &ids).await;
    let runs = Arc::new(AtomicU32::new(0));
    let options = Options { deadline: Duration::from_millis(1500), ..quick() };
    // Two nodes on one handler.
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let inbox = Inbox::new(pool.clone(), Clock::system()).with("billing", options, Moody(runs.clone()));
        nodes.push(inbox.start().await.unwrap());
    }
    let open = format!(
        "select count(*) from {} where handler = 'billing' and state in ('ready', 'claimed')",
        db.table("deliveries")
    );
    wait_until("all deliveries end", || db.query(&open) == [["0"]]).await;
    for node in nodes {
        node.stop(Duration::from_secs(5)).await;
    }
    for (mood, effects, state) in [
        ("good", "5", "done"),
        ("retried", "5", "done"),
        ("broken", "5", "done"),
        ("stuck", "5", "done"),
        ("dead", "0", "dead"),
        ("rejected", "0", "dead"),
    ] {
        let found = db.query(&format!("select count(*), count(distinct id) from effects where id like '{mood}%'"));
        assert_eq!(found, [[effects, effects]], "{mood}");
        let states = format!(
            "select distinct state from {} where handler = 'billing' and event_id like '{mood}%'",
            db.table("deliveries_v1")
        );
        assert_eq!(db.query(&states), [[state]], "{mood}");
    }
}

#[test]
fn every_mood_on_sqlx_postgres() {
    testkit::database::run(Backend::Postgres, moods::<PgPool>);
}

#[test]
fn every_mood_on_sqlx_sqlite() {
    testkit::database::run(Backend::Sqlite, moods::<SqlitePool>);
}

#[test]
fn every_mood_on_tokio_postgres() {
    testkit::database::run(Backend::Postgres, moods::<deadpool_postgres::Pool>);
}

/// A stop in the middle of an attempt: rolled back, ready again, and the attempt was none.
async fn stopped<P: App>(db: TestDatabase) {
    let pool = open::<P>(&db).await;
    stored(&db, &["stuck_1".to_owned()]).await;
    let runs = Arc::new(AtomicU32::new(0));
    let inbox = Inbox::new(pool, Clock::system()).with("billing", quick(), Moody(runs.clone()));
    let running = inbox.start().await.unwrap();
    wait_until("the handler runs", || runs.load(Ordering::SeqCst) == 1).await;
    // Meanwhile the next claim has begun; on SQLite it waits for the handler's own transaction.
    tokio::time::sleep(Duration::from_millis(300)).await;
    running.stop(Duration::from_millis(50)).await;
    let state = format!("select state, attempt from {} where handler = 'billing'", db.table("deliveries"));
    assert_eq!(db.query(&state), [["ready", "0"]]);
    assert_eq!(db.count("effects"), 0);
}

#[test]
fn a_stop_gives_back_on_postgres() {
    testkit::database::run(Backend::Postgres, stopped::<PgPool>);
}

#[test]
fn a_stop_gives_back_on_sqlite() {
    testkit::database::run(Backend::Sqlite, stopped::<SqlitePool>);
}

/// Works for two leases and more, with its heart beating, and loses nothing to a second node.
async fn long<P: App>(db: TestDatabase) {
    let pool = open::<P>(&db).await;
    stored(&db, &["evt_1".to_owned()]).await;
    let options = Options { lease: Duration::from_secs(4), ..quick() };
    let runs = Arc::new(AtomicU32::new(0));
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let runs = runs.clone();
        let inbox = Inbox::new(pool.clone(), Clock::system()).on("billing", options, move |context| {
            runs.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(9)).await;
                let (event, tx) = context.event_and_tx().await?;
                P::effect(tx, &event.id).await
            })
        });
        nodes.push(inbox.start().await.unwrap());
    }
    wait_until("the effect is there", || db.count("effects") == 1).await;
    for node in nodes {
        node.stop(Duration::from_secs(15)).await;
    }
    assert_eq!((db.count("effects"), runs.load(Ordering::SeqCst)), (1, 1));
}

#[test]
fn a_long_handler_keeps_its_lease_on_postgres() {
    testkit::database::run(Backend::Postgres, long::<PgPool>);
}

#[test]
fn a_long_handler_keeps_its_lease_on_sqlite() {
    testkit::database::run(Backend::Sqlite, long::<SqlitePool>);
}

#[test]
fn every_mood_on_rusqlite() {
    testkit::database::run(Backend::Sqlite, moods::<oncebox::database::rusqlite::Database>);
}

#[test]
fn every_mood_on_diesel() {
    testkit::database::run(Backend::Postgres, moods::<crate::world::Diesel>);
}
