//! An application that embeds the library: a table of effects that shows every double, a server, and a sender.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::{FromRef, State};
use axum::routing::post;
use oncebox::Clock;
use oncebox::database::rusqlite::Database;
use oncebox::database::{Pool, migrate};
use oncebox::gateway::event::KeyMaker;
use oncebox::gateway::store::{Access, Commit, Connections, Durability, NewEvent, Store, insert_events};
use oncebox::{Answer, Event, HandlerError, Receiver, Verified};
use oncebox_verify::{Identified, Identity, IdentityKind, OnOtherBody, OnRepeat, Secret, Source, SourceSpec, sha256};
use sqlx::{PgPool, SqlitePool};
use testkit::sender::{Signed, stripe};
use testkit::{Backend, TestDatabase};

pub(crate) const SECRET: &str = "whsec_embedded";

/// A pool whose transactions can have an effect.
pub(crate) trait App: Pool {
    /// Opens a pool of at least two connections.
    async fn open(db: &TestDatabase) -> Self;

    /// Writes one effect of an event.
    fn effect(tx: &mut Self::Tx, id: &str) -> impl Future<Output = Result<(), HandlerError>> + Send;
}

impl App for PgPool {
    async fn open(db: &TestDatabase) -> Self {
        sqlx::postgres::PgPoolOptions::new().max_connections(8).connect(db.url()).await.unwrap()
    }

    async fn effect(tx: &mut Self::Tx, id: &str) -> Result<(), HandlerError> {
        sqlx::query("insert into effects (id) values ($1)").bind(id).execute(&mut **tx).await?;
        Ok(())
    }
}

impl App for SqlitePool {
    async fn open(db: &TestDatabase) -> Self {
        let options = sqlx::sqlite::SqliteConnectOptions::new()
            .filename(db.file().unwrap())
            .create_if_missing(true)
            .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal)
            .busy_timeout(Duration::from_secs(20));
        sqlx::sqlite::SqlitePoolOptions::new().max_connections(8).connect_with(options).await.unwrap()
    }

    async fn effect(tx: &mut Self::Tx, id: &str) -> Result<(), HandlerError> {
        sqlx::query("insert into effects (id) values (?)").bind(id).execute(&mut **tx).await?;
        Ok(())
    }
}

impl App for deadpool_postgres::Pool {
    async fn open(db: &TestDatabase) -> Self {
        let manager = deadpool_postgres::Manager::new(db.url().parse().unwrap(), tokio_postgres::NoTls);
        Self::builder(manager).max_size(8).build().unwrap()
    }

    async fn effect(tx: &mut Self::Tx, id: &str) -> Result<(), HandlerError> {
        tx.execute("insert into effects (id) values ($1)", &[&id]).await?;
        Ok(())
    }
}

impl App for Database {
    async fn open(db: &TestDatabase) -> Self {
        let connection = rusqlite::Connection::open(db.file().unwrap()).unwrap();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.busy_timeout(Duration::from_secs(20)).unwrap();
        Self::new(connection).unwrap()
    }

    async fn effect(tx: &mut Self::Tx, id: &str) -> Result<(), HandlerError> {
        let id = id.to_owned();
        tx.run(move |connection| connection.execute("insert into effects (id) values (?1)", [id])).await?;
        Ok(())
    }
}

/// A pool of Diesel's.
pub(crate) type Diesel = diesel_async::pooled_connection::deadpool::Pool<diesel_async::AsyncPgConnection>;

impl App for Diesel {
    async fn open(db: &TestDatabase) -> Self {
        let manager = diesel_async::pooled_connection::AsyncDieselConnectionManager::new(db.url());
        Self::builder(manager).max_size(8).build().unwrap()
    }

    async fn effect(tx: &mut Self::Tx, id: &str) -> Result<(), HandlerError> {
        let insert = diesel::sql_query("insert into effects (id) values ($1)").bind::<diesel::sql_types::Text, _>(id);
        diesel_async::RunQueryDsl::execute(insert, &mut **tx).await?;
        Ok(())
    }
}

/// A migrated database with a table of effects, and a pool of the application's own.
pub(crate) async fn open<P: App>(db: &TestDatabase) -> P {
    let pool = P::open(db).await;
    assert!(migrate(&pool).await.unwrap() > 0);
    assert_eq!(migrate(&pool).await.unwrap(), 0);
    db.execute("create table effects (id text)");
    pool
}

/// What the routes share.
#[derive(Clone)]
struct Shared<P> {
    pool: P,
    receiver: Receiver,
}

impl<P> FromRef<Shared<P>> for Receiver {
    fn from_ref(shared: &Shared<P>) -> Self {
        shared.receiver.clone()
    }
}

async fn hook<P: App>(State(shared): State<Shared<P>>, webhook: Verified) -> Answer {
    webhook.once(&shared.pool, async |tx: &mut P::Tx, event: &Event| P::effect(tx, &event.id).await).await
}

/// Serves the application until the runtime ends.
pub(crate) async fn serve<P: App>(pool: P) -> SocketAddr {
    let shared = Shared { pool, receiver: receiver() };
    let app = Router::new().route("/in/stripe", post(hook::<P>)).with_state(shared);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

pub(crate) fn receiver() -> Receiver {
    let mut spec = SourceSpec::named("stripe", "stripe").unwrap();
    spec.secrets = vec![Secret::new(SECRET.to_owned())];
    Receiver::new(Source::build(spec).unwrap(), Clock::system())
}

/// A correctly signed event.
pub(crate) fn signed(id: &str) -> Signed {
    stripe(SECRET, now(), id, "invoice.paid", &serde_json::json!({}))
}

fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

/// A number from the environment, for the long runs; else a small one.
pub(crate) fn setting(name: &str, small: usize) -> usize {
    std::env::var(name).map_or(small, |value| value.parse().unwrap())
}

/// A signed event as the request that it makes.
pub(crate) fn request(signed: &Signed) -> oncebox_verify::Request {
    let mut headers = http::HeaderMap::new();
    for (name, value) in &signed.headers {
        headers.append(http::HeaderName::try_from(name.as_str()).unwrap(), value.parse().unwrap());
    }
    oncebox_verify::Request {
        method: http::Method::POST,
        target: "/in/stripe".to_owned(),
        headers,
        body: signed.body.clone().into(),
    }
}

/// Stores events with a delivery for the handler `billing` each, as a gateway beside the application would.
pub(crate) async fn stored(db: &TestDatabase, ids: &[String]) {
    let parts: Vec<[&str; 1]> = ids.iter().map(|id| [id.as_str()]).collect();
    stored_as(db, "stripe", &parts.iter().map(<[&str; 1]>::as_slice).collect::<Vec<_>>()).await;
}

/// As [`stored`], of any source and with ids of one or several parts.
pub(crate) async fn stored_as(db: &TestDatabase, source: &str, ids: &[&[&str]]) {
    let store = match db.backend() {
        Backend::Sqlite => Store::open_sqlite(db.file().unwrap(), Access::Visitor, Durability::Restart).await,
        Backend::Postgres => {
            Store::connect_postgres(db.url(), Connections { ingest: 2, work: 2 }, Durability::Restart).await
        }
    };
    let store = store.unwrap();
    let keys = KeyMaker::default();
    let events: Vec<NewEvent> = ids.iter().map(|id| new_event(&keys, source, id)).collect();
    let mut tx = store.begin().await.unwrap();
    insert_events(&mut tx, &events.into()).await.unwrap();
    assert!(matches!(tx.commit().await, Commit::Committed));
    store.close().await;
}

fn new_event(keys: &KeyMaker, source: &str, parts: &[&str]) -> NewEvent {
    let now = Clock::system().now();
    let id = parts.join(":");
    let compared = match parts {
        [one] => one.as_bytes().to_vec(),
        several => several.iter().flat_map(|one| [&one.len().to_be_bytes(), one.as_bytes()].concat()).collect(),
    };
    NewEvent {
        key: keys.make(now),
        source: source.into(),
        event: Identified {
            identity: Identity::of_id(source, &compared),
            identity_kind: IdentityKind::Id,
            fingerprint: None,
            on_repeat: OnRepeat::Run,
            on_other_body: OnOtherBody::Conflict,
            event_type: "invoice.paid".to_owned(),
            body: id.clone().into(),
            body_sha256: sha256(id.as_bytes()),
            event_id: id,
            held: None,
            id_disagrees: false,
        },
        headers: bytes::Bytes::new(),
        remote: "192.0.2.1:7".into(),
        received_at: now,
        handlers: vec!["billing".into()],
    }
}

/// The only kind of waiting: for a named condition, up to a bound.
pub(crate) async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(60), "waited too long until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
