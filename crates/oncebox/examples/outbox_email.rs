//! An e-mail for every order, in the same transaction as the order: the message is there exactly when the order is, and
//! the relay sends it at least once, always under the same key.
//!
//! `cargo run -p oncebox --example outbox_email --features sqlx-sqlite`

use std::error::Error;
use std::time::Duration;

use oncebox::Message;
use oncebox::database::{Commit, Pool, migrate};
use oncebox::{HandlerError, Once, once, outbox};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use testkit::{Backend, TestDatabase};

/// One delivery: order and letter commit together, or neither.
async fn deliver(pool: &SqlitePool, id: &str) -> Result<Once, HandlerError> {
    let mut tx = Pool::begin(pool).await?;
    let claimed = once(&mut tx, "stripe", id).await?;
    if claimed == Once::Fresh {
        sqlx::query("insert into orders (event) values (?)").bind(id).execute(&mut *tx).await?;
        let letter = serde_json::json!({ "to": "customer@example.com", "subject": format!("Order {id}") });
        outbox::send(&mut tx, &Message::new("mailer", letter.to_string()).key(id)).await?;
    }
    match <SqlitePool as Pool>::commit(tx).await {
        Commit::Committed => Ok(claimed),
        Commit::Failed(error) | Commit::Unknown(error) => Err(error.into()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let db = TestDatabase::fresh(Backend::Sqlite);
    let options = SqliteConnectOptions::new().filename(db.file().ok_or("a file")?).create_if_missing(true);
    let options = options.journal_mode(SqliteJournalMode::Wal).busy_timeout(Duration::from_secs(20));
    let pool = SqlitePool::connect_with(options).await?;
    migrate(&pool).await?;
    sqlx::query("create table orders (event text)").execute(&pool).await?;

    let mut copies = tokio::task::JoinSet::new();
    for copy in 0..40 {
        let pool = pool.clone();
        copies.spawn(async move { deliver(&pool, &format!("evt_{}", 1 + copy % 2)).await });
    }
    for outcome in copies.join_all().await {
        let _ = outcome.map_err(|error| error.chain())?;
    }
    assert_eq!(db.query("select event from orders order by event"), [["evt_1"], ["evt_2"]]);
    let letters = db.query("select idempotency_key, state from oncebox_outbox_v1 order by 1");
    assert_eq!(letters, [["mailer/evt_1", "ready"], ["mailer/evt_2", "ready"]]);
    println!("40 deliveries of 2 events: 2 orders, 2 letters for the relay");
    Ok(())
}
