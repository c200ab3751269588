//! A database that may forget what it acknowledged is refused, and an SQLite file has one server.

use std::time::{Duration, Instant};

use oncebox::gateway::store::{Access, Durability, HandlerSql, Store, StoreError};
use testkit::postgres::{Cluster, Options};
use testkit::{Backend, TestDatabase};

use crate::store_contract::deliveries::{claim, processing};
use crate::world::World;
use crate::world::{ALL, committed, open, open_with, run_handler};

testkit::contract! {
    async fn a_usual_database_is_safe(db: TestDatabase) {
        let store = open(&db).await.unwrap();
        assert_eq!(store.unsafe_because(), None);
        store.ping().await.unwrap();
        let kind = if db.backend() == Backend::Sqlite { "sqlite" } else { "postgres" };
        assert_eq!(store.kind(), kind);
    }
}

#[test]
fn a_file_has_one_server_and_any_number_of_visitors() {
    testkit::database::run(Backend::Sqlite, async |db: TestDatabase| {
        let file = db.file().unwrap().to_owned();
        let serve = || Store::open_sqlite(&file, Access::Server, Durability::Restart);
        let server = serve().await.unwrap();
        server.migrate().await.unwrap();
        let second = serve().await;
        assert!(
            matches!(&second, Err(StoreError::InUse(text)) if text.contains("another oncebox server")),
            "{second:?}"
        );
        let visitors = [open(&db).await.unwrap(), open(&db).await.unwrap()];
        for visitor in &visitors {
            visitor.stats(0).await.unwrap();
            drop(visitor.begin().await.unwrap());
        }
        // A clone is the same server; the place is free when the last one is gone.
        let clone = server.clone();
        drop(server);
        assert!(serve().await.is_err());
        drop(clone);
        // A process that another test starts at this moment holds a copy of our lock until it runs its own program.
        let deadline = Instant::now() + Duration::from_secs(10);
        let next = loop {
            match serve().await {
                Err(StoreError::InUse(_)) if Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(5)).await
                }
                opened => break opened.unwrap(),
            }
        };
        next.ping().await.unwrap();
    });
}

#[test]
fn an_sqlite_file_flushes_each_commit() {
    testkit::database::run(Backend::Sqlite, async |db: TestDatabase| {
        let server = Store::open_sqlite(db.file().unwrap(), Access::Server, Durability::Restart).await.unwrap();
        assert_eq!((db.query("pragma journal_mode"), server.unsafe_because()), (vec![vec!["wal".to_owned()]], None));
    });
}

#[test]
fn a_visitor_leaves_the_journal_mode_of_an_sqlite_file_alone() {
    testkit::database::run(Backend::Sqlite, async |db: TestDatabase| {
        db.execute("create table application (n)");
        let mode = db.query("pragma journal_mode");
        let visitor = Store::open_sqlite(db.file().unwrap(), Access::Visitor, Durability::Restart).await.unwrap();
        visitor.ping().await.unwrap();
        assert_eq!(db.query("pragma journal_mode"), mode);
    });
}

#[test]
fn a_closed_sqlite_file_is_the_whole_database() {
    testkit::database::run(Backend::Sqlite, async |db: TestDatabase| {
        let server = Store::open_sqlite(db.file().unwrap(), Access::Server, Durability::Restart).await.unwrap();
        server.migrate().await.unwrap();
        server.ping().await.unwrap();
        server.close().await;
        let log = db.file().unwrap().with_extension("db-wal");
        assert!(std::fs::metadata(log).map_or(0, |log| log.len()) == 0);
        assert!(server.begin().await.is_err() && server.ping().await.is_err());
    });
}

#[test]
fn commits_that_do_not_wait_for_the_disk_are_refused() {
    testkit::database::run(Backend::Postgres, async |db: TestDatabase| {
        let early = open(&db).await.unwrap();
        early.migrate().await.unwrap();
        let name = &db.query("select current_database()")[0][0];
        db.execute(&format!("alter database {name} set synchronous_commit = off"));
        check_refused(&db, "synchronous_commit = off").await;
        // Connections made before keep their setting; a new one is asked again.
        let (first, second) = (early.begin().await, early.begin().await);
        assert!(first.is_ok());
        assert!(matches!(second, Err(StoreError::Unsafe(_))), "{second:?}");
    });
}

/// A setting that is changed for everybody reaches sessions that are open; not those that acknowledge.
#[test]
fn a_session_keeps_waiting_for_the_disk() {
    let cluster = Cluster::start(Options::default());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let world = processing(TestDatabase::fresh_on(&cluster)).await;
        world.db.execute("create table seen (setting text)");
        world.insert((0..2).map(|n| world.event(&format!("evt_{n}"), "{}"))).await;
        let claimed = claim(&world, 2).await;
        world.db.execute("alter system set synchronous_commit = off");
        world.db.execute("select pg_reload_conf()");
        let setting = || world.db.query("show synchronous_commit")[0][0].clone();
        let begun = Instant::now();
        while setting() != "off" {
            assert!(begun.elapsed() < Duration::from_secs(60), "the server reads its settings");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Twice, because a session is cleaned after somebody else's statements ran in it.
        let sql = "insert into seen select current_setting('synchronous_commit')";
        let sql = HandlerSql::parse(sql, world.store.dialect()).unwrap();
        for one in claimed.chunks(1) {
            let mut tx = world.store.begin().await.unwrap();
            assert_eq!(run_handler(&mut tx, &sql, one, Duration::from_secs(5)).await.unwrap(), ALL);
            committed(tx).await.unwrap();
        }
        assert_eq!(world.db.query("select setting from seen"), [["on"], ["on"]]);
    });
}

/// No session can keep `fsync` on for itself: it must be noticed while serving, and without a restart when it is back.
#[test]
fn flushing_that_is_turned_off_is_noticed() {
    let cluster = Cluster::start(Options::default());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let world = World::new(TestDatabase::fresh_on(&cluster)).await;
        let turn = |setting: &str| {
            world.db.execute(&format!("alter system set fsync = {setting}"));
            world.db.execute("select pg_reload_conf()");
        };
        // Ended cleanly, so that its session goes back and comes again.
        let begins = async || match world.store.begin().await {
            Ok(tx) => {
                tx.rollback().await;
                true
            }
            Err(_) => false,
        };
        let until = async |wanted: bool| {
            let begun = Instant::now();
            while begins().await != wanted {
                assert!(begun.elapsed() < Duration::from_secs(60), "it is noticed");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        until(true).await;
        turn("off");
        until(false).await;
        let refused = world.store.begin().await;
        assert!(matches!(&refused, Err(StoreError::Unsafe(text)) if text.contains("fsync = off")), "{refused:?}");
        turn("on");
        until(true).await;
    });
}

#[test]
fn a_server_without_fsync_is_refused() {
    let cluster = Cluster::start(Options::default().setting("fsync=off"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(check_refused(&TestDatabase::fresh_on(&cluster), "fsync = off"));
}

/// Refused with the reason, unless the operator insists; the reason is then shown.
async fn check_refused(db: &TestDatabase, reason: &str) {
    let refused = open_with(db, Durability::Restart).await;
    assert!(matches!(&refused, Err(StoreError::Unsafe(text)) if text.contains(reason)), "{refused:?}");
    let store = open_with(db, Durability::Unsafe).await.unwrap();
    assert!(store.unsafe_because().unwrap().contains(reason));
    store.migrate().await.unwrap();
}
