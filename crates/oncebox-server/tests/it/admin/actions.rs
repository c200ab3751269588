//! What operators do over the API. Dead letters are made by hand, so that no worker is in the way.

mod conflicts;
mod cut_off;
mod handled;
mod looking;

use serde_json::{Value, json};
use testkit::http::{self, Answer};
use testkit::{TestDatabase, contract};

use crate::world::{Setup, World, custom, stripe};

/// The attempts of a dead letter made by hand.
pub(crate) const ATTEMPTS: i64 = 3;

/// Posts JSON to the admin API.
fn post(world: &World, path: &str, body: &Value) -> Answer {
    post_as(world, path, body.to_string().as_bytes(), &[])
}

fn post_as(world: &World, path: &str, body: &[u8], headers: &[(&str, &str)]) -> Answer {
    let headers = [&[("content-type", "application/json")], headers].concat();
    http::post(world.program.admin_addr(), &format!("/api/v1/{path}"), &headers, body)
}

fn get(world: &World, path: &str) -> Value {
    let answer = http::get(world.program.admin_addr(), &format!("/api/v1/{path}"), &[]);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

/// Posts an action and returns its count.
#[track_caller]
fn act(world: &World, path: &str, body: &Value) -> i64 {
    let answer = post(world, path, body);
    assert_eq!(answer.status, 200, "{path} {body}: {}", answer.text());
    answer.json()["count"].as_i64().expect("a count")
}

/// Makes every delivery that waits a dead letter.
fn bury(db: &TestDatabase) {
    let deliveries = db.table("deliveries");
    db.execute(&format!(
        "update {deliveries} set state = 'dead', attempt = attempt + {ATTEMPTS}, finished_at_ms = 1763208000000, \
         last_error = 'it broke' where state = 'ready'"
    ));
}

fn states(db: &TestDatabase) -> Vec<Vec<String>> {
    db.query(&format!("select state, count(*) from {} group by state order by state", db.table("deliveries")))
}

contract! {
    async fn a_replay_is_counted_first_and_acts_once(db: TestDatabase) {
        let world = World::start(db);
        for id in ["a", "b", "c"] {
            world.expect("stripe", &stripe(id), "accepted");
        }
        world.expect("custom", &custom(r#"{"id":"other","type":"t"}"#), "accepted");
        bury(&world.db);
        let filter = json!({"source": "stripe", "type": "invoice.*"});
        let replay = json!({"filter": filter, "action_id": "r1"});
        assert_eq!(act(&world, "replay", &json!({"filter": filter, "dry_run": true, "action_id": "r1"})), 3);
        assert_eq!(states(&world.db), [["dead", "4"]], "a dry run changes nothing");
        assert_eq!(act(&world, "replay", &replay), 3);
        assert_eq!(states(&world.db), [["dead", "1"], ["ready", "3"]]);
        bury(&world.db);
        let again = post(&world, "replay", &replay).json();
        assert_eq!((&again["count"], &again["repeated"]), (&json!(3), &json!(true)), "it tells what it did");
        assert_eq!(states(&world.db), [["dead", "4"]], "and does nothing");
        let other = post(&world, "replay", &json!({"filter": {"source": "custom"}, "action_id": "r1"}));
        assert_eq!((other.status, other.header("content-type")), (409, Some("application/problem+json")));
        let log = get(&world, "actions");
        assert_eq!((log["items"].as_array().map(Vec::len), &log["items"][0]["acted"]), (Some(1), &json!(3)));
        assert!(log["items"][0]["who"].as_str().is_some_and(|who| who.contains("127.0.0.1")), "{log}");
        assert_eq!(act(&world, "discard", &json!({"filter": {"handler": "pull", "since": "1h"}})), 4);
        assert_eq!(states(&world.db), [["discarded", "4"]]);
    }

    async fn an_age_means_the_same_time_under_one_id(db: TestDatabase) {
        let world = World::start(db);
        world.expect("stripe", &stripe("a"), "accepted");
        bury(&world.db);
        let replay = json!({"filter": {"since": "1h"}, "action_id": "again"});
        assert_eq!((act(&world, "replay", &replay), act(&world, "replay", &replay)), (1, 1));
        for other in [json!({"since": "2h"}), json!({"since": "1h", "until": "1m"}), json!({"until": "1h"})] {
            let answer = post(&world, "replay", &json!({"filter": other, "action_id": "again"}));
            assert_eq!(answer.status, 409, "{other}: {}", answer.text());
        }
    }

    async fn one_event_is_meant_by_key_or_by_name(db: TestDatabase) {
        let world = World::start(db);
        let key = world.expect("stripe", &stripe("a"), "accepted");
        world.expect("stripe", &stripe("b"), "accepted");
        bury(&world.db);
        assert_eq!(act(&world, "replay", &json!({"filter": {"key": key}})), 1);
        assert_eq!(act(&world, "replay", &json!({"filter": {"key": "stripe/b"}})), 1);
        assert_eq!(post(&world, "replay", &json!({"filter": {"key": "stripe/none"}})).status, 404);
        let remembered = || get(&world, &format!("events/{key}"))["remembered"].clone();
        assert_eq!(remembered(), json!(true));
        assert_eq!(act(&world, "forget", &json!({"filter": {"key": "stripe/a"}})), 1);
        assert_eq!(remembered(), json!(false));
        let again = world.expect("stripe", &stripe("a"), "accepted");
        assert_ne!(again, key, "a forgotten identity is new");
    }

    async fn the_audit_log_is_read_in_pages(db: TestDatabase) {
        let world = World::start(db);
        let ids = ["a", "b.c", "d & e", "ü"];
        for id in ids {
            act(&world, "forget", &json!({"filter": {"source": "stripe"}, "action_id": id}));
        }
        let names = |page: &Value| -> Vec<String> {
            page["items"].as_array().expect("items").iter().map(|one| one["action_id"].as_str().expect("text").to_owned()).collect()
        };
        let all = names(&get(&world, "actions"));
        let (mut paged, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = get(&world, &format!("actions?limit=1{cursor}"));
            paged.extend(names(&page));
            let Some(next) = page["next_cursor"].as_str() else { break };
            let next: String = next.bytes().map(|byte| format!("%{byte:02X}")).collect();
            cursor = format!("&cursor={next}");
        }
        assert_eq!((paged.len(), &paged), (ids.len(), &all));
        for query in ["limit=1001", "limit=0", "cursor=forged", "cursor=x.y", "handler=pull"] {
            let answer = http::get(world.program.admin_addr(), &format!("/api/v1/actions?{query}"), &[]);
            assert_eq!(answer.status, 400, "{query}: {}", answer.text());
            let page = http::get(world.program.admin_addr(), &format!("/audit?{query}"), &[]);
            assert_eq!(page.status, 400, "{query}");
        }
    }

    async fn held_events_are_released(db: TestDatabase) {
        let world = World::start(db);
        let key = world.expect("custom", &custom(r#"{"type":"t"}"#), "held");
        let held = get(&world, "held");
        assert_eq!((held["items"].as_array().map(Vec::len), &held["items"][0]["key"]), (Some(1), &json!(key)));
        assert_eq!(world.deliveries(&key), ["held"]);
        assert!(act(&world, "release", &json!({"filter": {"key": key}})) >= 1);
        assert_eq!((world.deliveries(&key), world.event(&key).state.as_str()), (vec!["ready".to_owned()], "accepted"));
        assert_eq!(get(&world, "held")["items"], json!([]));
        let page = http::get(world.program.admin_addr(), &format!("/events/{key}"), &[]).text();
        assert!(page.contains("answered <code>held</code>"), "what the sender heard stays true: {page}");
    }

    async fn what_is_done_stays_done(db: TestDatabase) {
        let world = World::start(db);
        let key = world.expect("stripe", &stripe("a"), "accepted");
        world.db.execute(&format!("update {} set state = 'done', attempt = 1", world.db.table("deliveries")));
        for path in ["replay", "release", "discard"] {
            assert_eq!(act(&world, path, &json!({"filter": {"key": key}})), 0, "{path}");
            let refused = post(&world, path, &json!({"filter": {"key": key, "state": "done"}}));
            assert_eq!(refused.status, 400, "{path}: {}", refused.text());
        }
        assert_eq!(post(&world, "requeue", &json!({"filter": {"key": key}})).status, 404);
        assert_eq!(world.deliveries(&key), ["done"]);
    }

    async fn a_handler_that_came_later_gets_stored_events(db: TestDatabase) {
        let url = db.url().to_owned();
        let World { mut program, db } = World::start(db);
        for id in ["a", "b", "c"] {
            assert_eq!(stripe(id).post(program.public_addr(), "stripe").status, 200);
        }
        assert_eq!(custom(r#"{"id":"x","type":"t"}"#).post(program.public_addr(), "custom").status, 200);
        program.kill9();
        let mut setup = Setup::new(&url);
        setup.rest.push_str("[[handler]]\nname = \"late\"\nsources = [\"stripe\"]\npull = true\n");
        let world = World { program: setup.serve(), db };
        let filter = json!({"handler": "late", "since": "1h"});
        assert_eq!(act(&world, "replay", &json!({"filter": filter})), 0, "a replay is of dead letters");
        assert_eq!(act(&world, "backfill", &json!({"filter": filter, "dry_run": true})), 3);
        let backfill = json!({"filter": filter, "action_id": "late"});
        assert_eq!((act(&world, "backfill", &backfill), act(&world, "backfill", &backfill)), (3, 3));
        let late = format!("select count(*) from {} where handler = 'late' and state = 'ready'", world.db.table("deliveries"));
        assert_eq!(world.db.query(&late), [["3"]]);
        assert_eq!(act(&world, "backfill", &json!({"filter": filter, "dry_run": true})), 0);
    }

    async fn nonsense_is_refused_and_changes_nothing(db: TestDatabase) {
        let world = World::start(db);
        world.expect("stripe", &stripe("a"), "accepted");
        bury(&world.db);
        let refused = |path: &str, body: &str| {
            let answer = post_as(&world, path, body.as_bytes(), &[]);
            assert_eq!((answer.status, answer.header("content-type")), (400, Some("application/problem+json")), "{path} {body}: {}", answer.text());
        };
        world.expect_nothing_stored(|| {
            for path in ["replay", "release", "discard", "forget"] {
                for body in ["", "no", "[]", "{}", r#"{"filter":{}}"#, r#"{"filter":{"soruce":"a"}}"#, r#"{"filter":{"source":1}}"#] {
                    refused(path, body);
                }
                refused(path, r#"{"filter":{"source":"stripe","since":"soon"}}"#);
                refused(path, r#"{"filter":{"source":"stripe","state":"odd"}}"#);
                refused(path, r#"{"filter":{"key":"neither"}}"#);
                refused(path, r#"{"filter":{"source":"nosuch"}}"#);
                refused(path, r#"{"filter":{"source":"stripe"},"action_id":""}"#);
            }
            refused("forget", r#"{"filter":{"handler":"pull"}}"#);
            for body in [r#"{"filter":{"handler":"pull"}}"#, r#"{"filter":{"since":"1d"}}"#, r#"{"filter":{"source":"stripe"}}"#] {
                refused("backfill", body);
            }
            for path in ["release", "discard", "forget", "backfill"] {
                refused(path, r#"{"filter":{"source":"stripe","waiting":true}}"#);
            }
        });
        for path in ["deliveries", "dead-letters", "held", "events", "outbox"] {
            for since in ["500ms", "90s", "15m", "24h", "1d", "7d", "2w", "1h30m", "2026-01-31", "2026-01-31T12:00:00Z"] {
                let answer = http::get(world.program.admin_addr(), &format!("/api/v1/{path}?since={since}&until={since}"), &[]);
                assert_eq!(answer.status, 200, "{path}?since={since}: {}", answer.text());
            }
        }
        for path in ["deliveries", "dead-letters", "held", "events"] {
            for query in ["limit=1001", "limit=0", "limit=x", "cursor=forged", "state=odd&x=1", "since=soon"] {
                let answer = http::get(world.program.admin_addr(), &format!("/api/v1/{path}?{query}"), &[]);
                assert_eq!((answer.status, answer.header("content-type")), (400, Some("application/problem+json")), "{path}?{query}");
            }
        }
        assert_eq!(states(&world.db), [["dead", "1"]]);
    }

    async fn a_viewer_looks_and_an_operator_acts(db: TestDatabase) {
        let world = World::start_with(db, |setup| {
            setup.server("admin_token = { value = \"canary-operator-0001\" }").server("viewer_token = { value = \"canary-viewer-000001\" }")
        });
        world.expect("stripe", &stripe("a"), "accepted");
        bury(&world.db);
        let (operator, viewer) = (("authorization", "Bearer canary-operator-0001"), ("authorization", "Bearer canary-viewer-000001"));
        let body = br#"{"filter":{"source":"stripe"}}"#;
        for path in ["replay", "backfill", "release", "discard", "forget", "handlers/pull/pause", "handlers/pull/resume"] {
            assert_eq!(post_as(&world, path, body, &[]).status, 401, "{path}");
            assert_eq!(post_as(&world, path, body, &[viewer]).status, 403, "{path}");
        }
        for path in ["deliveries", "dead-letters", "held", "outbox", "rejections", "stats", "actions"] {
            let path = format!("/api/v1/{path}");
            assert_eq!(http::get(world.program.admin_addr(), &path, &[]).status, 401, "{path}");
            assert_eq!(http::get(world.program.admin_addr(), &path, &[viewer]).status, 200, "{path}");
        }
        assert_eq!(states(&world.db), [["dead", "1"]]);
        assert_eq!(post_as(&world, "replay", body, &[operator]).json()["count"], 1);
    }
}
