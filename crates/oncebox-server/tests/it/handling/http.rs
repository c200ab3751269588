//! Handlers of kind `http`, against an application of the test's own.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use testkit::receiver::{Receiver, Reply};
use testkit::{TestDatabase, contract};

use super::{HASTY, LEDGER, delivery, effects, event, send, start, wait_for_states};
use crate::world::{PATIENCE, custom, wait_until};

fn handler(receiver: &Receiver, rest: &str) -> String {
    format!(
        "[[handler]]\nname = \"app\"\nsources = [\"custom\"]\nlease = \"40s\"\n\
         http = {{ url = \"{}\", timeout = \"10s\", secret = {{ value = \"whsec_Y2FuYXJ5LWFwcC0xMjM0\" }} }}\n{rest}",
        receiver.url()
    )
}

contract! {
    async fn the_application_gets_the_bytes_and_our_headers(db: TestDatabase) {
        let receiver = Receiver::start();
        let world = start(db, &handler(&receiver, HASTY));
        let mut signed = custom(" {\"id\": \"evt_1\",\n\"type\":\"x\"} ");
        signed.headers.push(("x-vendor".to_owned(), "kept".to_owned()));
        signed.headers.push(("authorization".to_owned(), "Bearer hidden".to_owned()));
        let key = world.expect("custom", &signed, "accepted");
        wait_for_states(&world, "app", &["done"]);
        let calls = receiver.calls();
        assert_eq!(calls.len(), 1, "{calls:?}");
        let call = &calls[0];
        assert_eq!((call.path.as_str(), &call.body), ("/hooks", &signed.body));
        assert_eq!(call.header("webhook-id"), Some(key.as_str()));
        assert_eq!(call.header("oncebox-attempt"), Some("1"));
        assert_eq!(call.header("x-vendor"), Some("kept"));
        assert_eq!(call.header("authorization"), None);
        let time = call.header("webhook-timestamp").expect("a time");
        let message = [key.as_bytes(), b".", time.as_bytes(), b".", &signed.body];
        let signature = testkit::sender::hmac_sha256(b"canary-app-1234", &message);
        let expected = format!("v1,{}", data_encoding::BASE64.encode(&signature));
        assert_eq!(call.header("webhook-signature"), Some(expected.as_str()));
    }

    async fn every_failure_is_tried_again_under_the_same_key(db: TestDatabase) {
        let receiver = Receiver::start_with(|call| match call.header("oncebox-attempt") {
            Some("1") => Reply::Status(400),
            Some("2") => Reply::Reset,
            _ => Reply::Status(204),
        });
        let world = start(db, &handler(&receiver, HASTY));
        send(&world, 0..5);
        wait_for_states(&world, "app", &["done"]);
        let calls = receiver.calls();
        assert_eq!(calls.len(), 15);
        let keys: BTreeSet<_> = calls.iter().map(|call| call.header("idempotency-key").expect("a key")).collect();
        assert_eq!(keys.len(), 5, "one key for each event, over all attempts");
        assert_eq!(delivery(&world, "app", "evt_3").1, 3);
    }

    async fn what_always_fails_is_dead_and_delays_nobody(db: TestDatabase) {
        let receiver = Receiver::start_with(|call| {
            if call.text().contains("evt_2\"") { Reply::With(302, "location", "http://127.0.0.1:1/".to_owned()) } else { Reply::Hang }
        });
        let world = start(db, &format!("{LEDGER}{}", handler(&receiver, HASTY).replace("\"10s\"", "\"1s\"")));
        send(&world, 0..4);
        wait_for_states(&world, "ledger", &["done"]);
        assert_ne!(delivery(&world, "app", "evt_3").0, "dead", "the other handler waited for this one");
        wait_for_states(&world, "app", &["dead"]);
        for (id, word) in [("evt_2", "302"), ("evt_3", "in time")] {
            let (state, attempt, error) = delivery(&world, "app", id);
            assert_eq!((state.as_str(), attempt), ("dead", 3), "{id}");
            assert!(error.contains(word), "{error}");
        }
        assert_eq!(effects(&world), (4, 4));
        assert_eq!(receiver.calls().len(), 12);
    }

    async fn the_application_says_when_to_come_back(db: TestDatabase) {
        let receiver = Receiver::start_with(|call| match call.header("oncebox-attempt") {
            Some("1") => Reply::With(503, "retry-after", "2".to_owned()),
            _ => Reply::Status(200),
        });
        let world = start(db, &handler(&receiver, HASTY));
        let sent = Instant::now();
        world.expect("custom", &event(1), "accepted");
        wait_for_states(&world, "app", &["done"]);
        assert!(sent.elapsed() >= Duration::from_secs(2), "it came back after {:?}", sent.elapsed());
    }

    async fn an_application_that_is_away_costs_few_attempts(db: TestDatabase) {
        let receiver = Receiver::start_with(|_| Reply::Status(503));
        let world = start(db, &handler(&receiver, "concurrency = 2\nretry = { attempts = 100, base = \"1ms\", cap = \"1ms\" }\n"));
        send(&world, 0..4);
        wait_until("the circuit is open", PATIENCE, || receiver.calls().len() >= 16);
        let (calls, since) = (receiver.calls().len(), Instant::now());
        wait_until("a probe was made", PATIENCE, || receiver.calls().len() > calls + 2);
        assert!(since.elapsed() > Duration::from_secs(1), "three probes came within {:?}", since.elapsed());
        receiver.behave(|_| Reply::Status(200));
        wait_for_states(&world, "app", &["done"]);
    }
}
