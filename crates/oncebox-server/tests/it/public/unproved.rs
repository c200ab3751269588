//! Whoever has proved nothing takes nothing from the others: no body is read in vain, and slow ones hold no place.

use std::thread;
use std::time::Duration;

use testkit::http::{self, Connection};
use testkit::sender::{self, Signed};
use testkit::{TestDatabase, contract};

use crate::world::{GITHUB, PATIENCE, STRIPE, World, custom, github, now, stripe, wait_until};

const SLOW: usize = 40;

contract! {
    async fn a_body_is_not_read_where_the_head_tells_enough(db: TestDatabase) {
        let world = World::start(db);
        let full = world.post("custom", &Signed { headers: Vec::new(), body: b"{}".to_vec() });
        assert_eq!(full.status, 401);
        let old = sender::stripe_bytes(STRIPE, now() - 86_400, b"{}".to_vec());
        let late = sender::stripe_bytes(STRIPE, now() + 86_400, b"{}".to_vec());
        let malformed = Signed { headers: vec![("x-hub-signature-256".into(), "sha256=zz".into())], body: Vec::new() };
        let wrong_token = Signed { headers: vec![("x-token".into(), "no".into())], body: Vec::new() };
        let bare = Signed { headers: Vec::new(), body: Vec::new() };
        let cases: Vec<(&str, &Signed)> =
            ["stripe", "github", "shopify", "slack", "twilio", "standard-webhooks", "svix", "custom", "token"]
                .into_iter().map(|source| (source, &bare))
                .chain([("stripe", &old), ("stripe", &late), ("github", &malformed), ("token", &wrong_token)]).collect();
        world.expect_nothing_stored(|| {
            for (source, signed) in cases {
                let mut connection = Connection::open(world.addr()).expect("it listens");
                connection.send(&head(&world, source, signed, 500_000)).expect("sent");
                connection.set_read_timeout(PATIENCE).expect("a timeout");
                let answer = connection.read_answer().unwrap_or_else(|error| panic!("{source}: {error}"));
                assert_eq!((answer.status, &answer.body), (401, &full.body), "{source}");
                assert!(connection.is_closed_within(PATIENCE), "{source}: nothing more is read here");
            }
        });
        let metrics = world.metrics();
        for line in [
            r#"oncebox_rejections_total{source="github",reason="malformed_signature"} 1"#,
            r#"oncebox_rejections_total{source="stripe",reason="too_old"} 1"#,
            r#"oncebox_rejections_total{source="stripe",reason="too_new"} 1"#,
            r#"oncebox_rejections_total{source="token",reason="mismatch"} 1"#,
        ] {
            assert!(metrics.contains(line), "{line} is not in\n{metrics}");
        }
        world.expect("stripe", &stripe("evt_after"), "accepted");
    }

    async fn bodies_that_never_end_stop_nobody_else(db: TestDatabase) {
        let world = World::start_with(db, |setup| setup.server("in_flight_bytes = \"32MiB\""));
        // Forged, but of the right form, and each lacks its last byte: two of them and two small ones are all there is.
        let forged = |source: &str, bytes: usize| {
            let mut signed = custom("{}");
            signed.body = vec![b'x'; bytes];
            let wire = signed.raw(source, world.addr());
            let mut connection = Connection::open(world.addr()).expect("it listens");
            // It may be refused before all is sent.
            let _ = connection.send(&wire[..wire.len() - 1]);
            connection
        };
        let held = [("large", 15 << 20), ("large", 15 << 20), ("custom", 1 << 20), ("custom", 1 << 20)]
            .map(|(source, bytes)| forged(source, bytes));
        // What the kernel has taken, the server reads within a moment.
        thread::sleep(Duration::from_secs(1));
        for number in 0..5 {
            world.expect("stripe", &stripe(&format!("evt_{number}")), "accepted");
            world.expect("github", &github(&format!("d-{number}"), &serde_json::json!({ "n": number })), "accepted");
        }
        drop(held);
        let large = custom(format!(r#"{{"id":"large","pad":"{}"}}"#, "x".repeat(15 << 20)));
        wait_until("the bytes are given back", PATIENCE, || world.post("large", &large).status == 200);
    }

    async fn slow_bodies_hold_no_place_of_others(db: TestDatabase) {
        let world = World::start_with(db, |setup| setup.server("in_flight = 8"));
        let push = github("d-slow", &serde_json::json!({}));
        let wire = push.raw("github", world.addr());
        let slow: Vec<Connection> = (0..SLOW).map(|_| {
            let mut connection = Connection::open(world.addr()).expect("it listens");
            connection.send(&wire[..wire.len() - 1]).expect("sent");
            connection
        }).collect();
        // They are being read by now, and nobody is in the way of whoever sends all at once.
        for number in 0..20 {
            world.expect("stripe", &stripe(&format!("evt_{number}")), "accepted");
            thread::sleep(Duration::from_millis(20));
        }
        for (number, mut connection) in slow.into_iter().enumerate() {
            connection.send(&wire[wire.len() - 1..]).expect("sent");
            let answer = connection.read_answer().expect("an answer");
            assert!(answer.status == 200, "{number}: {}", answer.text());
        }
    }

    async fn few_bodies_may_be_slow_at_once(db: TestDatabase) {
        // Half of the connections may read slowly, and an address gets half of that.
        let world = World::start_with(db, |setup| setup.server("connections = 16"));
        let wire = sender::github(GITHUB, "d-1", "push", &serde_json::json!({})).raw("github", world.addr());
        let mut slow: Vec<Connection> = (0..12).map(|_| {
            let mut connection = Connection::open(world.addr()).expect("it listens");
            connection.send(&wire[..wire.len() - 1]).expect("sent");
            connection.set_read_timeout(PATIENCE).expect("a timeout");
            connection
        }).collect();
        let answers: Vec<u16> = slow.iter_mut().map(|one| one.read_answer().expect("an answer").status).collect();
        assert_eq!(answers, [408; 12], "whoever got a place keeps no rate, the others had none");
        let metrics = world.metrics();
        assert!(metrics.contains(r#"oncebox_rejections_total{source="github",reason="too_slow"} 12"#), "{metrics}");
        assert_eq!(http::get(world.addr(), "/healthz", &[]).status, 200);
    }
}

/// The head of a request that declares a body of so many bytes.
fn head(world: &World, source: &str, signed: &Signed, length: usize) -> Vec<u8> {
    let mut text = format!("POST /in/{source} HTTP/1.1\r\nhost: {}\r\ncontent-length: {length}\r\n", world.addr());
    for (name, value) in &signed.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    (text + "\r\n").into_bytes()
}
