//! A copy of an SQLite file while others write to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oncebox::gateway::store::{Access, Depth, Durability, Inserted, Store};
use testkit::{Backend, TestDatabase, database};

use crate::world::World;

#[test]
fn a_copy_is_of_one_moment_while_writers_go_on() {
    database::run(Backend::Sqlite, async |db| {
        // As the server opens it: with a log beside the file, so that readers and writers do not wait for each other.
        let file = db.file().unwrap().to_owned();
        let store = Store::open_sqlite(&file, Access::Server, Durability::Restart).await.unwrap();
        store.migrate().await.unwrap();
        let world = Arc::new(World { db, store, keys: Arc::default() });
        world.insert((0..500).map(|n| world.event(&format!("evt_{n}"), &"x".repeat(20_000)))).await;
        let over = Arc::new(AtomicBool::new(false));
        let writer = tokio::spawn({
            let (world, over) = (world.clone(), over.clone());
            async move {
                let mut count = 0;
                while !over.load(Ordering::Relaxed) {
                    world.insert_one(world.event(&format!("new_{count}"), "y")).await;
                    count += 1;
                }
                count
            }
        });
        let folder = tempfile();
        let copy = folder.join("copy.db");
        let steps = Arc::new(std::sync::Mutex::new(Vec::new()));
        let told = steps.clone();
        world.store.back_up(&copy, move |copied| told.lock().unwrap().push(copied)).await.unwrap();
        over.store(true, Ordering::Relaxed);
        let written = writer.await.unwrap();
        let steps = steps.lock().unwrap().clone();
        assert!(steps.len() > 1 && steps.last().is_some_and(|last| last.pages == last.of), "{steps:?}");
        assert!(written > 0, "nobody waited for the copy");

        let store = Store::open_sqlite(&copy, Access::Server, Durability::Restart).await.unwrap();
        assert_eq!(store.migrate().await.unwrap(), 0);
        let found = store.inspect(Depth::All, |_| {}).await.unwrap();
        assert!(found.iter().all(|one| one.faults.is_empty()), "{found:?}");
        let mut tx = store.begin().await.unwrap();
        let known =
            oncebox::gateway::store::insert_events(&mut tx, &[world.event("evt_7", &"x".repeat(20_000))].into()).await;
        assert!(matches!(known.unwrap()[..], [Inserted::Duplicate(_)]));
        tx.rollback().await;
        store.close().await;
        std::fs::remove_dir_all(folder).unwrap();
    });
}

fn tempfile() -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("oncebox-backup-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn postgres_is_not_copied_by_us() {
    database::run(Backend::Postgres, async |db: TestDatabase| {
        let world = World::new(db).await;
        assert!(world.store.back_up(std::path::Path::new("nowhere"), |_| {}).await.is_err());
    });
}
