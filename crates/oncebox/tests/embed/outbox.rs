//! Messages written beside an effect: there exactly when it is, once, under one key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use oncebox::Clock;
use oncebox::Message;
use oncebox::database::Commit;
use oncebox::inbox::{Context, Handler, Inbox};
use oncebox::{HandlerError, outbox};
use sqlx::{PgPool, SqlitePool};
use testkit::{Backend, TestDatabase};

use crate::handlers::quick;
use crate::world::{App, open, stored, wait_until};

/// Sends two messages with its effect and fails in its first attempts.
struct Notifies(Arc<AtomicU32>);

impl<P: App> Handler<P> for Notifies {
    async fn handle(&self, context: &mut Context<P>) -> Result<(), HandlerError> {
        let (event, tx) = context.event_and_tx().await?;
        P::effect(tx, &event.id).await?;
        context.send("notify", Message::new("crm", "{}")).await?;
        context.send("mail", Message::new("crm", "{}").path("letters")).await?;
        if self.0.fetch_add(1, Ordering::SeqCst) < 2 {
            return Err(HandlerError::retry("not yet"));
        }
        Ok(())
    }
}

async fn check<P: App>(db: TestDatabase) {
    let pool = open::<P>(&db).await;
    let rows = format!("select idempotency_key from {} order by 1", db.table("outbox_contents"));
    for (key, commits) in [("a", false), ("a", true), ("a", true), ("b", true)] {
        let mut tx = pool.begin().await.unwrap();
        outbox::send(&mut tx, &Message::new("crm", "hello").key(key)).await.unwrap();
        if commits {
            assert!(matches!(P::commit(tx).await, Commit::Committed));
        }
    }
    assert_eq!(db.query(&rows), [["crm/a"], ["crm/b"]]);
    let mut tx = pool.begin().await.unwrap();
    assert!(outbox::send(&mut tx, &Message::new("no name at all", "")).await.is_err());
    drop(tx);

    stored(&db, &["evt_1".to_owned()]).await;
    let handler = Notifies(Arc::default());
    let running = Inbox::new(pool, Clock::system()).with("billing", quick(), handler).start().await.unwrap();
    wait_until("the effect is there", || db.count("effects") == 1).await;
    running.stop(Duration::from_secs(5)).await;
    let written = format!(
        "select destination, step, path from {} join {} using (id) where delivery is not null order by step",
        db.table("outbox"),
        db.table("outbox_contents")
    );
    assert_eq!(db.query(&written), [["crm", "mail", "letters"], ["crm", "notify", ""]]);
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

#[test]
fn rusqlite() {
    testkit::database::run(Backend::Sqlite, check::<oncebox::database::rusqlite::Database>);
}

#[test]
fn diesel() {
    testkit::database::run(Backend::Postgres, check::<crate::world::Diesel>);
}
