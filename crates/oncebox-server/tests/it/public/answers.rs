//! The contract's answer table: each case with its status, its headers, and what it leaves in the database.

use std::thread;
use std::time::Duration;

use serde_json::json;
use testkit::http::{self, Connection};
use testkit::sender::{self, Signed};
use testkit::{TestDatabase, contract};

use crate::world::{PATIENCE, SLACK, STRIPE, TWILIO, TWILIO_URL, World, custom, now, stripe, wait_until};

contract! {
    async fn every_unverified_request_gets_the_same_bytes(db: TestDatabase) {
        let world = World::start(db);
        let wrong = [
            ("stripe", stripe("evt_1").without_header("stripe-signature")),
            ("stripe", stripe("evt_1").tampered()),
            ("stripe", sender::stripe("whsec_other", now(), "evt_1", "a", &json!({}))),
            ("stripe", sender::stripe(STRIPE, now() - 3600, "evt_1", "a", &json!({}))),
            ("github", custom("{}")),
            ("token", custom("{}")),
            ("none", custom("{}").tampered()),
        ];
        let answers = world.expect_nothing_stored(|| {
            wrong.map(|(source, signed)| (source, world.post(source, &signed)))
        });
        for (source, answer) in &answers {
            assert_eq!((answer.status, &answer.body), (401, &answers[0].1.body), "{source}");
            assert_eq!(answer.header("content-type"), Some("application/problem+json"));
            assert!(answer.header("oncebox-key").is_none() && answer.header("www-authenticate").is_none());
        }
    }

    async fn a_slack_handshake_is_answered_and_not_stored(db: TestDatabase) {
        let world = World::start(db);
        let body = json!({"type": "url_verification", "challenge": "3eZbrw1a"}).to_string().into_bytes();
        let signed = sender::slack_bytes(SLACK, now(), body);
        world.expect_nothing_stored(|| {
            let answer = world.post("slack", &signed);
            assert_eq!((answer.status, answer.text().as_str()), (200, "3eZbrw1a"));
            assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
            world.expect_401("slack", &signed.clone().tampered());
        });
        let event = sender::slack(SLACK, now(), "Ev1", "app_mention", &json!({"channel": "C1"}));
        let key = world.expect("slack", &event, "accepted");
        assert_eq!(world.event(&key).kind, "app_mention");
    }

    async fn twilio_gets_the_body_it_wants_and_the_key(db: TestDatabase) {
        let world = World::start(db);
        let fields = [("MessageSid", "SM1"), ("MessageStatus", "delivered"), ("Body", "a b&c=ü")];
        let signed = sender::twilio(TWILIO, TWILIO_URL, "tok-1", &fields);
        let answer = world.expect_stored(1, 1, || world.post("twilio", &signed));
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.text(), r#"<?xml version="1.0" encoding="UTF-8"?><Response/>"#);
        assert_eq!(answer.header("content-type"), Some("text/xml; charset=utf-8"));
        let key = answer.header("oncebox-key").expect("a key").to_owned();
        assert_eq!((world.event(&key).id.as_str(), world.event(&key).kind.as_str()), ("tok-1", "delivered"));
        let again = world.expect_nothing_stored(|| world.post("twilio", &signed));
        assert_eq!((again.status, again.header("oncebox-key")), (200, Some(key.as_str())));
        let elsewhere = sender::twilio(TWILIO, "https://evil.example/in/twilio", "tok-2", &fields);
        world.expect_nothing_stored(|| world.expect_401("twilio", &elsewhere));
    }

    async fn an_insecure_source_takes_anything(db: TestDatabase) {
        let world = World::start(db);
        let plain = Signed { headers: Vec::new(), body: br#"{"id":"a"}"#.to_vec() };
        let key = world.expect_stored(1, 1, || world.expect("open", &plain, "accepted"));
        assert_eq!(world.expect("open", &plain, "duplicate"), key);
        let stats = http::get(world.program.admin_addr(), "/api/v1/stats", &[]).json();
        assert_eq!(stats["unverified_sources"], json!(["open"]));
        wait_until("the banner says so", PATIENCE, || world.program.log().contains("NOT VERIFIED"));
    }

    async fn other_paths_and_methods_are_refused(db: TestDatabase) {
        let world = World::start(db);
        let ask = |method: &str, path: &str| {
            http::request(world.addr(), method, path, &[], b"").unwrap_or_else(|error| panic!("{method} {path}: {error}"))
        };
        world.expect_nothing_stored(|| {
            for path in [
                "/", "/in", "/in/", "/in/nobody", "/in/stripe/x/y", "/in/Stripe", "/IN/stripe", "/metrics",
                "/api/v1/events", "/api/v1/stats", "/in/%73tripe", "/healthz/", "//in/stripe",
            ] {
                for method in ["GET", "POST"] {
                    let answer = ask(method, path);
                    assert_eq!(answer.status, 404, "{method} {path}");
                    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
                }
            }
            for method in ["GET", "PUT", "DELETE", "OPTIONS", "TRACE", "HEAD", "PATCH", "post"] {
                let answer = ask(method, "/in/stripe");
                assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")), "{method}");
                let cors = |(name, _): &&(String, String)| name.starts_with("access-control-");
                assert_eq!(answer.headers.iter().find(cors), None, "{method}");
            }
            // A source without a token has one URL: a slash too many at the vendor is a wrong path, not a wrong secret.
            for path in ["/in/stripe/", "/in/stripe/token"] {
                assert_eq!(ask("POST", path).status, 404, "{path}");
            }
        });
        assert_eq!((ask("GET", "/healthz").status, ask("HEAD", "/healthz").status), (200, 200));
        assert_eq!((ask("POST", "/healthz").status, ask("POST", "/healthz").header("allow")), (405, Some("GET, HEAD")));
    }

    async fn a_body_over_the_limit_is_refused(db: TestDatabase) {
        let world = World::start(db);
        let limit = 64 * 1024;
        let of_size = |size: usize| custom(format!(r#"{{"id":"big","pad":"{}"}}"#, "x".repeat(size - 21)));
        assert_eq!(of_size(limit).body.len(), limit);
        world.expect_nothing_stored(|| {
            let answer = world.post("small", &of_size(limit + 1));
            assert_eq!((answer.status, answer.header("connection")), (413, Some("close")));
            // Refused by the declared length, before any of it is there.
            let mut connection = Connection::open(world.addr()).expect("it listens");
            connection.send(b"POST /in/small HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999\r\n\r\n").expect("sent");
            assert_eq!(connection.read_answer().expect("an answer").status, 413);
            assert!(connection.is_closed_within(Duration::from_secs(5)));
            let answer = post_chunked(&world, &of_size(limit + 1), 1000);
            assert_eq!(answer.status, 413);
        });
        world.expect_stored(1, 1, || world.expect("small", &of_size(limit), "accepted"));
        assert_eq!(post_chunked(&world, &of_size(limit), 1000).json()["status"], "duplicate");
    }

    async fn an_encoded_body_is_refused(db: TestDatabase) {
        let world = World::start(db);
        world.expect_nothing_stored(|| {
            for coding in ["gzip", "br", "zstd", "deflate", "gzip, gzip", "x-unknown", ""] {
                let answer = world.post("stripe", &stripe("evt_1").with_header("content-encoding", coding));
                assert_eq!(answer.status, 415, "{coding}");
            }
        });
        world.expect("stripe", &stripe("evt_1").with_header("content-encoding", "identity"), "accepted");
    }

    async fn a_full_house_is_answered_503_at_once(db: TestDatabase) {
        let world = World::start_with(db, |setup| setup.server("in_flight = 1"));
        let answers = thread::scope(|scope| {
            let busy = world.db.while_locked(&world.db.table("ledger"), || {
                let send = |number: usize| {
                    let world = &world;
                    scope.spawn(move || world.post("custom", &custom(format!(r#"{{"id":"evt_{number}"}}"#))))
                };
                let sent: Vec<_> = (0..4).map(send).collect();
                // One waits for its commit, and whoever comes second is refused at once.
                wait_until("three are refused", PATIENCE, || sent.iter().filter(|one| one.is_finished()).count() == 3);
                assert_eq!(http::get(world.addr(), "/healthz", &[]).status, 200);
                sent
            });
            busy.into_iter().map(|one| one.join().expect("an answer")).collect::<Vec<_>>()
        });
        let refused: Vec<_> = answers.iter().filter(|answer| answer.status == 503).collect();
        assert_eq!(refused.len(), 3, "{answers:?}");
        assert!(refused.iter().all(|answer| answer.header("retry-after") == Some("1")));
        assert!(refused.iter().all(|answer| answer.text().contains("in flight")), "{answers:?}");
        assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
        world.expect("stripe", &stripe("evt_after"), "accepted");
    }

    async fn a_source_may_name_where_its_requests_come_from(db: TestDatabase) {
        let elsewhere = "[[source]]\nname = \"elsewhere\"\nprovider = \"github\"\n\
            secrets = [{ value = \"s\" }]\nallow_from = [\"203.0.113.0/24\", \"2001:db8::/32\"]\n\n";
        let world = World::start_with(db, |mut setup| {
            setup.rest.insert_str(0, elsewhere);
            setup.server("trusted_proxies = 1")
        });
        let push = |hop: &str| {
            let signed = sender::github("s", "d-1", "push", &serde_json::json!({})).with_header("x-forwarded-for", hop);
            world.post("elsewhere", &signed)
        };
        // What is not from there is not even judged, nor what a sender merely claims about itself.
        for hop in ["203.0.114.1", "10.0.0.1", "2001:db9::1", "203.0.113.9, 198.51.100.7", "unknown"] {
            world.expect_nothing_stored(|| {
                let answer = push(hop);
                assert_eq!((answer.status, answer.header("connection")), (403, Some("close")), "{hop}");
                assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{hop}");
            });
        }
        for hop in ["203.0.113.9", "198.51.100.7, 203.0.113.9", "2001:db8::7"] {
            assert_eq!(push(hop).status, 200, "{hop}");
        }
        assert_eq!(world.db.count(&world.db.table("events")), 1);
        let page = http::get(world.program.admin_addr(), "/metrics", &[]).text();
        assert!(page.contains(r#"oncebox_rejections_total{source="elsewhere",reason="address"} 5"#), "{page}");
    }

    async fn a_length_alone_takes_nothing_from_the_byte_budget(db: TestDatabase) {
        let world = World::start_with(db, |setup| setup.server("in_flight_bytes = \"64KiB\""));
        let large = custom(format!(r#"{{"id":"large","pad":"{}"}}"#, "x".repeat(40_000)));
        let raw = large.raw("custom", world.addr());
        let head = raw.windows(4).position(|end| end == b"\r\n\r\n").expect("a head") + 4;
        let mut silent = Vec::new();
        for _ in 0..10 {
            let mut connection = Connection::open(world.addr()).expect("it listens");
            connection.send(&raw[..head]).expect("sent");
            assert!(is_kept_waiting(&mut connection));
            silent.push(connection);
        }
        world.expect("custom", &large, "accepted");
    }

    async fn connections_beyond_the_cap_are_answered_503(db: TestDatabase) {
        let world = World::start_with(db, |setup| setup.server("connections = 2"));
        let wire = |id: &str| custom(format!(r#"{{"id":"{id}"}}"#)).raw("custom", world.addr());
        let mut open: Vec<Connection> = ["first", "second"].map(|id| {
            let mut connection = Connection::open(world.addr()).expect("it listens");
            connection.send(&wire(id)).expect("sent");
            assert_eq!(connection.read_answer().expect("an answer").status, 200, "{id}");
            connection
        }).into();
        world.expect_nothing_stored(|| {
            let mut third = Connection::open(world.addr()).expect("the kernel connects");
            // It may be closed before all is sent; its answer comes all the same.
            let _ = third.send(&wire("third"));
            let answer = third.read_answer().expect("an answer");
            assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
            assert_eq!(answer.header("connection"), Some("close"));
            assert_eq!(answer.header("content-type"), Some("application/problem+json"));
            assert_eq!(answer.json()["status"], 503);
            assert!(third.is_closed_within(PATIENCE));
        });
        // Whoever is connected goes on, and a place that becomes free is given to the next.
        open[0].send(&wire("first")).expect("sent");
        assert_eq!(open[0].read_answer().expect("an answer").json()["status"], "duplicate");
        drop(open.pop());
        world.expect_stored(1, 1, || wait_until("a new one is served", PATIENCE, || {
            let mut third = Connection::open(world.addr()).expect("it listens");
            let _ = third.send(&wire("third"));
            third.read_answer().is_ok_and(|answer| answer.status == 200)
        }));
    }

    async fn a_spent_byte_budget_is_answered_503(db: TestDatabase) {
        let world = World::start_with(db, |setup| setup.server("in_flight_bytes = \"64KiB\""));
        let large = custom(format!(r#"{{"id":"large","pad":"{}"}}"#, "x".repeat(40_000)));
        let raw = large.raw("custom", world.addr());
        let (head, tail) = raw.split_at(raw.len() - 1);
        let other = custom(format!(r#"{{"id":"other","pad":"{}"}}"#, "y".repeat(40_000)));
        let mut slow = None;
        // Whoever comes second is refused, and that may be the slow one.
        crate::world::wait_until("the budget is spent", PATIENCE, || {
            let mut connection = Connection::open(world.addr()).expect("it listens");
            connection.send(head).expect("sent");
            let answer = world.post("custom", &other);
            let refused = answer.status == 503 && answer.header("retry-after").is_some();
            let holds = refused && is_kept_waiting(&mut connection);
            slow = Some(connection);
            holds
        });
        let mut slow = slow.expect("it was opened");
        // A small one still fits, and by chunks the budget counts too.
        world.expect("custom", &custom(r#"{"id":"tiny"}"#), "accepted");
        assert_eq!(post_chunked(&world, &custom(format!(r#"{{"pad":"{}"}}"#, "z".repeat(40_000))), 8000).status, 503);
        slow.send(tail).expect("sent");
        assert_eq!(slow.read_answer().expect("an answer").status, 200);
        assert_eq!(world.post("custom", &other).status, 200);
    }
}

/// Whether nobody refused the request that this connection has begun.
fn is_kept_waiting(connection: &mut Connection) -> bool {
    connection.set_read_timeout(Duration::from_secs(2)).expect("a timeout");
    let waits = connection.read_answer().is_err();
    connection.set_read_timeout(Duration::from_secs(30)).expect("a timeout");
    waits
}

/// Sends a body in chunks to a custom source of 64 KiB, or to the one without a limit of its own.
fn post_chunked(world: &World, signed: &Signed, chunk: usize) -> http::Answer {
    let source = if signed.body.len() > 50_000 { "small" } else { "custom" };
    let headers: Vec<_> = signed.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let mut headers = headers;
    headers.push(("transfer-encoding", "chunked"));
    let mut raw = http::encode(world.addr(), "POST", &format!("/in/{source}"), &headers, b"");
    for piece in signed.body.chunks(chunk) {
        raw.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        raw.extend_from_slice(piece);
        raw.extend_from_slice(b"\r\n");
    }
    raw.extend_from_slice(b"0\r\n\r\n");
    let mut connection = Connection::open(world.addr()).expect("it listens");
    // The server may refuse before it has read everything.
    let _ = connection.send(&raw);
    connection.read_answer().expect("an answer")
}
