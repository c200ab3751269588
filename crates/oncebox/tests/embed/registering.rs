//! Handlers that a gateway's config describes: an application that runs one takes the description as it is.

use std::time::Duration;

use oncebox::Clock;
use oncebox::HandlerError;
use oncebox::RetryPolicy;
use oncebox::gateway::store::{Access, Connections, Durability, HandlerFacts, OnDead, Store};
use oncebox::inbox::{Context, Handler, Inbox, Options};
use sqlx::{PgPool, SqlitePool};
use testkit::{Backend, TestDatabase};

use crate::handlers::quick;
use crate::world::{App, open};

struct Idle;

impl<P: App> Handler<P> for Idle {
    async fn handle(&self, _context: &mut Context<P>) -> Result<(), HandlerError> {
        Ok(())
    }
}

async fn run_once<P: App>(pool: &P, handler: &str, options: Options) {
    let inbox = Inbox::new(pool.clone(), Clock::system()).with(handler, options, Idle).start().await.unwrap();
    inbox.stop(Duration::from_secs(5)).await;
}

async fn configured(db: &TestDatabase) {
    let store = match db.backend() {
        Backend::Sqlite => Store::open_sqlite(db.file().unwrap(), Access::Visitor, Durability::Restart).await,
        Backend::Postgres => {
            Store::connect_postgres(db.url(), Connections { ingest: 2, work: 2 }, Durability::Restart).await
        }
    };
    let retry = RetryPolicy { attempts: 7, base: Duration::from_secs(2), cap: Duration::from_secs(30) };
    let facts =
        HandlerFacts { name: "billing".to_owned(), retry, lease: Duration::from_secs(90), on_dead: OnDead::Block };
    let store = store.unwrap();
    store.register_handlers(&[facts]).await.unwrap();
    store.close().await;
}

async fn check<P: App>(db: TestDatabase) {
    let pool = open::<P>(&db).await;
    let columns = |handler: &str| {
        let handlers = db.table("handlers");
        db.query(&format!(
            "select on_dead, attempts, base_ms, cap_ms, lease_ms from {handlers} where handler = '{handler}'"
        ))
    };
    // Before there is a config, the application's own word counts, and may change.
    for attempts in [4, 5] {
        let options = Options { retry: RetryPolicy { attempts, ..quick().retry }, ..quick() };
        run_once(&pool, "billing", options).await;
        assert_eq!(columns("billing"), [["skip", &attempts.to_string(), "1", "5", "3000"]]);
    }
    configured(&db).await;
    let as_configured = [["block", "7", "2000", "30000", "90000"]];
    assert_eq!(columns("billing"), as_configured);
    run_once(&pool, "billing", quick()).await;
    assert_eq!(columns("billing"), as_configured, "the order that the config asks for is not given up");
    run_once(&pool, "of_our_own", quick()).await;
    assert_eq!(columns("of_our_own"), [["skip", "4", "1", "5", "3000"]]);
}

#[test]
fn an_inbox_leaves_a_configured_handler_as_it_is_on_postgres() {
    testkit::database::run(Backend::Postgres, check::<PgPool>);
}

#[test]
fn an_inbox_leaves_a_configured_handler_as_it_is_on_sqlite() {
    testkit::database::run(Backend::Sqlite, check::<SqlitePool>);
}
