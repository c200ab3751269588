//! The commands, by the real binaries. `growth` starts the program beside this one: `cargo build -p oncebox-server`.

use std::path::Path;

use testkit::program::{Output, run};
use testkit::{Backend, TestDatabase, contract};

fn lab(args: &[&str], status: i32) -> Output {
    let output = run(env!("CARGO_BIN_EXE_lab"), args, &[], Path::new("."));
    assert_eq!(output.status, Some(status), "lab {args:?} said:\n{}{}", output.stdout, output.stderr);
    output
}

fn figures(args: &[&str]) -> serde_json::Value {
    let output = lab(args, 0);
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error} in:\n{}", output.stdout))
}

contract! {
    async fn a_database_is_filled_once(db: TestDatabase) {
        let fill = |events: &str, status: i32| {
            lab(&["fill", "--events", events, "--payloads", "500", "--slice", "600", "--database", db.url()], status)
        };
        assert!(fill("2k", 0).stdout.contains("2000 events written"));
        assert!(fill("2k", 0).stdout.contains("0 events written") , "the same seed makes the same");
        assert!(fill("3k", 1).stderr.contains("filled to another number"));
        let other = ["fill", "--events", "10", "--seed", "9", "--database", db.url()];
        assert!(lab(&other, 1).stderr.contains("not of seed 9"));
        let counts = ["ledger", "events", "payloads", "deliveries"].map(|table| db.count(&db.table(table)));
        assert_eq!(counts, [2000, 2000, 500, 2000]);
        let database = lab::database::Database::parse(db.url()).expect("a URL");
        let store = database.open().await.expect("it opens");
        let found = store.inspect(oncebox::gateway::store::Depth::All, |_| {}).await.expect("it can be looked over");
        assert!(found.iter().all(|one| one.faults.is_empty()), "{found:?}");
    }

    async fn growth_is_measured(db: TestDatabase) {
        let other = TestDatabase::fresh(db.backend());
        let figures = figures(&[
            "growth", "--rows", "20k", "--small-rows", "2k", "--payloads", "1k", "--rounds", "2", "--seconds", "1",
            "--connections", "8", "--json", "--database", db.url(), "--small-database", other.url(),
        ]);
        let ratios = &figures["ratios"];
        assert!(ratios["rate"].as_f64() > Some(0.0) && ratios["written"].as_f64() > Some(0.0), "{figures}");
        assert!(figures["large"]["cpu_us"].as_f64() > Some(0.0), "{figures}");
        let room = &figures["bytes_per_event"];
        assert!(room["ledger"].as_f64() > Some(30.0) && room["ledger"].as_f64() < Some(150.0), "{figures}");
        assert!(room["event"].as_f64() < Some(400.0), "{figures}");
    }

    async fn handling_is_measured(db: TestDatabase) {
        let figures = figures(&["handling", "--events", "200", "--json", "--database", db.url()]);
        let ways = figures["ways"].as_array().expect("a list");
        assert_eq!(ways.len(), 4);
        assert!(ways.iter().all(|way| way["median"].as_f64() > Some(0.0)), "{figures}");
        // A tenth one by one, the rest but nobody who is to fail.
        assert_eq!(db.count("bench_effects"), 20 + 3 * 200);
    }

    async fn the_relay_is_measured(db: TestDatabase) {
        let figures = figures(&["relay", "--events", "500", "--json", "--database", db.url()]);
        assert!(figures["ratio"].as_f64() > Some(0.0) && figures["messages"] == 500, "{figures}");
        let sent = format!("select state, count(*) from {} group by 1", db.table("outbox"));
        assert_eq!(db.query(&sent), [["sent", "500"]]);
    }
}

#[test]
fn a_temporary_file_goes_with_the_run() {
    let said = lab(&["relay", "--events", "10"], 0);
    assert!(said.stdout.contains("relay on sqlite"), "{}", said.stdout);
}

#[test]
fn a_program_that_is_missing_is_named() {
    let database = TestDatabase::fresh(Backend::Sqlite);
    let said = lab(&["growth", "--oncebox", "nowhere/oncebox", "--database", database.url()], 1).stderr;
    assert!(said.contains("nowhere/oncebox is not there: cargo build"), "{said}");
}
