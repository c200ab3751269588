//! The pages as a browser without a script gets them: what they say must be what happened.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use testkit::{Backend, TestDatabase, contract, http};

use crate::world::{PATIENCE, TOKEN, World, custom, github, stripe, wait_until};

/// More events than one page looks through.
const NEWER: i64 = 20_100;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// A page's text, with every gap as one space.
fn page(world: &World, path: &str) -> String {
    let answer = http::get(world.program.admin_addr(), path, &[]);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.text().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn api(world: &World, path: &str) -> Value {
    let answer = http::get(world.program.admin_addr(), &format!("/api/v1/{path}"), &[]);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

fn post(world: &World, path: &str, body: &Value) -> Value {
    let headers = [("content-type", "application/json")];
    let answer =
        http::post(world.program.admin_addr(), &format!("/api/v1/{path}"), &headers, body.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

fn millis() -> i64 {
    crate::world::now() * 1000
}

/// Makes an event, by its record and in the ledger, one of yesterday.
fn age(db: &TestDatabase, key: &str) -> String {
    let old = format!("{:012x}{}", millis() - DAY_MS, &key.replace('-', "")[12..]);
    let literal = |hex: &str| match db.backend() {
        Backend::Sqlite => format!("x'{hex}'"),
        Backend::Postgres => format!("'{hex}'"),
    };
    for table in ["events", "ledger"] {
        let (table, from) = (db.table(table), literal(&key.replace('-', "")));
        db.execute(&format!("update {table} set key = {} where key = {from}", literal(&old)));
    }
    old
}

/// So many events newer than all others, that no handler wants.
fn crowd(db: &TestDatabase) {
    let first = millis() + 60_000;
    let (series, key, digest) = match db.backend() {
        Backend::Sqlite => (
            format!(
                "(with recursive s(n) as (select 1 union all select n + 1 from s where n < {NEWER}) select n from s) s"
            ),
            format!("unhex(printf('%012x70008000%012x', {first} + n, n))"),
            "zeroblob(32)",
        ),
        Backend::Postgres => (
            format!("generate_series(1, {NEWER}) s(n)"),
            format!("(lpad(to_hex({first} + n), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid"),
            "decode(repeat('00', 32), 'hex')",
        ),
    };
    db.execute(&format!(
        "insert into {} (key, source, event_id, type, identity, body_sha256, state, received_at_ms) \
         select {key}, 'custom', 'crowd_' || n, 'noise', 'id', {digest}, 'accepted', {first} from {series}",
        db.table("events")
    ));
}

fn cards(world: &World) -> Value {
    api(world, "overview")["numbers"]["duplicate_rate"].clone()
}

/// Opens a stream and reads its head.
fn follow(world: &World, query: &str, header: &str) -> impl Iterator<Item = String> + use<> {
    let addr = world.program.admin_addr();
    let mut stream = TcpStream::connect(addr).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let request = format!("GET /api/v1/tail?{query} HTTP/1.1\r\nhost: {addr}\r\n{header}\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "content-type: text/event-stream"), "{query}");
    lines
}

contract! {
    async fn old_events_that_come_again_now_raise_the_rate_of_now(db: TestDatabase) {
        let world = World::start(db);
        let key = world.expect("stripe", &stripe("yesterday"), "accepted");
        age(&world.db, &key);
        for _ in 0..3 {
            assert_eq!(world.post("stripe", &stripe("yesterday")).json()["status"], "duplicate");
        }
        let arrivals = world.db.table("arrivals");
        let counted = || world.db.query(&format!("select sum(count) from {arrivals}"))[0][0] == "3";
        wait_until("the duplicates are counted", PATIENCE, counted);
        // By the event's own time the rate of the last hour would be nothing of nothing, and that of before 75 %.
        assert_eq!(cards(&world), json!({"value": 0.75, "of": 4, "baseline": 0.0, "baseline_of": 1}));
        assert!(api(&world, "stats")["duplicate_rate"].is_number());
        assert!(page(&world, "/").contains("of 4 arrivals in the last hour, on this node"));
    }

    async fn an_id_is_found_however_old_its_event_is(db: TestDatabase) {
        let world = World::start(db);
        let key = world.expect("stripe", &stripe("evt_old"), "accepted");
        let held = world.expect("custom", &custom(r#"{"type":"t"}"#), "held");
        crowd(&world.db);
        let find = |text: &str| {
            let answer = http::get(world.program.admin_addr(), &format!("/find?q={text}"), &[]);
            answer.header("location").unwrap_or_default().to_owned()
        };
        assert_eq!(find("evt_old"), format!("/events/{key}"));
        assert_eq!(find("stripe%2Fevt_old"), format!("/events/{key}"));
        assert_eq!(find(&key), format!("/events/{key}"));
        assert_eq!(find("evt_ol"), "/events?text=evt_ol");
        let exact = page(&world, "/events?text=evt_old");
        assert!(exact.contains(&format!("href=\"/events/{key}\"")), "{exact}");
        assert!(page(&world, "/events?text=evt_old&source=stripe").contains(&key));
        assert!(!page(&world, "/events?text=evt_old&source=custom").contains(&key));
        // A part of an id is no id: the page says how far it looked and leads on.
        let part = page(&world, "/events?text=evt_ol");
        assert!(part.contains("None of the events received since") && !part.contains("No event fits this search"), "{part}");
        let on = part.split("href=\"").find(|link| link.contains("cursor=")).and_then(|link| link.split('"').next());
        let on = on.expect("a link further back").replace("&#38;", "&").replace("&amp;", "&");
        assert!(page(&world, &on).contains(&format!("href=\"/events/{key}\"")), "{on}");
        assert!(page(&world, "/events?text=crowd_7").contains("crowd_7"));
        // What is held is counted however much came since.
        assert_eq!(api(&world, "overview")["held"], json!({"count": 1, "more": false}));
        assert!(page(&world, "/").contains("1 held, waiting for a person."));
        assert!(page(&world, "/held").contains(&held));
    }

    async fn a_page_says_what_the_sender_heard(db: TestDatabase) {
        let world = World::start(db);
        let body = json!({"zen": "same bytes"});
        world.expect("github", &github("a", &body), "accepted");
        let [released, discarded] = ["b", "c"].map(|id| world.expect("github", &github(id, &body), "held"));
        for (verb, key) in [("release", &released), ("discard", &discarded)] {
            assert_eq!(post(&world, verb, &json!({"filter": {"key": key}}))["count"], 1);
            let text = page(&world, &format!("/events/{key}"));
            assert!(text.contains("answered <code>held</code>"), "{verb}: {text}");
            assert!(text.contains("It was held: the same bytes came before") && !text.contains("It is flagged"), "{verb}: {text}");
        }
        world.expect("custom", &custom(r#"{"id":"x","type":"t","n":1}"#), "accepted");
        let other = custom(r#"{"id":"x","type":"t","n":2}"#);
        let conflict = world.expect("custom", &other, "conflict");
        world.expect("custom", &other, "conflict");
        wait_until("it is counted", PATIENCE, || world.arrivals(&conflict) == 2);
        let text = page(&world, &format!("/events/{conflict}"));
        assert!(!text.contains(">duplicate<") && text.matches("mark conflict\">conflict</span></td>").count() == 2, "{text}");
        assert!(text.contains("these were answered <code>conflict</code>"), "{text}");
        let others = text.split_once("Other events with this id").expect("the original is listed").1;
        assert!(others.contains("mark accepted"), "{others}");
    }

    async fn a_source_that_is_gone_leads_nowhere(db: TestDatabase) {
        let world = World::start(db);
        let key = world.expect("stripe", &stripe("a"), "accepted");
        assert!(page(&world, &format!("/events/{key}")).contains("href=\"/sources/stripe\""));
        world.db.execute(&format!("update {} set source = 'gone'", world.db.table("events")));
        let text = page(&world, &format!("/events/{key}"));
        assert!(text.contains("gone <span class=\"mark\">not configured</span>") && !text.contains("/sources/gone"), "{text}");
    }

    async fn what_is_done_says_how_long_it_took(db: TestDatabase) {
        let world = World::start(db);
        let key = world.expect("stripe", &stripe("a"), "accepted");
        let claimed = post(&world, "handlers/pull/claim", &json!({"max": 1}));
        let one = &claimed["items"][0];
        let delivery = one["delivery"].as_str().expect("a delivery");
        post(&world, &format!("deliveries/{delivery}/finish"), &json!({"token": one["token"]}));
        let took = api(&world, &format!("events/{key}"))["deliveries"][0]["took_ms"].clone();
        assert!(took.as_i64().is_some_and(|took| (0..600_000).contains(&took)), "{took}");
        assert!(page(&world, &format!("/events/{key}")).contains("<strong>Attempt 1 done</strong> · took "));
    }

    async fn an_empty_inbox_teaches_what_works_here(db: TestDatabase) {
        let world = World::start(db);
        for path in ["/", "/events", "/tail"] {
            let text = page(&world, path);
            let sample = "<code>oncebox send stripe --to https://hooks.example.com/in/stripe --secret";
            assert!(text.contains(sample), "{path}: {text}");
        }
        assert!(page(&world, "/tail?state=held").contains("Nothing that has arrived fits this filter."));
        let statement = match world.db.backend() {
            Backend::Sqlite => "insert into oncebox_send (destination, body, delivery, step)",
            Backend::Postgres => "select oncebox.send(",
        };
        assert!(page(&world, "/outbox").contains(statement));
        let part = page(&world, "/outbox?state=dead");
        assert!(part.contains("No message fits this filter.") && !part.contains(statement), "{part}");
        let custom = page(&world, "/sources/custom");
        assert!(!custom.contains("oncebox send custom --to") && custom.contains("behind a <code>--set</code>"), "{custom}");
    }

    async fn a_token_is_told_from_a_signature(db: TestDatabase) {
        let news = "[[source]]\nname = \"news\"\nprovider = \"mailchimp\"\npath_token = { value = \"canary-path-6Vc1\" }\n";
        let world = World::start_with(db, |mut setup| {
            setup.rest.push_str(news);
            setup
        });
        let send = |path: &str, token: &str| http::post(world.addr(), path, &[("x-token", token)], br#"{"id":"a"}"#);
        assert_eq!((send("/in/news/wrong", "").status, send("/in/token", "wrong").status), (401, 401));
        let text = page(&world, "/sources/news");
        for expected in ["is not the source&#39;s path_token", "name = &#34;news&#34;", "path_token = { env", "is all that tells who sends"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains("It has no secret") && !text.contains("set path_token to") && !text.contains("sure<"), "{text}");
        assert!(page(&world, "/sources/token").contains("the token in the request is no secret of the source"));
        assert!(api(&world, "rejections").to_string().contains("the token in the request is no secret of the source"));
        let key = send("/in/token", TOKEN).json()["key"].as_str().expect("a key").to_owned();
        let text = page(&world, &format!("/events/{key}"));
        let curl = "https://hooks.example.com/in/token&#39; \\ --header &#39;x-token: &#39;&#34;$SECRET&#34;";
        assert!(text.contains(curl) && text.contains("Credentials are never stored: set <code>SECRET</code>"), "{text}");
    }

    async fn an_erasure_is_told_from_retention(db: TestDatabase) {
        let world = World::start(db);
        let key = world.expect("stripe", &stripe("a"), "accepted");
        post(&world, "erase", &json!({"filter": {"key": key}}));
        let text = page(&world, &format!("/events/{key}"));
        assert!(text.contains("A person has erased the bytes") && !text.contains("Retention has removed"), "{text}");
    }

    async fn a_stream_begins_where_its_page_ended(db: TestDatabase) {
        let world = World::start(db);
        world.expect("stripe", &stripe("listed"), "accepted");
        let page = page(&world, "/tail");
        let after = page.split("data-after=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a key").to_owned();
        // It comes after the page was made and before its stream is opened.
        let key = world.expect("stripe", &stripe("between"), "accepted");
        let mut lines = follow(&world, &format!("after={after}"), "");
        assert!(lines.any(|line| line.starts_with("data: ") && line.contains(&key)));
        let refused = http::get(world.program.admin_addr(), "/api/v1/tail?after=nonsense", &[]);
        assert_eq!(refused.status, 400, "{}", refused.text());
    }

    async fn a_stream_finds_the_rare_behind_a_crowd(db: TestDatabase) {
        let world = World::start(db);
        let first = world.expect("stripe", &stripe("first"), "accepted");
        crowd(&world.db);
        // Its key would be the oldest by far: it is put behind the crowd.
        let rare = world.expect("stripe", &stripe("rare"), "accepted");
        let last = format!("{:012x}{}", millis() + 3_600_000, &rare.replace('-', "")[12..]);
        let events = world.db.table("events");
        let to = if world.db.backend() == Backend::Sqlite { format!("x'{last}'") } else { format!("'{last}'") };
        world.db.execute(&format!("update {events} set key = {to} where event_id = 'rare'"));
        let mut lines = follow(&world, "source=stripe", &format!("last-event-id: {first}\r\n"));
        assert!(lines.any(|line| line.starts_with("data: ") && line.contains("\"rare\"")));
    }

    async fn a_stream_ends_with_the_session_that_opened_it(db: TestDatabase) {
        let world = World::start_with(db, |setup| setup.server("admin_token = { value = \"operator-canary-6Jm1\" }"));
        let headers = [("content-type", "application/json")];
        let login = http::post(world.program.admin_addr(), "/api/v1/session", &headers, br#"{"token":"operator-canary-6Jm1"}"#);
        let cookie = login.header("set-cookie").and_then(|line| line.split(';').next()).expect("a cookie").to_owned();
        let form_token = login.json()["form_token"].as_str().expect("a form token").to_owned();
        let mut session = follow(&world, "", &format!("cookie: {cookie}\r\n"));
        let mut bearer = follow(&world, "", "authorization: Bearer operator-canary-6Jm1\r\n");
        let said = [("cookie", cookie.as_str()), ("oncebox-form-token", form_token.as_str())];
        let left = http::request(world.program.admin_addr(), "DELETE", "/api/v1/session", &said, b"").expect("an answer");
        assert_eq!(left.status, 204);
        let key = world.expect("stripe", &stripe("after the logout"), "accepted");
        assert!(bearer.any(|line| line.contains(&key)), "whoever may look still does");
        assert!(!session.any(|line| line.contains(&key)), "nobody is there to look");
    }
}
