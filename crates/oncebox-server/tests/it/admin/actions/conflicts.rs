//! A person settles a conflict: over the API with a handler at work, by commands with and without a server, and by pages.

use serde_json::{Value, json};
use testkit::program::Output;
use testkit::sender::{self, Signed};
use testkit::{TestDatabase, contract, http};

use super::{act, get, post};
use crate::handling::{LEDGER, effects, start, wait_for_states};
use crate::world::{BIN, PATIENCE, STRIPE, World, now, stripe, wait_until};

fn other(id: &str) -> Signed {
    let body = json!({"id": id, "type": "invoice.paid", "data": {"object": {"amount": 7}}}).to_string();
    sender::stripe_bytes(STRIPE, now(), body.into_bytes())
}

/// The keys of an event and of another body under its id.
fn conflicting(world: &World, id: &str) -> (String, String) {
    let original = world.expect("stripe", &stripe(id), "accepted");
    (original, world.expect("stripe", &other(id), "conflict"))
}

/// Runs a command in the server's folder, where its config is.
fn oncebox(world: &World, args: &[&str]) -> Output {
    let config = world.program.config_path();
    let config = config.to_str().expect("a path");
    testkit::program::run(BIN, &[args, &["--config", config]].concat(), &[], world.program.dir())
}

#[track_caller]
fn says(output: &Output, status: i32, words: &str) {
    let text = format!("{}{}", output.stdout, output.stderr);
    assert_eq!(output.status, Some(status), "{text}");
    assert!(text.contains(words), "{words:?} is not in: {text}");
}

fn conflicts(world: &World) -> usize {
    get(world, "events?state=conflict")["items"].as_array().map_or(0, Vec::len)
}

fn page(world: &World, path: &str) -> String {
    let answer = http::get(world.program.admin_addr(), path, &[]);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.text().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn check_is_clean(world: &World) {
    says(&oncebox(world, &["check", "--database", "--full"]), 0, "nothing wrong was found");
}

contract! {
    async fn a_released_conflict_has_an_effect_of_its_own(db: TestDatabase) {
        let world = start(db, &LEDGER.replace("custom", "stripe"));
        let (original, conflict) = conflicting(&world, "evt_1");
        wait_for_states(&world, "ledger", &["done"]);
        assert_eq!(effects(&world), (1, 1));
        let filter = json!({"key": conflict});
        assert_eq!(act(&world, "release", &json!({"filter": filter, "dry_run": true})), 1);
        assert_eq!(act(&world, "release", &json!({"filter": {"source": "stripe"}})), 0, "conflicts are asked for");
        let release = json!({"filter": filter, "action_id": "right"});
        assert_eq!((act(&world, "release", &release), act(&world, "release", &release)), (1, 1));
        wait_until("it ran", PATIENCE, || effects(&world) == (2, 1));
        let mut keys = world.db.query("select event_key from effects");
        keys.sort();
        assert_eq!(keys, [[original.clone()], [conflict.clone()]], "each under a key of its own");
        assert_eq!((conflicts(&world), world.event(&conflict).state), (0, "accepted".to_owned()));
        assert_eq!(world.expect("stripe", &other("evt_1"), "duplicate"), conflict);
        wait_until("the copy is counted", PATIENCE, || world.arrivals(&conflict) == 2);
        wait_for_states(&world, "ledger", &["done"]);
        assert_eq!(effects(&world), (2, 1), "it does not run again");
        let told = get(&world, &format!("events/{conflict}"));
        assert_eq!((&told["reason"], &told["original"]), (&json!("conflict_released"), &json!(original)));
        let log = get(&world, "actions/right");
        assert_eq!((&log["kind"], &log["acted"], &log["filter"]["key"]), (&json!("release"), &json!(1), &json!(conflict)));
        assert_eq!(post(&world, "release", &json!({"filter": {"state": "conflict", "handler": "ledger"}})).status, 400);
        check_is_clean(&world);
    }

    async fn a_discarded_conflict_is_told_of_no_more(db: TestDatabase) {
        let world = World::start(db);
        let (original, conflict) = conflicting(&world, "evt_1");
        let status = || oncebox(&world, &["status"]).stdout;
        assert!(status().contains("1 event in conflict"), "{}", status());
        assert!(page(&world, "/").contains("came under a known id with another body"));
        says(&oncebox(&world, &["discard", &conflict]), 2, "this would discard 1 conflict; add --yes");
        says(&oncebox(&world, &["discard", &conflict, "--dry-run"]), 0, "1 conflict would be discarded");
        says(&oncebox(&world, &["discard", "stripe/evt_1", "--yes"]), 0, "--state conflict");
        says(&oncebox(&world, &["discard", "stripe/evt_1", "--state", "conflict", "--yes"]), 0, "1 conflict discarded");
        assert!(!status().contains("conflict"), "{}", status());
        assert!(!page(&world, "/").contains("came under a known id with another body"));
        assert_eq!(world.expect("stripe", &other("evt_1"), "duplicate"), conflict, "a copy opens nothing");
        assert_eq!((conflicts(&world), world.deliveries(&conflict).len()), (0, 0));
        let named: Value = get(&world, &format!("events/{original}"))["namesakes"].clone();
        assert_eq!((&named[0]["key"], &named[0]["reason"]), (&json!(conflict), &json!("conflict_discarded")));
        assert_eq!(act(&world, "release", &json!({"filter": {"key": conflict}})), 0, "it is decided");
        check_is_clean(&world);
    }

    async fn without_a_server_the_config_says_who_gets_a_released_conflict(db: TestDatabase) {
        let mut world = World::start(db);
        let (_, conflict) = conflicting(&world, "evt_1");
        let (_, second) = conflicting(&world, "evt_2");
        world.program.kill9();
        let url = world.db.url().to_owned();
        let alone = |args: &[&str]| {
            let dir = tempfile::tempdir().expect("a folder");
            testkit::program::run(BIN, &[args, &["--database", &url]].concat(), &[], dir.path())
        };
        says(&alone(&["release", &conflict, "--yes"]), 2, "name its config with --config");
        says(&alone(&["discard", &second, "--yes"]), 0, "1 conflict discarded");
        says(&oncebox(&world, &["release", &conflict]), 2, "this would release 1 conflict; add --yes");
        says(&oncebox(&world, &["release", "--state", "conflict", "--source", "stripe", "--yes"]), 0, "1 conflict released");
        assert_eq!(world.deliveries(&conflict), ["ready"]);
        assert!(world.deliveries(&second).is_empty());
        check_is_clean(&world);
    }

    async fn a_config_that_is_wrong_about_a_handler_releases_no_conflict(db: TestDatabase) {
        let mut world = World::start(db);
        let (_, conflict) = conflicting(&world, "evt_1");
        world.program.kill9();
        let config = std::fs::read_to_string(world.program.config_path()).expect("the config");
        world.program.write_config(&config.replace("pull = true", "pull = true\ntypes = [\"[a]\"]"));
        says(&oncebox(&world, &["release", &conflict, "--yes"]), 2, "which handlers want it");
        assert!(world.deliveries(&conflict).is_empty(), "a type that cannot be read is not all types");
    }

    async fn a_page_offers_to_settle_a_conflict(db: TestDatabase) {
        let world = World::start(db);
        let (_, conflict) = conflicting(&world, "evt_1");
        let of_event = page(&world, &format!("/events/{conflict}"));
        for kind in ["release", "discard"] {
            let link = format!("/act/{kind}?key={conflict}&amp;state=conflict");
            assert!(of_event.contains(&link) || of_event.contains(&link.replace("&amp;", "&#38;")), "{link}: {of_event}");
        }
        let asked = page(&world, &format!("/act/release?key={conflict}&state=conflict"));
        assert!(asked.contains("Run 1 conflict?") && asked.contains("an intended second effect"), "{asked}");
        let field = |name: &str| {
            let at = asked.split(&format!("name=\"{name}\" value=\"")).nth(1).expect(name);
            at.split('"').next().expect("a value").to_owned()
        };
        let form = format!(
            "key={conflict}&state=conflict&count={}&action_id={}&form_token={}",
            field("count"), field("action_id"), field("form_token")
        );
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let answer = http::post(world.program.admin_addr(), "/act/release", &headers, form.as_bytes());
        assert_eq!(answer.status, 303, "{}", answer.text());
        assert_eq!(world.deliveries(&conflict), ["ready"]);
        let after = page(&world, &format!("/events/{conflict}"));
        assert!(after.contains("A person released it, so that it ran as a second effect"), "{after}");
        assert!(!after.contains("/act/release"), "{after}");
    }
}
