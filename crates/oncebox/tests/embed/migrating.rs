//! The schema over every driver: made once, refused where it is another's, and its repeatable file run again when its text
//! changes.

use oncebox::database::migrate;
use oncebox::gateway::store::StoreError;
use sqlx::{PgPool, SqlitePool};
use testkit::{Backend, TestDatabase};
use tokio::task::JoinSet;

use crate::world::{App, Diesel};

async fn check<P: App>(db: TestDatabase) {
    let mut processes = JoinSet::new();
    for _ in 0..4 {
        let pool = P::open(&db).await;
        processes.spawn(async move { migrate(&pool).await.unwrap() });
    }
    assert_eq!(processes.join_all().await.iter().sum::<usize>(), 2, "one of them made it all");

    let pool = P::open(&db).await;
    let (migrations, repeatables) = (db.table("migrations"), db.table("repeatables"));
    db.execute(&format!("update {repeatables} set checksum = 'other'"));
    assert_eq!(migrate(&pool).await.unwrap(), 1);
    assert_eq!(migrate(&pool).await.unwrap(), 0);
    db.execute(&format!("update {repeatables} set version = version + 1, checksum = 'newer'"));
    assert_eq!(migrate(&pool).await.unwrap(), 0);

    db.execute(&format!("update {migrations} set checksum = 'other'"));
    let refused = migrate(&pool).await;
    assert!(matches!(&refused, Err(StoreError::Schema(text)) if text.contains("new, empty database")), "{refused:?}");
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
    testkit::database::run(Backend::Postgres, check::<Diesel>);
}

#[test]
fn rusqlite_that_blocks() {
    testkit::database::run(Backend::Sqlite, async |db: TestDatabase| {
        let mut connection = rusqlite::Connection::open(db.file().unwrap()).unwrap();
        assert_eq!(oncebox::database::rusqlite::migrate(&mut connection).unwrap(), 2);
        assert_eq!(oncebox::database::rusqlite::migrate(&mut connection).unwrap(), 0);
        connection.execute("update oncebox_migrations set checksum = 'other'", []).unwrap();
        let refused = oncebox::database::rusqlite::migrate(&mut connection);
        assert!(matches!(&refused, Err(StoreError::Schema(_))), "{refused:?}");
    });
}
