//! Ids of several parts, which are shown with colons between them: what only looks the same is not one event.

use std::sync::{Arc, Mutex};

use oncebox::Clock;
use oncebox::database::Commit;
use oncebox::inbox::{Context, Handler, Inbox};
use oncebox::{HandlerError, Once, Receiver, once};
use oncebox_verify::{Request, Secret, Source, SourceSpec};
use sqlx::{PgPool, SqlitePool};
use testkit::{Backend, TestDatabase};

use crate::handlers::quick;
use crate::world::{App, Diesel, open, stored_as, wait_until};

const TOKEN: &str = "a token of some length";
/// All of them are shown as `urn:shop:1:order`.
const ALIKE: [(&str, &str); 3] = [("urn:shop:1", "order"), ("urn:shop", "1:order"), ("urn", "shop:1:order")];

fn receiver() -> Receiver {
    let mut spec = SourceSpec::named("bus", "cloudevents-webhook").unwrap();
    spec.secrets = vec![Secret::new(TOKEN.to_owned())];
    Receiver::new(Source::build(spec).unwrap(), Clock::system())
}

fn request((source, id): (&str, &str)) -> Request {
    let authorization = format!("Bearer {TOKEN}");
    let named = [("authorization", authorization.as_str()), ("ce-source", source), ("ce-id", id), ("ce-type", "made")];
    let mut headers = http::HeaderMap::new();
    for (name, value) in named {
        headers.append(http::HeaderName::from_static(name), value.parse().unwrap());
    }
    Request {
        method: http::Method::POST,
        target: "/in/bus".to_owned(),
        headers,
        body: format!("{{\"from\":\"{source}\",\"id\":\"{id}\"}}").into(),
    }
}

async fn receive<P: App>(pool: &P, id: (&str, &str)) -> Once {
    let event = receiver().receive(&request(id), None).await.unwrap().events.remove(0);
    let mut tx = pool.begin().await.unwrap();
    let outcome = event.once(&mut tx).await.unwrap();
    assert!(matches!(P::commit(tx).await, Commit::Committed));
    outcome
}

async fn remember<P: App>(pool: &P, id: &str) {
    let mut tx = pool.begin().await.unwrap();
    assert_eq!(once(&mut tx, "bus", id).await.unwrap(), Once::Fresh);
    assert!(matches!(P::commit(tx).await, Commit::Committed));
}

async fn check<P: App>(db: TestDatabase) {
    let pool = open::<P>(&db).await;
    for expected in [Once::Fresh, Once::Duplicate] {
        for id in ALIKE {
            assert_eq!(receive(&pool, id).await, expected, "{id:?}");
        }
    }
    // Versions before this one remembered what is shown. Where that can mean one event alone, it still counts.
    remember(&pool, "shop:2").await;
    assert_eq!(receive(&pool, ("shop", "2")).await, Once::Duplicate);
    remember(&pool, "urn:shop:3").await;
    assert_eq!(receive(&pool, ("urn:shop", "3")).await, Once::Fresh);
}

#[test]
fn ids_that_look_alike_are_not_one_event_sqlx_postgres() {
    testkit::database::run(Backend::Postgres, check::<PgPool>);
}

#[test]
fn ids_that_look_alike_are_not_one_event_sqlx_sqlite() {
    testkit::database::run(Backend::Sqlite, check::<SqlitePool>);
}

#[test]
fn ids_that_look_alike_are_not_one_event_tokio_postgres() {
    testkit::database::run(Backend::Postgres, check::<deadpool_postgres::Pool>);
}

#[test]
fn ids_that_look_alike_are_not_one_event_rusqlite() {
    testkit::database::run(Backend::Sqlite, check::<oncebox::database::rusqlite::Database>);
}

#[test]
fn ids_that_look_alike_are_not_one_event_diesel() {
    testkit::database::run(Backend::Postgres, check::<Diesel>);
}

/// Notes what `once` said to each event.
#[derive(Clone, Default)]
struct Noting(Arc<Mutex<Vec<(String, Once)>>>);

impl<P: App> Handler<P> for Noting {
    async fn handle(&self, context: &mut Context<P>) -> Result<(), HandlerError> {
        let (event, tx) = context.event_and_tx().await?;
        let outcome = event.once(tx).await?;
        self.0.lock().unwrap().push((event.id.clone(), outcome));
        Ok(())
    }
}

/// The gateway stored events that look alike, and some that the application has handled before.
async fn check_stored<P: App>(db: TestDatabase) {
    let pool = open::<P>(&db).await;
    let shown = "urn:shop:1:order";
    let alike: [&[&str]; 3] = [&["urn:shop:1", "order"], &["urn:shop", "1:order"], &[shown]];
    let others: [&[&str]; 4] = [&["seen:1"], &["seen:2"], &["seen", "3"], &["seen", "4"]];
    let parts = [&alike[..], &others[..]].concat();
    stored_as(&db, "bus", &parts).await;
    remember(&pool, "seen:1").await;
    assert_eq!(receive(&pool, ("seen", "3")).await, Once::Fresh);
    // As versions before this one did.
    remember(&pool, "seen:4").await;
    let noting = Noting::default();
    let inbox = Inbox::new(pool, Clock::system()).with("billing", quick(), noting.clone()).start().await.unwrap();
    wait_until("all are handled", || noting.0.lock().unwrap().len() == parts.len()).await;
    inbox.stop(std::time::Duration::from_secs(5)).await;
    let mut noted = noting.0.lock().unwrap().clone();
    noted.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = [
        ("seen:1", Once::Duplicate),
        ("seen:2", Once::Fresh),
        ("seen:3", Once::Duplicate),
        ("seen:4", Once::Duplicate),
        (shown, Once::Fresh),
        (shown, Once::Fresh),
        (shown, Once::Fresh),
    ];
    assert_eq!(noted, expected.map(|(id, once)| (id.to_owned(), once)));
}

#[test]
fn stored_events_that_look_alike_are_not_one_on_postgres() {
    testkit::database::run(Backend::Postgres, check_stored::<PgPool>);
}

#[test]
fn stored_events_that_look_alike_are_not_one_on_sqlite() {
    testkit::database::run(Backend::Sqlite, check_stored::<SqlitePool>);
}
