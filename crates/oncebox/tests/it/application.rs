//! What an application does beside the store: on the same database, by a driver of its own.

use std::collections::HashSet;

use oncebox::Message;
use oncebox::Once;
use oncebox::gateway::event::MessageKey;
use oncebox::gateway::store::StoreError;
use rusqlite::TransactionBehavior;
use testkit::{Backend, TestDatabase};

use crate::world::WAIT_MAX;

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    RollBack,
}

/// Claims ids of a scope, all in one transaction, and says what each of them was.
pub(crate) async fn once(db: &TestDatabase, scope: &str, ids: &[&str], end: End) -> Result<Vec<Once>, StoreError> {
    let mut seen = Vec::new();
    if db.backend() == Backend::Sqlite {
        let mut connection = open(db);
        let mut tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        for id in ids {
            seen.push(oncebox::database::rusqlite::once(&mut tx, scope, id)?);
        }
        if end == End::Commit {
            tx.commit().unwrap();
        }
    } else {
        let mut client = connect(db).await;
        let mut tx = client.transaction().await.unwrap();
        for id in ids {
            seen.push(oncebox::once(&mut tx, scope, id).await?);
        }
        if end == End::Commit {
            tx.commit().await.unwrap();
        }
    }
    Ok(seen)
}

/// Writes a message. Where it is a new one, it gets this id, and is written and due at this time: tests have a time of
/// their own. False where an earlier message has its key.
pub(crate) async fn send(db: &TestDatabase, message: &Message, id: MessageKey, at: i64) -> Result<bool, StoreError> {
    let ids =
        || db.query(&format!("select id from {}", db.table("outbox"))).concat().into_iter().collect::<HashSet<_>>();
    let before = ids();
    if db.backend() == Backend::Sqlite {
        let mut connection = open(db);
        let mut tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        oncebox::database::rusqlite::send(&mut tx, message)?;
        tx.commit().unwrap();
    } else {
        let mut client = connect(db).await;
        let mut tx = client.transaction().await.unwrap();
        oncebox::outbox::send(&mut tx, message).await?;
        tx.commit().await.unwrap();
    }
    let after = ids();
    let Some(new) = after.difference(&before).next() else { return Ok(false) };
    let (id, new) = (literal(db, &id.to_string()), literal(db, new));
    db.execute(&format!("update {} set id = {id} where id = {new}", db.table("outbox_contents")));
    db.execute(&format!(
        "update {} set id = {id}, due_at_ms = {at}, created_at_ms = {at} where id = {new}",
        db.table("outbox")
    ));
    Ok(true)
}

/// A key as SQL writes it.
fn literal(db: &TestDatabase, key: &str) -> String {
    match db.backend() {
        Backend::Sqlite => format!("x'{}'", key.trim_start_matches("\\x").replace('-', "")),
        Backend::Postgres => format!("'{key}'"),
    }
}

fn open(db: &TestDatabase) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(db.file().unwrap()).unwrap();
    connection.busy_timeout(WAIT_MAX).unwrap();
    connection
}

async fn connect(db: &TestDatabase) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(db.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
