//! Bringing the schema up to date.

use oncebox::gateway::fault::Faults;
use oncebox::gateway::store::{Depth, Inserted, StoreError};
use testkit::{Backend, Session, TestDatabase};
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
        let recorded = db.count(&db.table("migrations")) + db.count(&db.table("repeatables"));
        assert_eq!(recorded, i64::try_from(steps).unwrap());
    }

    async fn a_step_applied_from_another_text_is_refused(db: TestDatabase) {
        let world = World::new(db).await;
        world.db.execute(&format!("update {} set checksum = 'other'", world.db.table("migrations")));
        let refused = world.store.migrate().await;
        let told = |text: &String| text.contains("migration 1 (initial)") && text.contains("use a new, empty database");
        assert!(matches!(&refused, Err(StoreError::Schema(text)) if told(text)), "{refused:?}");
        // Refusing leaves the database as it was, and usable.
        assert!(matches!(world.insert_one(world.event("evt_1", "a")).await, Inserted::Accepted(_)));
    }

    async fn a_step_of_a_newer_version_is_left_alone(db: TestDatabase) {
        let world = World::new(db).await;
        let table = world.db.table("migrations");
        let known = world.db.count(&table);
        world.db.execute(&format!("insert into {table} (version, name, checksum) values (9999, 'later', 'x')"));
        assert_eq!(world.store.migrate().await.unwrap(), 0);
        assert_eq!(world.db.count(&table), known + 1);
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

    async fn a_database_of_the_development_before_is_refused_as_it_is(db: TestDatabase) {
        make_development_database(&db);
        let (tables, rows) = (db.row_counts(), db.count(&db.table("migrations")));
        let store = open(&db).await.unwrap();
        let refused = store.migrate().await;
        let told = |text: &String| text.contains("made by a development build") && text.contains("a new, empty database");
        assert!(matches!(&refused, Err(StoreError::Schema(text)) if told(text)), "{refused:?}");
        assert_eq!((db.row_counts(), db.count(&db.table("migrations"))), (tables, rows));
        assert_eq!(db.query(&exists(&db, "repeatables")), [["0"]], "nothing was made");
        let found = store.inspect(Depth::All, |_| {}).await.unwrap();
        assert!(found[0].faults.iter().any(|fault| told(&fault.what)), "{found:?}");
    }

    async fn a_repeatable_text_that_changed_is_run_again(db: TestDatabase) {
        let world = World::new(db).await;
        bend(&world);
        assert_eq!(world.store.migrate().await.unwrap(), 0, "the text is the one that was run");
        assert!(is_bent(&world), "whoever finds nothing to do does nothing");
        record(&world, "checksum = 'other'");
        assert_eq!(world.store.migrate().await.unwrap(), 1);
        assert!(!is_bent(&world));
        assert_eq!(world.store.migrate().await.unwrap(), 0);
        assert_eq!(world.count("repeatables"), 1);
    }

    async fn an_older_node_leaves_a_newer_repeatable_text_alone(db: TestDatabase) {
        let world = World::new(db).await;
        // A newer node was here.
        bend(&world);
        record(&world, "version = version + 1, checksum = 'newer'");
        assert_eq!(world.store.migrate().await.unwrap(), 0);
        assert!(is_bent(&world), "an older text took the place of a newer one");
        // And now this one is the newer one.
        record(&world, "version = version - 2, checksum = 'older'");
        assert_eq!(world.store.migrate().await.unwrap(), 1);
        assert!(!is_bent(&world));
    }

    async fn of_nodes_that_race_one_runs_the_changed_text(db: TestDatabase) {
        let world = World::new(db).await;
        bend(&world);
        record(&world, "checksum = 'other'");
        let mut nodes = JoinSet::new();
        for _ in 0..8 {
            let store = open(&world.db).await.unwrap();
            nodes.spawn(async move { store.migrate().await.unwrap() });
        }
        assert_eq!(nodes.join_all().await.iter().sum::<usize>(), 1);
        assert!(!is_bent(&world));
    }

    async fn cut_off_before_the_record_the_changed_text_was_not_run(db: TestDatabase) {
        let world = World::new(db).await;
        bend(&world);
        record(&world, "checksum = 'other'");
        let cut = open(&world.db).await.unwrap().with_faults(Faults::parse("migrate.commit=fail").unwrap());
        assert!(cut.migrate().await.is_err());
        assert!(is_bent(&world));
        assert_eq!(world.store.migrate().await.unwrap(), 1);
        assert!(!is_bent(&world));
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

/// Functions are replaced while consumers are in the middle of them: nobody fails, and nobody waits for the other.
#[test]
fn sessions_go_on_while_the_functions_are_replaced() {
    testkit::database::run(Backend::Postgres, async |db: TestDatabase| {
        let world = World::new(db).await;
        let open_transaction = Session::open(world.db.url()).await;
        open_transaction.value("begin; select oncebox.once('s', 'held open')").await;
        let mut consumers = JoinSet::new();
        for consumer in 0..4 {
            let caller = Session::open(world.db.url()).await;
            consumers.spawn(async move {
                for n in 0..100 {
                    let once = format!("select oncebox.once('s', '{consumer}/{n}')");
                    assert_eq!(caller.value(&once).await, "t");
                    assert_eq!(caller.value(&once).await, "f");
                }
            });
        }
        for _ in 0..5 {
            record(&world, "checksum = 'other'");
            assert_eq!(world.store.migrate().await.unwrap(), 1);
        }
        consumers.join_all().await;
        assert_eq!(open_transaction.value("select oncebox.once('s', 'held open')").await, "f");
        assert_eq!(world.count("remembered"), 400);
    });
}

/// Puts something else in the place of what the repeatable file makes.
fn bend(world: &World) {
    world.db.execute(match world.db.backend() {
        Backend::Sqlite => "drop view oncebox_outbox_v1; create view oncebox_outbox_v1 as select 'bent' as id",
        Backend::Postgres => {
            "create or replace function oncebox.mark(kind text, variadic parts text[]) returns uuid language sql as \
             'select null::uuid'"
        }
    });
}

fn is_bent(world: &World) -> bool {
    let asked = match world.db.backend() {
        Backend::Sqlite => "select count(*) from oncebox_outbox_v1 where id = 'bent'",
        Backend::Postgres => "select count(*) where oncebox.mark('a', 'b') is null",
    };
    world.db.query(asked) == [["1"]]
}

/// Changes what the database says about the text that was run last.
fn record(world: &World, change: &str) {
    world.db.execute(&format!("update {} set {change}", world.db.table("repeatables")));
}

fn exists(db: &TestDatabase, table: &str) -> String {
    match db.backend() {
        Backend::Sqlite => format!("select count(*) from sqlite_schema where name = 'oncebox_{table}'"),
        Backend::Postgres => format!("select count(*) from pg_class where oid = to_regclass('oncebox.{table}')"),
    }
}

/// As the steps before the first release left it: many of them, the first from another text.
fn make_development_database(db: &TestDatabase) {
    if db.backend() == Backend::Postgres {
        db.execute("create schema oncebox");
    }
    let (steps, floors, events) = (db.table("migrations"), db.table("migration_floors"), db.table("events"));
    db.execute(&format!(
        "create table {steps} (version bigint primary key, name text not null, checksum text not null)"
    ));
    db.execute(&format!("create table {floors} (version bigint primary key, floor bigint not null)"));
    db.execute(&format!("create table {events} (source text); insert into {events} values ('stripe')"));
    for (version, name) in [(1, "initial"), (2, "processing"), (9, "functions"), (22, "told_values")] {
        db.execute(&format!("insert into {steps} values ({version}, '{name}', 'an older text')"));
    }
}
