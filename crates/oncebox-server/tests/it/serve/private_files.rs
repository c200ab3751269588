//! What lies on the disk is for its owner alone, and what was erased is not on it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;
use testkit::program::{Output, run};
use testkit::{Backend, TestDatabase, http};

use crate::handling::event;
use crate::world::{BIN, PATIENCE, Setup, World, custom};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode() & 0o777
}

fn beside(file: &Path, end: &str) -> PathBuf {
    PathBuf::from(format!("{}{end}", file.display()))
}

fn check(world: &World) -> Output {
    let config = world.program.config_path();
    run(BIN, &["check", "--config", config.to_str().expect("a path is text")], &[], world.program.dir())
}

#[test]
fn a_new_database_is_for_its_owner_alone() {
    let world = World::start(TestDatabase::fresh(Backend::Sqlite));
    world.expect("custom", &event(1), "accepted");
    let file = world.db.file().expect("a file");
    for end in ["", "-wal", "-shm", ".lock"] {
        assert_eq!(mode(&beside(file, end)), 0o600, "{end}");
    }
    // Whatever the umask says.
    let open = TestDatabase::fresh(Backend::Sqlite);
    let script = "umask 000; exec \"$0\" migrate --database \"$1\"";
    let made = run("/bin/sh", &["-c", script, BIN, open.url()], &[], world.program.dir());
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    assert_eq!(mode(open.file().expect("a file")), 0o600);
}

#[test]
fn files_that_others_can_read_are_told() {
    let mut world = World::start(TestDatabase::fresh(Backend::Sqlite));
    let (config, file) = (world.program.config_path(), world.db.file().expect("a file").to_owned());
    let words = ["holds secrets (value = ...)", "other users can read the database"];
    for (bits, told) in [(0o600, false), (0o644, true)] {
        for path in [&config, &file] {
            fs::set_permissions(path, fs::Permissions::from_mode(bits)).expect("a mode can be set");
        }
        let checked = check(&world);
        assert_eq!(checked.status, Some(0), "{}", checked.stderr);
        for word in words {
            assert_eq!(checked.stderr.contains(word), told, "{bits:o} {word}: {}", checked.stderr);
        }
    }
    world.program.signal(libc::SIGTERM);
    assert!(world.program.wait_exit(PATIENCE).success());
    world.program.restart();
    assert_eq!(mode(&file), 0o644, "a mode that somebody chose stays");
    for word in words {
        assert!(world.program.log().contains(word), "{word}: {}", world.program.log());
    }
}

/// How often a text stands in the database file after an erasure and a clean stop.
fn left_after_erasure(store: &str) -> usize {
    let db = TestDatabase::fresh(Backend::Sqlite);
    let mut setup = Setup::new(db.url());
    setup.store.push_str(store);
    let mut world = World { program: setup.serve(), db };
    let canary = "ann-canary-7351";
    for number in 0..20 {
        let body = json!({"id": format!("evt_{number}"), "who": canary, "filler": "x".repeat(number * 500)});
        world.expect("custom", &custom(body.to_string()), "accepted");
    }
    let body = json!({"filter": {"source": "custom", "pointer": "/who", "value": canary}});
    let headers = [("content-type", "application/json")];
    let admin = world.program.admin_addr();
    let erased =
        http::request(admin, "POST", "/api/v1/erase", &headers, body.to_string().as_bytes()).expect("an answer");
    assert_eq!((erased.status, &erased.json()["count"]), (200, &json!(20)), "{}", erased.text());
    world.program.signal(libc::SIGTERM);
    assert!(world.program.wait_exit(PATIENCE).success());
    let file = world.db.file().expect("a file");
    assert!(fs::metadata(beside(file, "-wal")).map_or(true, |log| log.len() == 0), "the log is moved at a clean stop");
    let bytes = fs::read(file).expect("the file can be read");
    bytes.windows(canary.len()).filter(|window| *window == canary.as_bytes()).count()
}

#[test]
fn with_secure_delete_what_was_erased_is_gone_from_the_file() {
    assert_ne!(left_after_erasure(""), 0, "without it the bytes stay until the space is used again");
    assert_eq!(left_after_erasure("secure_delete = true\n"), 0);
}
