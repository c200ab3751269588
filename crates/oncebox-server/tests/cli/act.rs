//! The commands that act, through a running server and straight on the database, on both databases.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::program::Program;
use testkit::{TestDatabase, contract, free_port, http};

use crate::{BIN, oncebox, oncebox_json};

const SECRET: &str = "whsec_canary-act";

/// A server with a handler that nobody pulls, so that states stay as the test makes them.
struct Inbox {
    program: Program,
    db: TestDatabase,
}

impl Inbox {
    fn start(db: TestDatabase) -> Self {
        let (public, admin, url) = (free_port(), free_port(), db.url());
        let config = format!(
            "[server]\nlisten = \"127.0.0.1:{public}\"\nadmin_listen = \"127.0.0.1:{admin}\"\n[store]\nurl = \"{url}\"\n\
             [[source]]\nname = \"stripe\"\nprovider = \"stripe\"\nsecrets = [{{ value = \"{SECRET}\" }}]\n\
             [[handler]]\nname = \"ledger\"\npull = true\n"
        );
        Self { program: Program::serve(BIN, &config), db }
    }

    fn folder(&self) -> &Path {
        self.program.dir()
    }

    fn send(&self, args: &[&str]) {
        let url = self.program.public_url();
        let always = ["send", "stripe", "--to", &url, "--secret", SECRET, "--json"];
        oncebox(self.folder(), &[&always, args].concat(), 0);
    }

    /// The two ways to the same answer.
    fn ways(&self) -> [Vec<String>; 2] {
        [vec!["--admin-url".into(), self.program.admin_url()], vec!["--database".into(), self.db.url().to_owned()]]
    }

    fn run(&self, way: &[String], args: &[&str], status: i32) -> String {
        let way: Vec<&str> = way.iter().map(String::as_str).collect();
        let output = oncebox(self.folder(), &[args, &way].concat(), status);
        output.stdout + &output.stderr
    }

    fn json(&self, way: &[String], args: &[&str]) -> Value {
        self.json_with(way, args, 0)
    }

    fn json_with(&self, way: &[String], args: &[&str], status: i32) -> Value {
        let way: Vec<&str> = way.iter().map(String::as_str).collect();
        oncebox_json(self.folder(), &[args, &way, &["--json"]].concat(), status)
    }

    /// Six events that are done, and the ids of two of them whose effect is gone.
    fn lose_two_of_six(&self) -> Vec<String> {
        self.send(&["--count", "6"]);
        let events = self.db.table("events");
        self.db.execute(&format!(
            "create table effects (event_id text); insert into effects select event_id from {events}"
        ));
        self.set("state = 'done', attempt = 1, finished_at_ms = 1763208000000");
        let base = ["reconcile", "--source", "stripe", "--against", "select event_id from effects"];
        let clean = self.json(&self.ways()[1], &base);
        assert_eq!((&clean["compared"], &clean["missing"]), (&json!(6), &json!(0)));
        let lost: Vec<String> = self.db.query("select event_id from effects order by event_id limit 2").concat();
        self.db.execute(&format!("delete from effects where event_id in ('{}', '{}')", lost[0], lost[1]));
        lost
    }

    /// Runs an update of all deliveries.
    fn set(&self, assignments: &str) {
        self.db.execute(&format!("update {} set {assignments}", self.db.table("deliveries")));
    }

    fn states(&self) -> Vec<Vec<String>> {
        let deliveries = self.db.table("deliveries");
        self.db.query(&format!("select state, count(*) from {deliveries} group by state order by state"))
    }
}

contract! {
    async fn dead_letters_are_seen_counted_and_replayed(db: TestDatabase) {
        let inbox = Inbox::start(db);
        inbox.send(&["--count", "3", "--type", "invoice.paid"]);
        for (number, way) in inbox.ways().iter().enumerate() {
            inbox.set("state = 'dead', attempt = attempt + 3, finished_at_ms = 1763208000000, last_error = 'no route'");
            let list = inbox.run(way, &["dead-letters"], 0);
            assert!(list.contains("no route") && list.contains("2025-11-15T12:00:00Z"), "{list}");
            let cause = format!("answered 500: {{\"error\":\"could not connect to inventory-db:5432\",\"trace\":\"{}\"}}", "x".repeat(400));
            inbox.set(&format!("last_error = '{cause}'"));
            let list = inbox.run(way, &["dead-letters"], 0);
            assert!(list.contains(&cause), "a program gets all of it: {list}");
            assert!(inbox.run(way, &["status"], 0).contains("3 dead letters"));
            let nothing = inbox.run(way, &["replay"], 2);
            assert!(nothing.contains("say which"), "{nothing}");
            let unasked = inbox.run(way, &["replay", "--source", "stripe"], 2);
            assert!(unasked.contains("replay 3 dead letters; add --yes"), "{unasked}");
            let dry = inbox.run(way, &["replay", "--source", "stripe", "--type", "invoice.*", "--since", "1h", "--dry-run"], 0);
            assert!(dry.contains("3 dead letters would be replayed"), "{dry}");
            assert_eq!(inbox.states(), [["dead", "3"]]);
            let id = format!("morning-{number}");
            let replay = ["replay", "--handler", "ledger", "--yes", "--action-id", &id];
            assert!(inbox.run(way, &replay, 0).contains("3 dead letters replayed"));
            assert_eq!(inbox.states(), [["ready", "3"]]);
            inbox.set("state = 'dead'");
            let again = inbox.json(way, &replay);
            assert_eq!((&again["count"], &again["repeated"]), (&json!(3), &json!(true)));
            let unasked = inbox.run(way, &["replay", "--handler", "ledger", "--action-id", &id], 0);
            assert!(unasked.contains("already done: 3 dead letters replayed"), "{unasked}");
            assert_eq!(inbox.states(), [["dead", "3"]], "the same id acts once");
            let other = inbox.run(way, &["replay", "--source", "stripe", "--yes", "--action-id", &id], 1);
            assert!(other.starts_with("error: this action id was used for something else"), "{other}");
            let log = inbox.run(way, &["actions"], 0);
            assert!(log.contains(&id) && log.contains("handler=ledger"), "{log}");
        }
        let [server, database] = inbox.ways();
        let lists = [&["dead-letters"], &["actions"], &["held"], &["status"]].map(|args| (inbox.json(&server, args), inbox.json(&database, args)));
        for (one, other) in lists {
            assert_eq!(one, other);
        }
        assert!(inbox.run(&database, &["discard", "--state", "dead", "--source", "stripe", "--yes"], 0).contains("discarded"));
        assert_eq!(inbox.states(), [["discarded", "3"]]);
        assert!(inbox.run(&server, &["replay", "--source", "stripe", "--yes"], 0).contains("nothing to replay"));
    }

    async fn one_event_by_name(db: TestDatabase) {
        let inbox = Inbox::start(db);
        inbox.send(&["--id", "evt_1"]);
        let [server, database] = inbox.ways();
        for way in [&server, &database] {
            inbox.set("state = 'dead', attempt = 1");
            assert_eq!(inbox.json(way, &["replay", "stripe/evt_1", "--yes"])["count"], 1);
            assert!(inbox.run(way, &["replay", "stripe/none", "--yes"], 1).contains("there is no event"));
            assert!(inbox.run(way, &["replay", "neither", "--yes"], 2).contains("neither a key nor source/event_id"));
        }
        let (deliveries, attempts) = (inbox.db.table("deliveries"), inbox.db.table("attempts"));
        inbox.db.execute(&format!(
            "insert into {attempts} (delivery, attempt, started_at_ms, ended_at_ms, outcome, status, error) \
             select delivery, 1, 1763208000000, 1763208001000, 'failed', 503, 'try later' from {deliveries}"
        ));
        inbox.set("state = 'done', attempt = 2, finished_at_ms = 1763208002000");
        let shown = inbox.run(&server, &["event", "stripe/evt_1"], 0);
        let timeline: Vec<&str> = shown.lines().skip_while(|line| *line != "Attempts").skip(2).take(2).collect();
        assert!(timeline[0].contains("failed") && timeline[0].contains("503") && timeline[0].contains("try later"), "{shown}");
        assert!(timeline[1].contains("2025-11-15T12:00:02.000Z") && timeline[1].contains("done"), "{shown}");
        assert_eq!(inbox.json(&database, &["forget", "stripe/evt_1", "--yes"])["count"], 1);
    }

    async fn reconcile_finds_lost_effects_and_runs_them_once(db: TestDatabase) {
        let inbox = Inbox::start(db);
        let lost = inbox.lose_two_of_six();
        let way = &inbox.ways()[1];
        let base = ["reconcile", "--source", "stripe", "--against", "select event_id from effects; "];
        let found = inbox.json_with(way, &base, 1);
        let mut ids: Vec<_> = found["items"].as_array().expect("items").iter().filter_map(|one| one["event_id"].as_str()).collect();
        ids.sort_unstable();
        assert_eq!((ids, &found["requeued"]), (lost.iter().map(String::as_str).collect(), &json!(null)));
        assert_eq!(inbox.states(), [["done", "6"]], "looking changes nothing");
        let text = inbox.run(way, &base, 1);
        assert!(text.contains("6 deliveries of stripe are done, the query knows 4 ids, 2 are missing"), "{text}");

        let requeue = [&base[..], &["--requeue", "--action-id", "fix"]].concat();
        let agreed = [&requeue[..], &["--yes"]].concat();
        assert_eq!(inbox.json(way, &agreed)["requeued"], 2);
        assert_eq!(inbox.states(), [["done", "4"], ["ready", "2"]]);
        let again = inbox.json(way, &[&base[..], &["--requeue"]].concat());
        assert_eq!((&again["missing"], &again["requeued"]), (&json!(0), &json!(0)), "what waits is not missing");
        inbox.set("state = 'done'");
        let again = inbox.json_with(way, &requeue, 1);
        assert_eq!((&again["requeued"], &again["repeated"]), (&json!(2), &json!(true)));
        let unasked = inbox.run(way, &requeue, 1);
        assert!(unasked.contains("already done: 2 events put back in line"), "the same id acts once: {unasked}");
        assert_eq!(inbox.states(), [["done", "6"]]);
        let log = inbox.json(way, &["actions"]);
        assert_eq!((&log["items"][0]["kind"], &log["items"][0]["acted"]), (&json!("requeue"), &json!(2)));
    }

    async fn what_is_done_runs_again_only_where_somebody_agrees(db: TestDatabase) {
        let inbox = Inbox::start(db);
        inbox.lose_two_of_six();
        let way = &inbox.ways()[1];
        let reconcile = |against: &str, more: &[&str], status: i32| {
            inbox.run(way, &[&["reconcile", "--source", "stripe", "--against", against], more].concat(), status)
        };
        let unasked = reconcile("select event_id from effects", &["--requeue"], 2);
        assert!(unasked.contains("this would run 2 events again; add --yes"), "{unasked}");
        assert_eq!(inbox.states(), [["done", "6"]], "nobody agreed");
        let nothing = "select event_id from effects where 1 = 0";
        let looked = reconcile(nothing, &[], 1);
        assert!(looked.contains("warning: there is not one id to compare with"), "{looked}");
        let unasked = reconcile(nothing, &["--requeue"], 2);
        assert!(unasked.contains("this would run 6 events again, all there are"), "{unasked}");
        assert_eq!(inbox.states(), [["done", "6"]]);
        // What cannot run again is still missing.
        let (payloads, deliveries) = (inbox.db.table("payloads"), inbox.db.table("deliveries"));
        inbox.db.execute(&format!("delete from {payloads} where key = (select key from {deliveries} order by key limit 1)"));
        let said = reconcile(nothing, &["--requeue", "--yes"], 1);
        assert!(said.contains("5 events put back in line") && said.contains("1 cannot run again"), "{said}");
        assert_eq!(inbox.states(), [["done", "1"], ["ready", "5"]]);
    }

    async fn the_business_may_bring_a_list_of_its_ids(db: TestDatabase) {
        let inbox = Inbox::start(db);
        let lost = inbox.lose_two_of_six();
        let way = &inbox.ways()[1];
        let ids: Vec<String> = inbox.db.query("select event_id from effects").concat();
        let list = inbox.folder().join("ids.txt");
        std::fs::write(&list, format!("{}\r\n\n{}\n", ids[0], ids[1..].join("\n"))).expect("a list");
        let list = list.to_str().expect("a path");
        let base = ["reconcile", "--source", "stripe", "--ids", list];
        let found = inbox.json_with(way, &base, 1);
        assert_eq!((&found["compared"], &found["missing"]), (&json!(6), &json!(2)));
        assert!(lost.iter().all(|id| found["items"].to_string().contains(id.as_str())), "{found}");
        assert!(inbox.run(way, &base, 1).contains("the list knows 4 ids, 2 are missing"));
        assert!(inbox.run(way, &[&base[..], &["--requeue"]].concat(), 2).contains("add --yes"));
        // What was done after the list was written cannot be on it.
        inbox.db.execute(&format!("update {} set finished_at_ms = 4102444800000", inbox.db.table("deliveries")));
        assert_eq!(inbox.json(way, &base)["compared"], 0);
        inbox.set("finished_at_ms = 1763208000000");
        assert_eq!(inbox.json(way, &[&base[..], &["--requeue", "--yes"]].concat())["requeued"], 2);
        assert_eq!(inbox.states(), [["done", "4"], ["ready", "2"]]);
        assert!(inbox.run(way, &["reconcile", "--source", "stripe", "--ids", "nowhere"], 1).contains("cannot read the ids"));
    }

    async fn the_business_query_may_only_read(db: TestDatabase) {
        let inbox = Inbox::start(db);
        inbox.send(&["--count", "1"]);
        inbox.db.execute("create table effects (event_id text); insert into effects values ('a')");
        inbox.set("state = 'done', attempt = 1");
        let way = &inbox.ways()[1];
        for query in [
            "delete from effects",
            "delete from effects returning event_id",
            "with gone as (delete from effects returning event_id) select event_id from gone",
            "select event_id from effects; delete from effects",
            "select nothing from nowhere",
            "",
        ] {
            let said = inbox.run(way, &["reconcile", "--source", "stripe", "--against", query, "--requeue", "--yes"], 2);
            assert!(said.contains("--against"), "{query}: {said}");
        }
        assert_eq!((inbox.db.count("effects"), inbox.states()), (1, vec![vec!["done".to_owned(), "1".to_owned()]]));
        let nowhere = ["reconcile", "--source", "stripe", "--against", "select 1", "--admin-url", "http://127.0.0.1:9"];
        assert_eq!(oncebox(tempfile::tempdir().expect("a folder").path(), &nowhere, 2).stdout, "");
    }

    async fn another_handlers_effect_is_not_run_again(db: TestDatabase) {
        let inbox = Inbox::start(db);
        inbox.send(&["--id", "evt_1"]);
        inbox.set("state = 'done', attempt = 1");
        let deliveries = inbox.db.table("deliveries");
        let other = if inbox.db.backend() == testkit::Backend::Sqlite { "randomblob(16)" } else { "gen_random_uuid()" };
        inbox.db.execute(&format!(
            "insert into {deliveries} (delivery, key, handler, state, attempt, due_at_ms) \
             select {other}, key, 'mail', 'done', 1, 0 from {deliveries}"
        ));
        let way = &inbox.ways()[1];
        let base = ["reconcile", "--source", "stripe", "--against", "select 'none'", "--requeue", "--yes"];
        let said = inbox.run(way, &base, 2);
        assert!(said.contains("error: several handlers") && said.contains("ledger, mail"), "{said}");
        assert_eq!(inbox.json(way, &[&base[..], &["--handler", "ledger"]].concat())["requeued"], 1);
        assert_eq!(inbox.states(), [["done", "1"], ["ready", "1"]]);
    }

    async fn a_replay_is_of_dead_letters_and_a_backfill_of_what_the_handler_never_had(db: TestDatabase) {
        let inbox = Inbox::start(db);
        inbox.send(&["--count", "3"]);
        let deliveries = inbox.db.table("deliveries");
        let [server, database] = inbox.ways();
        // One is dead, and two came before there was the handler.
        let dead = inbox.db.query(&format!("select event_id from {} order by key limit 1", inbox.db.table("events")))[0][0].clone();
        let keep = format!("(select key from {} where event_id = '{dead}')", inbox.db.table("events"));
        inbox.db.execute(&format!("delete from {deliveries} where key <> {keep}"));
        inbox.set("state = 'dead', attempt = 3");
        for way in [&server, &database] {
            for since in ["1h", "24h", "1d", "2w", "2026-01-01"] {
                let dry = inbox.run(way, &["replay", "--handler", "ledger", "--since", since, "--dry-run"], 0);
                assert!(dry.contains("1 dead letter would be replayed"), "{since}: {dry}");
            }
        }
        let backfill = ["backfill", "--handler", "ledger", "--since", "30d"];
        let dry = inbox.run(&server, &[&backfill[..], &["--dry-run"]].concat(), 0);
        assert!(dry.contains("2 stored events would be given to the handler"), "{dry}");
        assert!(inbox.run(&server, &backfill, 2).contains("this would backfill 2 stored events; add --yes"));
        assert!(inbox.run(&database, &backfill, 2).contains("needs a config that has the handler \"ledger\""));
        assert_eq!(inbox.states(), [["dead", "1"]]);
        assert_eq!(inbox.json(&server, &["replay", "--handler", "ledger", "--since", "1h", "--yes"])["count"], 1);
        assert_eq!(inbox.states(), [["ready", "1"]], "a replay creates nothing");
        let given = inbox.run(&server, &[&backfill[..], &["--yes", "--action-id", "b"]].concat(), 0);
        assert!(given.contains("2 stored events given to the handler (action b)"), "{given}");
        assert_eq!(inbox.states(), [["ready", "3"]]);
        assert!(inbox.run(&server, &[&backfill[..], &["--yes"]].concat(), 0).contains("there is nothing to backfill"));
        let log = inbox.json(&server, &["actions"]);
        assert_eq!([&log["items"][0]["kind"], &log["items"][0]["acted"]], [&json!("backfill"), &json!(2)]);
        assert!(inbox.run(&server, &["backfill", "--handler", "nosuch", "--since", "1d"], 2).contains("there is no handler"));
    }

    async fn what_waits_for_its_next_attempt_can_be_tried_now(db: TestDatabase) {
        let inbox = Inbox::start(db);
        inbox.send(&["--count", "3"]);
        let claim = || {
            let (address, headers) = (inbox.program.admin_addr(), [("content-type", "application/json")]);
            let answer = http::post(address, "/api/v1/handlers/ledger/claim", &headers, br#"{"max":10}"#);
            answer.json()["items"].as_array().map_or(0, Vec::len)
        };
        for way in inbox.ways() {
            inbox.set("state = 'ready', attempt = 2, attempts_before = 0, due_at_ms = 4102444800000");
            assert_eq!(claim(), 0, "it is not due");
            let nothing = inbox.run(&way, &["replay", "--handler", "ledger", "--yes"], 0);
            assert!(nothing.contains("there is nothing to replay: no dead letter fits; --waiting tries now"), "{nothing}");
            assert!(inbox.run(&way, &["replay", "--waiting"], 2).contains("say which"));
            let replay = ["replay", "--handler", "ledger", "--since", "1d", "--waiting"];
            let dry = inbox.run(&way, &[&replay[..], &["--dry-run"]].concat(), 0);
            assert!(dry.contains("3 waiting deliveries would be made due now"), "{dry}");
            assert!(inbox.run(&way, &replay, 2).contains("3 waiting deliveries; add --yes"));
            assert_eq!(inbox.json(&way, &[&replay[..], &["--yes"]].concat())["count"], 3);
            // The command's clock and the server's may be some milliseconds apart.
            let (mut claimed, started) = (claim(), Instant::now());
            while claimed < 3 && started.elapsed() < Duration::from_secs(20) {
                claimed += claim();
            }
            assert_eq!(claimed, 3, "it is due");
            let log = inbox.json(&way, &["actions"]);
            assert_eq!([&log["items"][0]["kind"], &log["items"][0]["filter"]["waiting"]], [&json!("replay"), &json!(true)]);
            let budget = inbox.db.query(&format!("select distinct attempt, attempts_before from {}", inbox.db.table("deliveries")));
            assert_eq!(budget, [["3", "0"]], "the budget stays");
            for other in ["release", "discard"] {
                inbox.run(&way, &[other, "--handler", "ledger", "--waiting"], 2);
            }
        }
    }

    async fn held_events_that_concern_no_handler_are_counted(db: TestDatabase) {
        let inbox = Inbox::start(db);
        inbox.send(&["--count", "2"]);
        inbox.db.execute(&format!("delete from {}", inbox.db.table("deliveries")));
        inbox.db.execute(&format!("update {} set state = 'held'", inbox.db.table("events")));
        for way in inbox.ways() {
            assert_eq!(inbox.json(&way, &["held"])["items"].as_array().map(Vec::len), Some(2));
            let dry = inbox.run(&way, &["release", "--source", "stripe", "--dry-run"], 0);
            assert!(dry.contains("2 held deliveries or events would be released"), "{dry}");
            let dry = inbox.run(&way, &["discard", "--source", "stripe", "--dry-run"], 0);
            assert!(dry.contains("2 deliveries or events would be discarded"), "{dry}");
        }
        assert_eq!(inbox.json(&inbox.ways()[0], &["release", "--source", "stripe", "--yes"])["count"], 2);
        assert!(inbox.run(&inbox.ways()[1], &["held"], 0).contains("nothing is held"));
    }

    async fn names_that_nobody_knows_are_refused(db: TestDatabase) {
        let inbox = Inbox::start(db);
        inbox.send(&["--count", "1"]);
        let [server, database] = inbox.ways();
        let refused = |way: &[String], args: &[&str], status: i32, part: &str| {
            let said = inbox.run(way, args, status);
            assert!(said.contains(part), "{part:?} is not in:\n{said}");
        };
        for way in [&server, &database] {
            for verb in ["replay", "release", "discard", "dead-letters"] {
                refused(way, &[verb, "--handler", "nosuch"], 2, "there is no handler `nosuch`; there are: ledger");
            }
            inbox.run(way, &["dead-letters", "--handler", "ledger", "--source", "stripe"], 0);
        }
        for args in [&["replay", "--yes"][..], &["forget", "--yes"], &["events"], &["held"], &["dead-letters"], &["tail"]] {
            let args = [args, &["--source", "nosuch"]].concat();
            refused(&server, &args, 2, "there is no source `nosuch`; there are: stripe");
            refused(&database, &args, 1, "there is no event of a source `nosuch`; there are: stripe");
        }
        let against = ["reconcile", "--against", "select 1", "--source"];
        refused(&database, &[&against[..], &["nosuch"]].concat(), 2, "there is no source `nosuch`; there are: stripe");
        refused(&database, &[&against[..], &["stripe", "--handler", "nosuch"]].concat(), 2, "there are: ledger");
        inbox.set("handler = 'gone', state = 'dead'");
        assert!(inbox.run(&server, &["dead-letters", "--handler", "gone"], 0).contains("gone"));
        assert_eq!(inbox.json(&database, &["discard", "--handler", "gone", "--yes"])["count"], 1);
    }

    async fn following_goes_on_when_the_server_comes_back(db: TestDatabase) {
        let mut inbox = Inbox::start(db);
        let follower = Follower::start(inbox.folder(), &inbox.ways()[0]);
        inbox.send(&["--id", "evt_before", "--type", "invoice.paid"]);
        inbox.program.kill9();
        inbox.program.restart();
        inbox.send(&["--id", "evt_after", "--type", "invoice.paid"]);
        let seen = follower.events(2);
        assert_eq!([&seen[0]["event_id"], &seen[1]["event_id"]], ["evt_before", "evt_after"]);
    }

    async fn pausing_and_following(db: TestDatabase) {
        let inbox = Inbox::start(db);
        inbox.db.execute(&format!(
            "insert into {} (handler, attempts, base_ms, cap_ms, lease_ms, on_dead) \
             values ('ledger', 3, 1000, 1000, 60000, 'skip') on conflict (handler) do nothing", inbox.db.table("handlers")
        ));
        for way in inbox.ways() {
            assert!(inbox.run(&way, &["pause", "ledger"], 0).contains("ledger is paused"));
            assert!(inbox.run(&way, &["status"], 0).contains("ledger is paused"));
            assert!(inbox.run(&way, &["resume", "ledger"], 0).contains("runs again"));
            let log = inbox.json(&way, &["actions"]);
            let [resumed, paused] = [0, 1].map(|nth| (&log["items"][nth]["kind"], &log["items"][nth]["filter"]["handler"]));
            assert_eq!([resumed, paused], [(&json!("resume"), &json!("ledger")), (&json!("pause"), &json!("ledger"))]);
            assert!(log["items"][0]["who"].as_str().is_some_and(|who| !who.is_empty()), "{log}");
            assert!(inbox.run(&way, &["actions"], 0).contains("handler=ledger"));
            assert!(inbox.run(&way, &["pause", "none"], 1).contains("no server ever ran"));
        }
        for (way, id) in inbox.ways().iter().zip(["evt_live", "evt_polled"]) {
            let follower = Follower::start(inbox.folder(), way);
            inbox.send(&["--id", id, "--type", "invoice.paid"]);
            inbox.send(&["--id", &format!("{id}_other"), "--type", "charge.refunded"]);
            inbox.send(&["--id", &format!("{id}_last"), "--type", "invoice.sent"]);
            let seen = follower.events(2);
            assert_eq!([&seen[0]["event_id"], &seen[1]["event_id"]], [id, &format!("{id}_last")]);
        }
    }
}

/// `oncebox tail --json`, ended with its test.
struct Follower {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Follower {
    fn start(folder: &Path, way: &[String]) -> Self {
        let mut command = Command::new(BIN);
        command.args(["tail", "--json", "--type", "invoice.*"]).args(way).current_dir(folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        let mut hello = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        hello.read_line(&mut line).expect("it speaks");
        assert!(line.contains("waiting for events"), "{line}");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, lines }
    }

    fn events(mut self, count: usize) -> Vec<Value> {
        let lines = (&mut self.lines).lines().take(count);
        lines.map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON")).collect()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
