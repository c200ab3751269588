//! The commands, as a person types them: the real binary, a real inbox, exit codes and what is printed.

mod act;
mod check;
mod dev;
mod every_provider;
mod explain;
mod inbox;
mod keep;
mod operate;
mod send;

use std::path::Path;

use testkit::program::{Output, run};

const BIN: &str = env!("CARGO_BIN_EXE_oncebox");

/// Runs a command in a folder; panics with what it said where its exit status is another one.
fn oncebox(folder: &Path, args: &[&str], status: i32) -> Output {
    let output = run(BIN, args, &[], folder);
    assert_eq!(output.status, Some(status), "oncebox {args:?} said:\n{}{}", output.stdout, output.stderr);
    output
}

/// As [`oncebox`], for a command that prints JSON.
fn oncebox_json(folder: &Path, args: &[&str], status: i32) -> serde_json::Value {
    let output = oncebox(folder, args, status);
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error} in:\n{}", output.stdout))
}

#[test]
fn every_command_has_help() {
    let folder = tempfile::tempdir().expect("a folder");
    let looking = ["events", "event", "tail", "dead-letters", "outbox", "held", "status", "actions", "explain"];
    let acting = ["replay", "backfill", "release", "discard", "forget", "erase", "reconcile", "pause", "resume"];
    let running = ["dev", "serve", "check", "migrate", "backup", "send", "bench", ""];
    for command in looking.into_iter().chain(acting).chain(running) {
        let args: Vec<&str> = [command, "--help"].into_iter().filter(|arg| !arg.is_empty()).collect();
        let output = oncebox(folder.path(), &args, 0);
        assert!(output.stdout.contains("Usage: oncebox"), "{command}: {}", output.stdout);
    }
}

#[test]
fn a_bench_tells_how_it_was_refused() {
    let inbox = inbox::Inbox::dev();
    let args = ["bench", "--to", &inbox.url(), "--secret", "whsec_wrong", "--seconds", "1", "--connections", "2"];
    let stderr = oncebox(inbox.folder(), &args, 1).stderr;
    assert!(stderr.contains("requests were not answered with 2xx: 401 × "), "{stderr}");
}

#[test]
fn a_bench_of_a_second() {
    let folder = tempfile::tempdir().expect("a folder");
    let figures = oncebox_json(folder.path(), &["bench", "--seconds", "1", "--connections", "4", "--json"], 0);
    let median = &figures["median"];
    assert!(median["accepted"].as_u64() > Some(0) && median["failed"] == 0, "{figures}");
    assert!(median["server_cpu_us"].as_f64().is_some() && median["rss_mib"].as_f64() > Some(1.0), "{figures}");
    let rest: Vec<_> = std::fs::read_dir(folder.path()).expect("the folder").collect();
    assert!(rest.is_empty(), "{rest:?}");
}
