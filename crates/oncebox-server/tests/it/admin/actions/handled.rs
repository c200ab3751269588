//! With workers at work: what is replayed or put back in line runs, and its effect is there once.

use serde_json::{Value, json};
use testkit::{TestDatabase, contract};

use super::{act, get, post, states};
use crate::handling::{LEDGER, effects, send, start, start_on, wait_for_states};
use crate::world::{BIN, World};

/// As the ledger, but it fails for as long as there is a row in `broken`.
const PICKY: &str = "[[handler]]\nname = \"picky\"\nsources = [\"custom\"]\nlease = \"5s\"\n\
    sql = \"insert into effects (event_id, attempt) \
    select :event_id, case when exists (select 1 from broken) then null else :attempt end\"\n\
    retry = { attempts = 2, base = \"20ms\", cap = \"50ms\" }\n";

fn reconcile(world: &World, rest: &[&str]) -> Value {
    let query = "select event_id from effects";
    let args = ["reconcile", "--source", "custom", "--database", world.db.url(), "--against", query, "--json"];
    let output = testkit::program::run(BIN, &[&args, rest].concat(), &[], world.program.dir());
    assert_eq!(output.status, Some(0), "{}{}", output.stdout, output.stderr);
    serde_json::from_str(&output.stdout).expect("JSON")
}

contract! {
    async fn dead_letters_run_once_after_their_replay(db: TestDatabase) {
        db.execute("create table effects (event_id text, attempt integer not null)");
        db.execute("create table broken (reason text); insert into broken values ('closed')");
        let world = start_on(db, PICKY);
        send(&world, 0..30);
        wait_for_states(&world, "picky", &["dead"]);
        let listed = get(&world, "dead-letters?handler=picky");
        assert_eq!((listed["items"].as_array().map(Vec::len), &listed["items"][0]["attempt"]), (Some(30), &json!(2)));
        let stats = get(&world, "stats");
        assert_eq!(stats["first_try_error_rate"], json!(1.0), "{stats}");
        world.db.execute("delete from broken");
        let replay = json!({"filter": {"handler": "picky"}, "action_id": "fixed"});
        assert_eq!((act(&world, "replay", &replay), act(&world, "replay", &replay)), (30, 30));
        wait_for_states(&world, "picky", &["done"]);
        assert_eq!(effects(&world), (30, 30));
        assert_eq!(act(&world, "replay", &json!({"filter": {"handler": "picky"}})), 0);
        assert_eq!(world.db.query("select min(attempt), max(attempt) from effects"), [["3", "3"]], "attempts go on counting");
    }

    async fn deleted_effects_are_found_and_made_again_once(db: TestDatabase) {
        let world = start(db, LEDGER);
        send(&world, 0..20);
        wait_for_states(&world, "ledger", &["done"]);
        assert_eq!(reconcile(&world, &[])["missing"], 0);
        world.db.execute("delete from effects where event_id in ('evt_3', 'evt_11', 'evt_19')");
        let found = reconcile(&world, &["--requeue", "--yes"]);
        let mut ids: Vec<_> = found["items"].as_array().expect("items").iter().filter_map(|one| one["event_id"].as_str()).collect();
        ids.sort_unstable();
        assert_eq!((ids, &found["requeued"]), (vec!["evt_11", "evt_19", "evt_3"], &json!(3)));
        wait_for_states(&world, "ledger", &["done"]);
        assert_eq!(effects(&world), (20, 20));
        let told = get(&world, "events/custom%2Fevt_3");
        let attempts: Vec<_> = told["attempts"].as_array().expect("attempts").iter().map(|one| (&one["attempt"], &one["outcome"])).collect();
        assert_eq!((attempts, &told["deliveries"][0]["attempt"]), (vec![(&json!(1), &json!("done"))], &json!(2)), "{told}");
        let shown = testkit::program::run(BIN, &["event", "custom/evt_3", "--database", world.db.url()], &[], world.program.dir());
        let lines = shown.stdout.lines().skip_while(|line| *line != "Attempts").filter(|line| line.contains("done")).count();
        assert_eq!(lines, 2, "both runs are told:\n{}", shown.stdout);
        assert_eq!(get(&world, "stats")["first_try_error_rate"], json!(0.0));
        assert_eq!(reconcile(&world, &["--requeue", "--yes"])["requeued"], 0);
        wait_for_states(&world, "ledger", &["done"]);
        assert_eq!(effects(&world), (20, 20));
    }

    async fn a_paused_handler_loses_nothing(db: TestDatabase) {
        let world = start(db, LEDGER);
        assert_eq!(post(&world, "handlers/ledger/pause", &json!({})).status, 200);
        send(&world, 0..10);
        let (_, known) = effects(&world);
        assert_eq!((known, states(&world.db)), (0, vec![vec!["ready".to_owned(), "10".to_owned()]]));
        assert_eq!(post(&world, "handlers/ledger/resume", &json!({})).status, 200);
        wait_for_states(&world, "ledger", &["done"]);
        assert_eq!(effects(&world), (10, 10));
    }
}
