//! Handlers of kind `pull`: consumers outside claim and report over the admin listener.

use serde_json::{Value, json};
use testkit::http::{self, Answer};
use testkit::{TestDatabase, contract};

use super::{HASTY, delivery, event, start_on, wait_for_states};
use crate::world::World;

fn post(world: &World, path: &str, body: &Value) -> Answer {
    let headers = [("content-type", "application/json")];
    http::request(world.program.admin_addr(), "POST", path, &headers, body.to_string().as_bytes()).expect("an answer")
}

fn claim(world: &World, max: usize, lease: &str) -> Vec<Value> {
    let answer = post(world, "/api/v1/handlers/jobs/claim", &json!({"max": max, "lease": lease}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["items"].as_array().expect("items").clone()
}

fn report(world: &World, item: &Value, verb: &str, rest: &Value) -> Answer {
    let mut body = json!({"token": item["token"]});
    for (name, value) in rest.as_object().expect("an object") {
        body[name] = value.clone();
    }
    let delivery = item["delivery"].as_str().expect("a delivery");
    post(world, &format!("/api/v1/deliveries/{delivery}/{verb}"), &body)
}

fn start(db: TestDatabase) -> World {
    start_on(
        db,
        &format!("[[handler]]\nname = \"jobs\"\nsources = [\"custom\"]\npull = true\nlease = \"30s\"\n{HASTY}"),
    )
}

/// Seconds since the month began of an RFC 3339 time.
fn seconds_of(text: &str) -> i64 {
    let digits = |range: std::ops::Range<usize>| text[range].parse::<i64>().expect("digits");
    digits(8..10) * 86_400 + digits(11..13) * 3600 + digits(14..16) * 60 + digits(17..19)
}

contract! {
    async fn a_handlers_token_opens_its_own_deliveries_and_nothing_else(db: TestDatabase) {
        const OPERATOR: &str = "operator-canary-3Kd7";
        const JOBS: &str = "jobs-canary-7Pq2-0001";
        const MAIL: &str = "mail-canary-7Pq2-0001";
        let world = World::start_with(db, |mut setup| {
            let handler = |name: &str, token: &str| {
                format!("[[handler]]\nname = \"{name}\"\nsources = [\"custom\"]\npull = true\ntoken = {{ value = \"{token}\" }}\n")
            };
            let handlers = handler("jobs", JOBS) + &handler("mail", MAIL);
            setup.rest = setup.rest.replace("[[handler]]\nname = \"pull\"\npull = true\n", &handlers);
            setup.server(&format!("admin_token = {{ value = \"{OPERATOR}\" }}"))
        });
        let admin = world.program.admin_addr();
        let ask = |token: &str, method: &str, path: &str, body: &Value| {
            let bearer = format!("Bearer {token}");
            let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
            http::request(admin, method, path, &headers, body.to_string().as_bytes()).expect("an answer")
        };
        world.expect("custom", &event(1), "accepted");
        world.expect("custom", &event(2), "accepted");
        assert_eq!(ask("wrong-canary-7Pq2-01", "POST", "/api/v1/handlers/jobs/claim", &json!({})).status, 401);
        assert_eq!(ask(MAIL, "POST", "/api/v1/handlers/jobs/claim", &json!({})).status, 403, "another handler's");
        let claimed = ask(JOBS, "POST", "/api/v1/handlers/jobs/claim", &json!({"max": 10}));
        assert_eq!(claimed.status, 200, "{}", claimed.text());
        let items = claimed.json()["items"].as_array().expect("items").clone();
        assert_eq!(items.len(), 2);
        let report = |token: &str, item: &Value, verb: &str| {
            let path = format!("/api/v1/deliveries/{}/{verb}", item["delivery"].as_str().expect("a delivery"));
            ask(token, "POST", &path, &json!({"token": item["token"]})).status
        };
        for verb in ["extend", "fail", "finish"] {
            assert_eq!(report(MAIL, &items[0], verb), 403, "{verb} with another handler's token");
        }
        assert_eq!(report(JOBS, &items[0], "extend"), 200);
        assert_eq!((report(JOBS, &items[0], "finish"), report(JOBS, &items[1], "fail")), (200, 200));
        assert_eq!(delivery(&world, "jobs", "evt_1").0, "done");
        for (method, path) in [
            ("GET", "/api/v1/events"), ("GET", "/api/v1/stats"), ("POST", "/api/v1/replay"), ("POST", "/api/v1/erase"),
            ("POST", "/api/v1/sources/custom/arm"), ("POST", "/api/v1/handlers/jobs/pause"), ("GET", "/"),
        ] {
            assert_eq!(ask(JOBS, method, path, &json!({})).status, 403, "{method} {path}");
        }
        assert_eq!(ask(OPERATOR, "POST", "/api/v1/handlers/mail/claim", &json!({})).status, 200, "the operator may, too");
        assert!(!world.program.log().contains(JOBS));
    }

    async fn claimed_finished_failed_and_extended(db: TestDatabase) {
        let world = start(db);
        let key = world.expect("custom", &event(1), "accepted");
        world.expect("custom", &event(2), "accepted");
        let items = claim(&world, 10, "60s");
        assert_eq!(items.len(), 2);
        let body = data_encoding::BASE64.encode(&event(1).body);
        assert_eq!(items[0]["key"], key.as_str());
        assert_eq!((&items[0]["body"], &items[0]["attempt"], &items[0]["source"]), (&json!(body), &json!(1), &json!("custom")));
        assert!(claim(&world, 10, "60s").is_empty(), "both are taken");

        assert_eq!(report(&world, &items[0], "extend", &json!({"lease": "5m"})).status, 200);
        let done = report(&world, &items[0], "finish", &json!({}));
        assert_eq!((done.status, &done.json()["state"]), (200, &json!("done")));
        assert_eq!(report(&world, &items[0], "finish", &json!({})).status, 200, "saying it twice changes nothing");
        assert_eq!(report(&world, &items[0], "fail", &json!({"reason": "late"})).status, 409);

        let dead = report(&world, &items[1], "fail", &json!({"reason": "never", "retry": false}));
        assert_eq!((dead.status, &dead.json()["state"]), (200, &json!("dead")));
        assert_eq!(delivery(&world, "jobs", "evt_2"), ("dead".to_owned(), 1, "never".to_owned()));
        wait_for_states(&world, "jobs", &["done", "dead"]);
    }

    async fn an_extension_without_a_length_takes_the_handlers_and_never_shortens(db: TestDatabase) {
        let world = start(db);
        (1..=2).for_each(|number| drop(world.expect("custom", &event(number), "accepted")));
        let seconds = |value: &Value| seconds_of(value.as_str().expect("a time"));
        let long = claim(&world, 1, "10m").remove(0);
        let kept = report(&world, &long, "extend", &json!({}));
        assert_eq!(kept.status, 200, "{}", kept.text());
        assert_eq!(kept.json()["lease_until"], long["lease_until"], "ten minutes are longer than the handler's lease");
        let short = claim(&world, 1, "5s").remove(0);
        let longer = report(&world, &short, "extend", &json!({}));
        let gained = seconds(&longer.json()["lease_until"]) - seconds(&short["lease_until"]);
        // The handler's lease is 30 s.
        assert!((25..40).contains(&gained), "{gained} s");
        let told = report(&world, &long, "extend", &json!({"lease": "20s"}));
        assert!(seconds(&told.json()["lease_until"]) < seconds(&long["lease_until"]), "who says a length gets it");
    }

    async fn attempts_outside_are_counted(db: TestDatabase) {
        let world = start(db);
        (1..=3).for_each(|number| drop(world.expect("custom", &event(number), "accepted")));
        let items = claim(&world, 10, "60s");
        for _ in 0..2 {
            assert_eq!(report(&world, &items[0], "finish", &json!({})).status, 200);
        }
        assert_eq!(report(&world, &items[1], "fail", &json!({"retry": false})).status, 200);
        assert_eq!(report(&world, &items[1], "fail", &json!({"retry": false})).status, 409);
        assert_eq!(report(&world, &items[2], "fail", &json!({})).status, 200);
        let mut again = Vec::new();
        crate::world::wait_until("it is due again", crate::world::PATIENCE, || {
            again = claim(&world, 1, "60s");
            !again.is_empty()
        });
        assert_eq!(report(&world, &again[0], "finish", &json!({})).status, 200);
        let metrics = world.metrics();
        for line in [
            r#"oncebox_attempts_total{handler="jobs",try="first",outcome="done"} 1"#,
            r#"oncebox_attempts_total{handler="jobs",try="first",outcome="dead"} 1"#,
            r#"oncebox_attempts_total{handler="jobs",try="first",outcome="failed"} 1"#,
            r#"oncebox_attempts_total{handler="jobs",try="retry",outcome="done"} 1"#,
            r#"oncebox_handler_seconds_count{handler="jobs"} 4"#,
            r#"oncebox_deliveries{handler="jobs",state="ready"} 0"#,
            r#"oncebox_deliveries{handler="jobs",state="dead"} 1"#,
        ] {
            assert!(metrics.lines().any(|one| one == line), "{line} is not in:\n{metrics}");
        }
    }

    async fn a_lost_lease_is_409_and_the_budget_holds(db: TestDatabase) {
        let world = start(db);
        world.expect("custom", &event(1), "accepted");
        let mut earlier: Option<Value> = None;
        for attempt in 1..=3 {
            let mut items = Vec::new();
            crate::world::wait_until("it can be claimed", crate::world::PATIENCE, || {
                items = claim(&world, 1, "1s");
                !items.is_empty()
            });
            assert_eq!(items[0]["attempt"], attempt);
            if let Some(earlier) = &earlier {
                for verb in ["finish", "fail", "extend"] {
                    assert_eq!(report(&world, earlier, verb, &json!({})).status, 409, "{verb}");
                }
            }
            earlier = items.pop();
        }
        wait_for_states(&world, "jobs", &["dead"]);
        assert_eq!(delivery(&world, "jobs", "evt_1").1, 3);
    }

    async fn what_makes_no_sense_is_4xx(db: TestDatabase) {
        let ours = "[[handler]]\nname = \"ours\"\nsources = [\"custom\"]\nsql = \"select 1\"\n";
        let jobs = format!("[[handler]]\nname = \"jobs\"\nsources = [\"custom\"]\npull = true\nlease = \"30s\"\n{HASTY}");
        let world = start_on(db, &format!("{jobs}{ours}"));
        for (path, body, status) in [
            ("/api/v1/handlers/nobody/claim", json!({}), 404),
            ("/api/v1/handlers/ours/claim", json!({}), 400),
            ("/api/v1/handlers/jobs/claim", json!({"max": 0}), 400),
            ("/api/v1/handlers/jobs/claim", json!({"max": 1001}), 400),
            ("/api/v1/handlers/jobs/claim", json!({"lease": "soon"}), 400),
            ("/api/v1/handlers/jobs/claim", json!({"most": 1}), 400),
            ("/api/v1/deliveries/nothing/finish", json!({"token": "x"}), 404),
            ("/api/v1/deliveries/00000000-0000-7000-8000-000000000000/finish", json!({"token": "x"}), 400),
            (
                "/api/v1/deliveries/00000000-0000-7000-8000-000000000000/finish",
                json!({"token": "00000000-0000-7000-8000-000000000000"}),
                409,
            ),
        ] {
            let answer = post(&world, path, &body);
            assert_eq!(answer.status, status, "{path} {body}: {}", answer.text());
        }
        let plain = http::request(world.program.admin_addr(), "POST", "/api/v1/handlers/jobs/claim", &[], b"no json");
        assert!((400..500).contains(&plain.expect("an answer").status));
    }
}
