//! The admin API as a whole: the document against the routes, and the answers behind the dashboard's screens.

use serde_json::{Value, json};
use testkit::http::{self, Answer};
use testkit::{Backend, TestDatabase, contract};

use crate::world::{PATIENCE, World, custom, github, stripe, wait_until};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

fn ask(world: &World, method: &str, path: &str) -> Answer {
    let headers = [("content-type", "application/json")];
    http::request(world.program.admin_addr(), &method.to_uppercase(), path, &headers, b"{}").expect("an answer")
}

fn get(world: &World, path: &str) -> Value {
    let answer = http::get(world.program.admin_addr(), &format!("/api/v1/{path}"), &[]);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

fn keys(list: &Value) -> Vec<&str> {
    list["items"].as_array().expect("items").iter().map(|item| item["key"].as_str().expect("a key")).collect()
}

/// Makes every delivery that is ready a dead letter.
fn bury(db: &TestDatabase, error: &str) {
    let deliveries = db.table("deliveries");
    db.execute(&format!("update {deliveries} set state = 'dead', attempt = 1, finished_at_ms = 1763208000000, last_error = '{error}' where state = 'ready'"));
}

contract! {
    async fn the_document_and_the_routes_are_the_same(db: TestDatabase) {
        let world = World::start(db);
        let document = ask(&world, "get", "/api/openapi.json").json();
        assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")));
        let paths = document["paths"].as_object().expect("paths");
        assert!(paths.len() >= 30, "{} paths", paths.len());
        for (path, item) in paths {
            let real = path.replace("{key}", "no/key").replace("{name}", "nobody").replace(['{', '}'], "");
            let real = real.replace("no/key", "019a8d2e-5b1c-7f00-8000-3c6f0e9a7b11");
            for method in METHODS.into_iter().filter(|method| path != "/api/v1/tail" || *method != "get") {
                let answer = ask(&world, method, &real);
                let described = item.get(method);
                assert_eq!(answer.status == 405, described.is_none(), "{method} {path}: {}", answer.status);
                let Some(described) = described else {
                    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{method} {path}");
                    assert!(answer.header("allow").is_some_and(|allow| !allow.is_empty()), "{method} {path}");
                    continue;
                };
                assert!(described["responses"].get(answer.status.to_string()).is_some(), "{method} {path}: {}", answer.status);
                for refusal in ["400", "401", "403", "503"] {
                    let problem = &described["responses"][refusal]["content"]["application/problem+json"]["schema"]["$ref"];
                    assert_eq!(problem, "#/components/schemas/Problem", "{method} {path} {refusal}");
                }
                assert!(described["summary"].is_string() || described["description"].is_string(), "{method} {path}");
            }
        }
        for known in ["sources", "events", "events/{key}", "events/{key}/payload", "deliveries", "dead-letters", "held", "outbox", "rejections", "stats", "tail", "replay", "release", "discard", "forget"] {
            assert!(paths.contains_key(&format!("/api/v1/{known}")), "{known}");
        }
        let page = ask(&world, "get", "/api/docs");
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
        let text = page.text();
        assert!(!text.contains("<script"));
        for (path, item) in paths {
            for method in item.as_object().expect("methods").keys() {
                let route = format!("<b>{}</b> <code>{path}</code>", method.to_uppercase());
                assert!(text.contains(&route), "{route} is not on the page");
            }
        }
        assert!(page.header("content-security-policy").is_some_and(|policy| !policy.contains("unsafe")));
    }

    async fn the_overview_tells_what_happened(db: TestDatabase) {
        let world = World::start(db);
        for id in ["a", "b", "c"] {
            world.expect("stripe", &stripe(id), "accepted");
        }
        let again = world.expect("stripe", &stripe("a"), "duplicate");
        world.expect_401("stripe", &stripe("a").tampered());
        wait_until("the duplicate is counted", PATIENCE, || world.arrivals(&again) == 2);
        let overview = get(&world, "overview");
        assert_eq!(overview["numbers"]["duplicate_rate"], json!({"value": 0.25, "of": 4, "baseline": null, "baseline_of": 0}));
        assert_eq!(overview["numbers"]["ledger_rows"], 3);
        let minutes = overview["minutes"].as_array().expect("minutes");
        let sum = |name: &str| minutes.iter().filter_map(|minute| minute[name].as_i64()).sum::<i64>();
        assert_eq!((minutes.len(), sum("accepted"), sum("duplicate"), sum("rejected")), (60, 3, 1, 1));
        assert!(minutes.iter().any(|minute| minute["p95_ms"].as_f64().is_some_and(|ms| ms > 0.0)));
        let handler = &overview["handlers"][0];
        assert_eq!((&handler["handler"], &handler["ready"]), (&json!("pull"), &json!({"count": 3, "more": false})));
        assert!(handler["oldest_due_at"].is_string());
        let source = overview["sources"].as_array().expect("sources").iter().find(|one| one["name"] == "stripe").expect("stripe");
        assert_eq!((&source["events"], &source["arrivals"]), (&json!(3), &json!(4)));
        assert_eq!(source["public_url"], "https://hooks.example.com/in/stripe");
        assert_eq!((&source["secret_uses"][0]["position"], &source["secret_uses"][0]["matches"]), (&json!(1), &json!(4)));
        assert!(source["secret_uses"][0]["last_matched_at"].is_string());
        let guide = get(&world, "sources/stripe");
        assert!(guide["guide"]["setup"].as_str().is_some_and(|text| text.len() > 10), "{guide}");
        assert!(get(&world, "rejections")["items"][0]["diagnosis"].as_str().is_some_and(|text| text.contains("no secret fits")));
    }

    async fn an_event_explains_itself(db: TestDatabase) {
        let world = World::start(db);
        let key = world.expect("stripe", &stripe("a"), "accepted");
        world.expect("stripe", &stripe("a"), "duplicate");
        wait_until("the duplicate is counted", PATIENCE, || world.arrivals(&key) == 2);
        let event = get(&world, &format!("events/{key}"));
        assert_eq!(event["repeats"]["count"], 1);
        assert!(event["repeats"]["rule"].as_str().is_some_and(|rule| rule.contains("same id")), "{event}");
        assert_eq!((event["recent_arrivals"].as_array().map(Vec::len), &event["messages"]), (Some(1), &json!([])));
    }

    async fn events_are_found_by_what_people_know(db: TestDatabase) {
        let world = World::start(db);
        let a = world.expect("stripe", &stripe("evt_a"), "accepted");
        let b = world.expect("custom", &custom(r#"{"id":"evt_b","type":"t","note":"needle in the hay"}"#), "accepted");
        let held = world.expect("custom", &custom(r#"{"type":"t"}"#), "held");
        for (query, expected) in [
            ("id=evt_a", vec![&a]),
            ("id=evt_b&source=custom", vec![&b]),
            ("id=evt_b&source=stripe", vec![]),
            (&format!("id={a}"), vec![&a]),
            ("body=needle%20in", vec![&b]),
            ("body=needle%20in&source=stripe", vec![]),
            ("body=invoice.paid&type=invoice.*", vec![&a]),
            ("state=held", vec![&held]),
            ("delivery_state=ready", vec![&b, &a]),
            ("delivery_state=ready&handler=pull&source=stripe", vec![&a]),
            ("delivery_state=held", vec![&held]),
            ("delivery_state=dead", vec![]),
            ("until=1h", vec![]),
            ("since=1h&state=accepted", vec![&b, &a]),
        ] {
            let list = get(&world, &format!("events?{query}"));
            assert_eq!(keys(&list), expected, "{query}");
            assert_eq!(list["next_cursor"], Value::Null, "{query}");
        }
        let first = get(&world, "events?delivery_state=ready&limit=1");
        let next = get(&world, &format!("events?delivery_state=ready&limit=1&cursor={}", first["next_cursor"].as_str().expect("more")));
        assert_eq!((keys(&first), keys(&next)), (vec![b.as_str()], vec![a.as_str()]));
        let first = get(&world, "events?body=evt_&limit=1");
        let next = get(&world, &format!("events?body=evt_&limit=1&cursor={}", first["next_cursor"].as_str().expect("more")));
        assert_eq!((keys(&first), keys(&next)), (vec![b.as_str()], vec![a.as_str()]));
        for query in ["body=ab", "handler=pull", "delivery_state=lost", "delivery_state=dead&state=held", "body=abc&delivery_state=dead", "colour=red"] {
            let answer = http::get(world.program.admin_addr(), &format!("/api/v1/events?{query}"), &[]);
            assert_eq!((answer.status, answer.header("content-type")), (400, Some("application/problem+json")), "{query}");
        }
        let waiting = &get(&world, "held")["items"][0];
        assert!(waiting["why"].as_str().is_some_and(|why| why.contains("id")) && waiting["release_does"].is_string(), "{waiting}");
    }

    async fn a_search_says_how_far_it_looked(db: TestDatabase) {
        let world = World::start(db);
        let oldest = world.expect("custom", &custom(r#"{"id":"old","type":"t"}"#), "accepted");
        many_events(&world.db, 25_000);
        let first = get(&world, "events?source=custom");
        assert_eq!((keys(&first), first["searched_until"].is_string()), (vec![], true), "{first}");
        let next = get(&world, &format!("events?source=custom&cursor={}", first["next_cursor"].as_str().expect("a cursor")));
        assert_eq!((keys(&next), &next["next_cursor"], &next["searched_until"]), (vec![oldest.as_str()], &Value::Null, &Value::Null));
        let stats = get(&world, "stats");
        assert!(stats["counted_since"].is_string(), "{stats}");
        assert_eq!(keys(&get(&world, "events?id=old")), [oldest.as_str()], "an id needs no search");
    }

    async fn one_cause_is_one_group(db: TestDatabase) {
        let world = World::start(db);
        for (id, error) in [("a", "row 17 is gone"), ("b", "row 4711 is gone"), ("c", "connection refused")] {
            world.expect("stripe", &stripe(id), "accepted");
            bury(&world.db, error);
        }
        let groups = get(&world, "dead-letters/groups");
        let lines: Vec<_> = groups["items"].as_array().expect("groups").iter().map(|one| (one["error"].as_str(), one["count"].as_i64(), one["name"].as_str())).collect();
        assert_eq!(lines, [(Some("row # is gone"), Some(2), Some("pull")), (Some("connection refused"), Some(1), Some("pull"))]);
        assert_eq!(groups["more"], false);
    }

    async fn pages_and_cursors_are_checked(db: TestDatabase) {
        let world = World::start(db);
        let refused = |path: &str| {
            let answer = http::get(world.program.admin_addr(), &format!("/api/v1/{path}"), &[]);
            assert_eq!((answer.status, answer.header("content-type")), (400, Some("application/problem+json")), "{path}");
        };
        for list in ["events", "held", "deliveries", "dead-letters", "outbox", "rejections", "sources", "handlers", "destinations"] {
            for query in ["limit=0", "limit=1001", "cursor=x", "cursor=ffffffff-ffff-ffff-ffff-ffffffffffff", "nonsense=1"] {
                refused(&format!("{list}?{query}"));
            }
        }
        for path in ["dead-letters?state=done", "held?id=x", "held?body=x", "held?delivery_state=held"] {
            refused(path);
        }
        for n in 0..5 {
            world.expect_401("github", &github(&format!("d-{n}"), &json!({})).tampered());
        }
        for (list, name) in [("rejections", "at"), ("sources", "name")] {
            let all = get(&world, list)["items"].as_array().expect("items").clone();
            let (mut paged, mut cursor) = (Vec::new(), String::new());
            loop {
                let page = get(&world, &format!("{list}?limit=2{cursor}"));
                paged.extend(page["items"].as_array().expect("items").clone());
                let Some(next) = page["next_cursor"].as_str() else { break };
                cursor = format!("&cursor={next}");
            }
            assert!(all.len() > 4 && all.iter().all(|one| one[name].is_string()), "{all:?}");
            assert_eq!(paged, all, "{list}");
        }
    }

    async fn the_header_names_an_action_too(db: TestDatabase) {
        let world = World::start(db);
        world.expect("stripe", &stripe("a"), "accepted");
        bury(&world.db, "x");
        let post = |headers: &[(&str, &str)], body: Value| {
            let headers = [&[("content-type", "application/json")], headers].concat();
            http::post(world.program.admin_addr(), "/api/v1/replay", &headers, body.to_string().as_bytes())
        };
        let filter = json!({"source": "stripe"});
        let first = post(&[("idempotency-key", "once")], json!({"filter": filter})).json();
        assert_eq!((&first["count"], &first["action_id"]), (&json!(1), &json!("once")));
        bury(&world.db, "x");
        let again = post(&[("idempotency-key", "once")], json!({"filter": filter, "action_id": "once"})).json();
        assert_eq!((&again["count"], &again["repeated"]), (&json!(1), &json!(true)));
        assert_eq!(post(&[("idempotency-key", "once")], json!({"filter": filter, "action_id": "twice"})).status, 400);
        assert_eq!(post(&[("idempotency-key", "")], json!({"filter": filter})).status, 400);
    }
}

/// Events of a source that is no longer configured, newer than all others.
fn many_events(db: &TestDatabase, count: i64) {
    let (series, key, digest) = match db.backend() {
        Backend::Sqlite => (
            format!(
                "(with recursive s(n) as (select 1 union all select n + 1 from s where n < {count}) select n from s)"
            ),
            "unhex(printf('ffff%08x70008000%012x', n, n))",
            "zeroblob(32)",
        ),
        Backend::Postgres => (
            format!("generate_series(1, {count}) s(n)"),
            "('ffff' || lpad(to_hex(n), 8, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid",
            "decode(repeat('00', 32), 'hex')",
        ),
    };
    db.execute(&format!(
        "insert into {} (key, source, event_id, type, identity, body_sha256, state, received_at_ms) \
         select {key}, 'gone', 'evt_' || n, 't', 'id', {digest}, 'accepted', 1763208000000 from {series}",
        db.table("events")
    ));
}
