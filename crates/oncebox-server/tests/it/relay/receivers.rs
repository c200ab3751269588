//! The receivers of `examples/receiver`, run as they are: with the relay killed between call and mark, the chain ends
//! with one effect for each message.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use testkit::{Backend, TestDatabase, free_port, http};

use super::{setup, wait_for_messages, write};
use crate::world::{PATIENCE, World, wait_until};

const MESSAGES: usize = 30;
/// The destination's, with which the receivers check who calls.
const SECRET: &str = "whsec_Y2FuYXJ5LXJlY2VpdmVyLTAwMDE=";

#[test]
fn python() {
    let database = folder("python").join("effects.db");
    let mut command = Command::new("python3");
    command.arg(examples().join("python/receiver.py"));
    check(Backend::Sqlite, command, database.to_str().expect("a path"));
}

#[test]
fn rust() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let built =
        Command::new(cargo).args(["build", "--quiet", "-p", "oncebox-server", "--example", "receiver"]).status();
    assert!(built.expect("cargo runs").success(), "the example cannot be built");
    let program = Path::new(crate::world::BIN).with_file_name("examples").join("receiver");
    let database = folder("rust").join("effects.db");
    check(Backend::Sqlite, Command::new(program), database.to_str().expect("a path"));
}

#[test]
fn typescript() {
    let folder = folder("typescript");
    for file in ["package.json", "receiver.ts"] {
        std::fs::copy(examples().join("typescript").join(file), folder.join(file)).expect("copied");
    }
    for args in [&["install", "--no-audit", "--no-fund", "--loglevel=error"][..], &["run", "--silent", "build"]] {
        let done = Command::new("npm").args(args).current_dir(&folder).status().expect("npm is needed");
        assert!(done.success(), "npm {args:?}");
    }
    let effects = TestDatabase::fresh(Backend::Postgres);
    let mut command = Command::new("node");
    command.arg(folder.join("receiver.js"));
    check(Backend::Postgres, command, effects.url());
}

/// Starts a receiver, kills the relay after a call and before its mark, several times, and counts.
fn check(backend: Backend, mut command: Command, database: &str) {
    let port = free_port();
    command.arg(port.to_string()).arg(database).env("RECEIVER_SECRET", SECRET).stdin(Stdio::null());
    let child = command.spawn().expect("the receiver starts");
    let _receiver = Receiver(child);
    let address = format!("127.0.0.1:{port}");
    wait_until("the receiver listens", PATIENCE, || std::net::TcpStream::connect(&address).is_ok());
    let forged = [
        ("idempotency-key", "forged"),
        ("webhook-id", "m"),
        ("webhook-timestamp", "1"),
        ("webhook-signature", "v1,eA=="),
    ];
    assert_eq!(http::post(&address, "/", &forged, b"{}").status, 401, "nobody signed it");
    let db = TestDatabase::fresh(backend);
    let destination = format!(
        "[[destination]]\nname = \"crm\"\nurl = \"http://{address}/\"\nconcurrency = 3\nsecret = {{ value = \"{SECRET}\" }}\n\
         retry = {{ attempts = 50, base = \"10ms\", cap = \"10ms\" }}\n"
    );
    let setup = setup(&db, &destination);
    drop(setup.serve());
    (0..MESSAGES).for_each(|n| write(&db, &format!("m{n}"), ""));
    for nth in [1, 4, 9] {
        let mut dying = setup.clone().env("ONCEBOX_FAULTS", &format!("outbox.sent=abort@{nth}")).launch();
        assert!(!dying.wait_exit(PATIENCE).success());
    }
    let world = World { program: setup.serve(), db };
    wait_for_messages(&world.db, &["sent"]);
    let seen: Value = http::get(&address, "/", &[]).json();
    println!("{seen}");
    assert_eq!(seen["effects"], MESSAGES);
    assert!(seen["calls"].as_u64() > Some(MESSAGES as u64), "no call was made twice: {seen}");
}

/// Ends with the test.
struct Receiver(Child);

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/receiver")
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("receiver-{name}"));
    // What an earlier run left would be counted.
    let _ = std::fs::remove_file(folder.join("effects.db"));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}
