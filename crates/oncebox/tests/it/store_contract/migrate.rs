//! Bringing the schema up to date.

use oncebox::fault::Faults;
use oncebox::store::{Depth, Inserted, StoreError};
use testkit::{Backend, TestDatabase};
use tokio::task::JoinSet;

use crate::world::{World, migrations, open};

testkit::contract! {
    async fn a_second_time_there_is_nothing_to_do(db: TestDatabase) {
        let world = World::new(db).await;
        world.insert_one(world.event("evt_1", "a")).await;
        assert_eq!(world.store.migrate().await.unwrap(), 0);
        assert_eq!(open(&world.db).await.unwrap().migrate().await.unwrap(), 0);
        assert_eq!(world.count("events"), 1);
    }

    async fn eight_at_once_all_succeed_and_one_does_the_work(db: TestDatabase) {
        let mut nodes = JoinSet::new();
        for _ in 0..8 {
            let store = open(&db).await.unwrap();
            nodes.spawn(async move { store.migrate().await });
        }
        let mut steps = 0;
        while let Some(node) = nodes.join_next().await {
            steps += node.unwrap().unwrap();
        }
        assert_eq!(steps, migrations(&db));
        assert_eq!(db.count(&db.table("migrations")), i64::try_from(steps).unwrap());
    }

    async fn a_step_applied_from_another_text_is_refused(db: TestDatabase) {
        let world = World::new(db).await;
        world.db.execute(&format!("update {} set checksum = 'other'", world.db.table("migrations")));
        let refused = world.store.migrate().await;
        assert!(matches!(&refused, Err(StoreError::Schema(text)) if text.contains("migration 1 (initial)")), "{refused:?}");
        // Refusing leaves the database as it was, and usable.
        assert!(matches!(world.insert_one(world.event("evt_1", "a")).await, Inserted::Accepted(_)));
    }

    async fn a_step_of_a_newer_version_is_left_alone(db: TestDatabase) {
        let world = World::new(db).await;
        let table = world.db.table("migrations");
        world.db.execute(&format!("insert into {table} (version, name, checksum) values (9999, 'later', 'x')"));
        assert_eq!(world.store.migrate().await.unwrap(), 0);
        assert_eq!(world.db.count(&table), i64::try_from(migrations(&world.db)).unwrap() + 1);
    }

    async fn a_later_step_may_say_whom_it_breaks(db: TestDatabase) {
        let world = World::new(db).await;
        let (steps, floors) = (world.db.table("migrations"), world.db.table("migration_floors"));
        world.db.execute(&format!("insert into {steps} (version, name, checksum) values (9998, 'later', 'x')"));
        // Compatible with everybody who knows the first step.
        world.db.execute(&format!("insert into {floors} (version, floor) values (9998, 1)"));
        assert_eq!(world.store.migrate().await.unwrap(), 0);
        assert!(matches!(world.insert_one(world.event("evt_1", "a")).await, Inserted::Accepted(_)));
        world.db.execute(&format!("insert into {steps} (version, name, checksum) values (9999, 'breaking', 'x')"));
        world.db.execute(&format!("insert into {floors} (version, floor) values (9999, 9999)"));
        let refused = world.store.migrate().await;
        let told = |text: &String| text.contains("changed by a newer oncebox") && text.contains("knows migration 9999");
        assert!(matches!(&refused, Err(StoreError::Schema(text)) if told(text)), "{refused:?}");
    }

    async fn cut_off_at_any_step_it_begins_again(db: TestDatabase) {
        let steps = migrations(&db);
        for step in 1..=steps {
            let cut = open(&db).await.unwrap().with_faults(Faults::parse(&format!("migrate.step=fail@{step}")).unwrap());
            assert!(cut.migrate().await.is_err(), "{step}");
            assert!(!db.row_counts().contains_key("ledger"), "{step}: half a schema is none");
        }
        let unsure = open(&db).await.unwrap().with_faults(Faults::parse("migrate.committed=fail").unwrap());
        assert!(unsure.migrate().await.is_err());
        assert_eq!(open(&db).await.unwrap().migrate().await.unwrap(), 0, "it was done");
        let found = open(&db).await.unwrap().inspect(Depth::All, |_| {}).await.unwrap();
        assert!(found.iter().all(|one| one.faults.is_empty()), "{found:?}");
    }

    async fn an_application_keeps_its_tables(db: TestDatabase) {
        db.execute("create table events (id text primary key); insert into events values ('mine')");
        db.execute("create table migrations (version integer); insert into migrations values (41)");
        let world = World::new(db).await;
        world.insert_one(world.event("evt_1", "a")).await;
        assert_eq!(world.db.query("select id from events"), [["mine"]]);
        assert_eq!(world.db.query("select version from migrations"), [["41"]]);
        assert_eq!(world.store.migrate().await.unwrap(), 0);
        world.check();
    }

    async fn everything_of_ours_is_apart(db: TestDatabase) {
        let world = World::new(db).await;
        let foreign = match world.db.backend() {
            Backend::Sqlite => "select name from sqlite_master where name not like 'oncebox\\_%' escape '\\' \
                                and name not like 'sqlite\\_%' escape '\\'",
            Backend::Postgres => "select relname from pg_class where relnamespace = to_regnamespace('public')",
        };
        assert_eq!(world.db.query(foreign), Vec::<Vec<String>>::new());
    }
}
