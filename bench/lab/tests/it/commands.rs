    async fn a_database_is_filled_once(db: TestDatabase) {
        let folder = tempfile::tempdir().expect("a folder");
        let fill = |events: &str, status: i32| {
            let args = ["bench", "fill", "--events", events, "--payloads", "500", "--slice", "600", "--database", db.url()];
            oncebox(folder.path(), &args, status)
        };
        assert!(fill("2k", 0).stdout.contains("2000 events written"));
        assert!(fill("2k", 0).stdout.contains("0 events written") , "the same seed makes the same");
        assert!(fill("3k", 1).stderr.contains("filled to another number"));
        let other = ["bench", "fill", "--events", "10", "--seed", "9", "--database", db.url()];
        assert!(oncebox(folder.path(), &other, 1).stderr.contains("not of seed 9"));
        let counts = ["ledger", "events", "payloads", "deliveries"].map(|table| db.count(&db.table(table)));
        assert_eq!(counts, [2000, 2000, 500, 2000]);
        oncebox(folder.path(), &["check", "--database", db.url(), "--full"], 0);
    }

    async fn growth_is_measured(db: TestDatabase) {
        let folder = tempfile::tempdir().expect("a folder");
        let other = TestDatabase::fresh(db.backend());
        let args = [
            "bench", "growth", "--rows", "20k", "--small-rows", "2k", "--payloads", "1k", "--rounds", "2", "--seconds", "1",
            "--connections", "8", "--json", "--database", db.url(), "--small-database", other.url(),
        ];
        let figures = oncebox_json(folder.path(), &args, 0);
        let ratios = &figures["ratios"];
        assert!(ratios["rate"].as_f64() > Some(0.0) && ratios["written"].as_f64() > Some(0.0), "{figures}");
        let room = &figures["bytes_per_event"];
        assert!(room["ledger"].as_f64() < Some(150.0) && room["event"].as_f64() < Some(400.0), "{figures}");
    }

#[test]
fn a_bench_of_the_relay() {
    let folder = tempfile::tempdir().expect("a folder");
    let figures = oncebox_json(folder.path(), &["bench", "--relay", "--events", "500", "--json"], 0);
    assert!(figures["ratio"].as_f64() > Some(0.0) && figures["messages"] == 500, "{figures}");
}

