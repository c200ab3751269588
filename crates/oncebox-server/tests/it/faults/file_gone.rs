//! The database file is removed or replaced under the running server: what would be written into nowhere is not
//! acknowledged, and the program stops so that somebody looks.

use std::fs;
use std::path::{Path, PathBuf};

use testkit::http;
use testkit::program::run;
use testkit::{Backend, TestDatabase};

use crate::handling::event;
use crate::world::{BIN, PATIENCE, World};

const STORED: usize = 20;

/// A server on a file, with a few events in it.
fn started() -> World {
    let world = World::start(TestDatabase::fresh(Backend::Sqlite));
    for number in 0..STORED {
        world.expect("custom", &event(number), "accepted");
    }
    world
}

/// The database and whatever lies beside it under its name.
fn files(db: &TestDatabase) -> Vec<PathBuf> {
    let file = db.file().expect("a file");
    let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
    let beside = fs::read_dir(file.parent().expect("a folder")).expect("a folder can be read");
    let paths = beside.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| path.file_name().and_then(|one| one.to_str()).is_some_and(|one| one.starts_with(name)))
        .collect()
}

/// Whoever is heard hears 503, the server is not ready, and soon it is gone with status 1 and a word about the cure.
fn expect_the_end(world: &mut World) {
    let ready = http::request(world.program.admin_addr(), "GET", "/readyz", &[], b"");
    assert!(ready.as_ref().map_or(true, |answer| answer.status == 503), "{ready:?}");
    for number in STORED..2 * STORED {
        if let Ok(answer) = event(number).try_post(world.program.public_addr(), "custom") {
            assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{}", answer.text());
        }
    }
    expect_stopped(world);
}

fn expect_stopped(world: &mut World) {
    assert_eq!(world.program.wait_exit(PATIENCE).code(), Some(1));
    let log = world.program.log();
    let told = |line: &&str| line.contains("was removed or replaced while the server runs");
    assert_eq!(log.lines().filter(told).count(), 1, "{log}");
    assert!(log.contains("put the right file in place") && log.contains("start the server anew"), "{log}");
}

#[test]
fn after_the_file_was_removed_nothing_is_acknowledged() {
    let mut world = started();
    files(&world.db).iter().for_each(|path| fs::remove_file(path).expect("a file can be removed"));
    expect_the_end(&mut world);
    assert_eq!(files(&world.db), Vec::<PathBuf>::new(), "nothing was made anew");
}

#[test]
fn after_the_log_was_removed_nothing_is_acknowledged_and_nothing_lost() {
    for has_traffic in [true, false] {
        let mut world = started();
        let file = world.db.file().expect("a file");
        fs::remove_file(file.with_extension("db-wal")).expect("the log can be removed");
        if has_traffic {
            expect_the_end(&mut world)
        } else {
            expect_stopped(&mut world)
        }
        world.program.restart();
        for number in 0..STORED {
            world.expect("custom", &event(number), "duplicate");
        }
    }
}

#[test]
fn a_server_without_traffic_notices_that_its_file_is_gone() {
    let mut world = started();
    files(&world.db).iter().for_each(|path| fs::remove_file(path).expect("a file can be removed"));
    expect_stopped(&mut world);
}

#[test]
fn after_a_backup_was_moved_over_the_file_nothing_is_acknowledged() {
    let mut world = started();
    let file = world.db.file().expect("a file").to_owned();
    let copy = file.with_file_name("copy.db");
    let text = |path: &Path| path.to_str().expect("a path is text").to_owned();
    let backup = run(BIN, &["backup", "--to", &text(&copy), "--database", world.db.url()], &[], world.program.dir());
    assert_eq!(backup.status, Some(0), "{}", backup.stderr);
    fs::rename(&copy, &file).expect("a file can be moved");
    expect_the_end(&mut world);
    // As the restoring of a backup asks.
    for end in ["db-wal", "db-shm"] {
        let _ = fs::remove_file(file.with_extension(end));
    }
    world.program.restart();
    for number in 0..STORED {
        world.expect("custom", &event(number), "duplicate");
    }
    for number in STORED..2 * STORED {
        world.expect("custom", &event(number), "accepted");
    }
}
