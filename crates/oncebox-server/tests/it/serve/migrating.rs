//! Migrations of the real binary: killed at any moment, beside a newer program, and after one.
//!
//! `ONCEBOX_TEST_KILLS` sets the number of kills, `ONCEBOX_TEST_SEED` repeats a run.

use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use serde_json::{Value, json};
use testkit::program::{Output, run};
use testkit::{TestDatabase, contract};

use crate::chance::{Random, number};
use crate::world::{BIN, PATIENCE, Setup, World, custom};

const KILLS: usize = 12;

fn oncebox(args: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    run(BIN, args, &[], folder.path())
}

#[track_caller]
fn expect_whole(db: &TestDatabase) {
    let checked = oncebox(&["check", "--database", db.url(), "--full"]);
    assert_eq!(checked.status, Some(0), "{}{}", checked.stdout, checked.stderr);
}

/// Takes everything of ours away.
fn empty(db: &TestDatabase) {
    match db.file() {
        None => db.execute("drop schema if exists oncebox cascade"),
        Some(file) => {
            for ending in ["", "-wal", "-shm", "-journal"] {
                let _ = fs::remove_file(format!("{}{ending}", file.display()));
            }
        }
    }
}

/// The lines of the JSON log with this message.
fn told(log: &str, message: &str) -> Vec<Value> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["message"].as_str().is_some_and(|found| found.contains(message))).collect()
}

contract! {
    async fn a_start_is_told_in_the_log_and_on_the_terminal(db: TestDatabase) {
        let mut setup = Setup::new(db.url());
        setup.rest.push_str(
            "[[destination]]\nname = \"crm\"\nurl = \"http://127.0.0.1:9/crm?key=canary-url\"\n\
             [[alert]]\nname = \"on-call\"\nurl = { value = \"http://127.0.0.1:9/alert?key=canary-url\" }\n",
        );
        let mut world = World { program: setup.serve(), db };
        let log = world.program.log();
        let started = told(&log, "started");
        assert_eq!(started.len(), 1, "{log}");
        let database = if world.db.file().is_some() { "sqlite" } else { "postgres" };
        for (field, expected) in [
            ("version", json!(env!("CARGO_PKG_VERSION"))),
            ("listen", json!(world.program.public_addr())),
            ("admin_listen", json!(world.program.admin_addr())),
            ("database", json!(database)),
            ("sources", json!(15)),
            ("handlers", json!(1)),
            ("destinations", json!(1)),
            ("alerts", json!(1)),
        ] {
            assert_eq!(started[0][field], expected, "{field}: {log}");
        }
        assert!(!log.contains("canary"), "{log}");
        for line in ["  destination crm", "  alert     on-call"] {
            assert!(log.lines().any(|found| found.starts_with(line)), "{line}: {log}");
        }
        assert!(told(&log, "migrations applied")[0]["steps"].as_u64().is_some_and(|steps| steps > 0), "{log}");
        world.program.kill9();
        world.program.restart();
        let log = world.program.log();
        assert_eq!((told(&log, "started").len(), told(&log, "migrations applied").len()), (2, 1), "{log}");
    }

    async fn killed_at_any_moment_a_migration_is_done_or_not_begun(db: TestDatabase) {
        let mut random = Random::seeded();
        let (mut done, mut not_begun) = (0, 0);
        let kills = number("ONCEBOX_TEST_KILLS").unwrap_or(KILLS);
        let all = oncebox(&["migrate", "--database", db.url()]).stdout;
        let all = all.split(" to ").next().expect("a count").to_owned();
        assert!(all.ends_with(" migrations applied"), "{all}");
        empty(&db);
        for _ in 0..kills {
            let mut child = Command::new(BIN)
                .args(["migrate", "--database", db.url()])
                .env_remove("ONCEBOX_CONFIG")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("it starts");
            thread::sleep(Duration::from_micros(random.below(120_000)));
            child.kill().expect("killed");
            child.wait().expect("ended");
            // The server may still be at the commit of a client that is gone, so the next one is asked what it found.
            let again = oncebox(&["migrate", "--database", db.url()]);
            assert_eq!(again.status, Some(0), "{}", again.stderr);
            match again.stdout.contains("up to date") {
                true => done += 1,
                false => {
                    assert!(again.stdout.starts_with(&all), "all steps or none: {}", again.stdout);
                    not_begun += 1;
                }
            }
            expect_whole(&db);
            empty(&db);
        }
        println!("{:?}: {kills} kills, {done} after the commit, {not_begun} before", db.backend());
    }

    async fn killed_at_every_point_the_next_start_is_clean(db: TestDatabase) {
        for point in ["store.migrate", "migrate.step", "migrate.step=abort@2", "migrate.commit", "migrate.committed"] {
            let plan = if point.contains('=') { point.to_owned() } else { format!("{point}=abort") };
            let mut program = Setup::new(db.url()).env("ONCEBOX_FAULTS", &plan).launch();
            assert!(!program.wait_exit(PATIENCE).success(), "{point}");
            drop(program);
            let migrated = oncebox(&["migrate", "--database", db.url()]);
            assert_eq!(migrated.status, Some(0), "{point}: {}", migrated.stderr);
            expect_whole(&db);
            empty(&db);
        }
        World::start(db).expect("custom", &custom(r#"{"id":"a"}"#), "accepted");
    }

    async fn a_schema_from_another_text_is_refused_with_the_cure(db: TestDatabase) {
        let mut world = World::start(db);
        world.expect("custom", &custom(r#"{"id":"a"}"#), "accepted");
        world.program.kill9();
        world.db.execute(&format!("update {} set checksum = 'another text'", world.db.table("migrations")));
        let before = world.row_counts();
        let mut refused = Setup::new(world.db.url()).launch();
        assert!(!refused.wait_exit(PATIENCE).success());
        assert!(refused.log().contains("use a new, empty database"), "{}", refused.log());
        let refused = oncebox(&["migrate", "--database", world.db.url()]);
        assert!(refused.status == Some(1) && refused.stderr.contains("made by a development build"), "{refused:?}");
        assert_eq!(world.row_counts(), before);
    }

    async fn a_newer_schema_is_served_unless_it_says_otherwise(db: TestDatabase) {
        let mut world = World::start(db);
        world.expect("custom", &custom(r#"{"id":"a"}"#), "accepted");
        let (steps, floors) = (world.db.table("migrations"), world.db.table("migration_floors"));
        // A newer program came, and its step suits this one: the one that runs goes on, and it may start again.
        world.db.execute(&format!("insert into {steps} (version, name, checksum) values (9998, 'later', 'x')"));
        world.db.execute(&format!("insert into {floors} (version, floor) values (9998, 1)"));
        world.db.execute(&format!("alter table {} add column later text", world.db.table("events")));
        world.expect("custom", &custom(r#"{"id":"b"}"#), "accepted");
        world.program.kill9();
        world.program.restart();
        world.expect("custom", &custom(r#"{"id":"b"}"#), "duplicate");
        expect_whole(&world.db);
        // One that does not suit it: it stops at its start, says why, and touches nothing.
        world.db.execute(&format!("insert into {steps} (version, name, checksum) values (9999, 'breaking', 'x')"));
        world.db.execute(&format!("insert into {floors} (version, floor) values (9999, 9999)"));
        world.program.kill9();
        let before = world.row_counts();
        let mut old = Setup::new(world.db.url()).launch();
        assert!(!old.wait_exit(PATIENCE).success());
        assert!(old.log().contains("changed by a newer oncebox"), "{}", old.log());
        let refused = oncebox(&["migrate", "--database", world.db.url()]);
        assert!(refused.status == Some(1) && refused.stderr.contains("run the newer program, or restore a backup"), "{refused:?}");
        assert_eq!(world.row_counts(), before);
    }
}
