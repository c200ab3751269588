//! The contract's identity table: what makes two requests one event, and what becomes of the others.

use serde_json::json;
use testkit::sender::{self, sha256_hex};
use testkit::{TestDatabase, contract};

use crate::world::{GITHUB, PATIENCE, SHOPIFY, STANDARD, STRIPE, SVIX, World, custom, github, now, stripe, wait_until};

contract! {
    async fn a_new_event_is_stored_whole_and_its_copies_are_duplicates(db: TestDatabase) {
        let world = World::start(db);
        let signed = stripe("evt_1");
        let key = world.expect_stored(1, 1, || world.expect("stripe", &signed, "accepted"));
        let event = world.event(&key);
        assert_eq!((event.source.as_str(), event.id.as_str(), event.kind.as_str()), ("stripe", "evt_1", "invoice.paid"));
        assert_eq!((event.state.as_str(), event.body_sha256), ("accepted", signed.body_sha256()));
        assert_eq!(world.body(&key), signed.body);
        assert_eq!(world.deliveries(&key), ["ready"]);
        world.expect_nothing_stored(|| {
            for _ in 0..3 {
                assert_eq!(world.expect("stripe", &signed, "duplicate"), key);
            }
            // Signed again at another second: other headers, same bytes.
            let later = sender::stripe_bytes(STRIPE, now() - 60, signed.body.clone());
            assert_eq!(world.expect("stripe", &later, "duplicate"), key);
        });
        wait_until("the arrivals are counted", PATIENCE, || world.arrivals(&key) == 5);
    }

    async fn a_signed_id_with_another_body_is_a_conflict(db: TestDatabase) {
        let world = World::start(db);
        let first = world.expect("stripe", &stripe("evt_1"), "accepted");
        let other = sender::stripe(STRIPE, now(), "evt_1", "invoice.paid", &json!({"amount": 7}));
        let counted = |times: usize| {
            let line = format!(r#"oncebox_arrivals_total{{source="stripe",result="conflict"}} {times}"#);
            wait_until(&line, PATIENCE, || world.metrics().lines().any(|found| found == line));
        };
        counted(0);
        let key = world.expect_stored(1, 0, || world.expect("stripe", &other, "conflict"));
        counted(1);
        assert_ne!(key, first);
        assert_eq!((world.event(&key).state.as_str(), world.body(&key)), ("conflict", other.body.clone()));
        assert_eq!(world.event(&first).state, "accepted");
        assert!(world.deliveries(&key).is_empty());
        world.expect_nothing_stored(|| {
            assert_eq!(world.expect("stripe", &other, "conflict"), key, "the same conflict again");
            assert_eq!(world.expect("stripe", &stripe("evt_1"), "duplicate"), first, "the original again");
        });
        let third = sender::stripe(STRIPE, now(), "evt_1", "invoice.paid", &json!({"amount": 8}));
        world.expect_stored(1, 0, || world.expect("stripe", &third, "conflict"));
        counted(3);
        wait_until("both are counted", PATIENCE, || world.arrivals(&key) == 2 && world.arrivals(&first) == 2);
    }

    async fn a_signed_id_in_a_header_conflicts_too(db: TestDatabase) {
        let world = World::start(db);
        for (source, sign) in [
            ("standard-webhooks", sender::standard_webhooks as fn(&str, i64, &str, &str, &serde_json::Value) -> _),
            ("svix", sender::svix),
        ] {
            let secret = if source == "svix" { SVIX } else { STANDARD };
            let first = sign(secret, now(), "msg_1", "user.created", &json!({"n": 1}));
            let other = sign(secret, now(), "msg_1", "user.created", &json!({"n": 2}));
            let key = world.expect(source, &first, "accepted");
            world.expect_stored(1, 0, || world.expect(source, &other, "conflict"));
            assert_eq!(world.expect(source, &first, "duplicate"), key);
            // Known bytes under a new signed id run, flagged.
            let repeated = sign(secret, now(), "msg_2", "user.created", &json!({"n": 1}));
            let key = world.expect_stored(1, 1, || world.expect(source, &repeated, "accepted"));
            let event = world.event(&key);
            assert_eq!((event.state.as_str(), event.reason.as_str()), ("accepted", "repeated_body"));
            assert_eq!(world.deliveries(&key), ["ready"]);
        }
    }

    async fn an_unsigned_id_with_another_body_is_a_new_event(db: TestDatabase) {
        let world = World::start(db);
        let first = world.expect("github", &github("d-1", &json!({"n": 1})), "accepted");
        let second = world.expect_stored(1, 1, || world.expect("github", &github("d-1", &json!({"n": 2})), "accepted"));
        assert_ne!(first, second);
        assert_eq!(world.event(&second).id, "d-1");
        world.expect_nothing_stored(|| {
            assert_eq!(world.expect("github", &github("d-1", &json!({"n": 1})), "duplicate"), first);
            assert_eq!(world.expect("github", &github("d-1", &json!({"n": 2})), "duplicate"), second);
        });
    }

    async fn a_known_body_under_a_new_unsigned_id_is_held(db: TestDatabase) {
        let world = World::start(db);
        let first = world.expect("github", &github("d-1", &json!({"n": 1})), "accepted");
        // By the digest alone: another event type does not make it another body.
        let body = json!({"n": 1}).to_string().into_bytes();
        let again = sender::github_bytes(GITHUB, "d-2", "issues", body);
        let key = world.expect_stored(1, 1, || world.expect("github", &again, "held"));
        assert_ne!(key, first);
        assert_eq!((world.event(&key).state.as_str(), world.event(&key).reason.as_str()), ("held", "repeated_body"));
        assert_eq!(world.deliveries(&key), ["held"]);
        world.expect_nothing_stored(|| assert_eq!(world.expect("github", &again, "duplicate"), key));

        // Shopify's topics may share one body, once they came with one of their own.
        let own = sender::shopify(SHOPIFY, "w-0", "orders/paid", &json!({"id": 819}));
        world.expect("shopify", &own, "accepted");
        let shopify = |id: &str, topic: &str| sender::shopify(SHOPIFY, id, topic, &json!({"id": 820}));
        world.expect("shopify", &shopify("w-1", "orders/create"), "accepted");
        world.expect_stored(1, 1, || world.expect("shopify", &shopify("w-2", "orders/paid"), "accepted"));
        let key = world.expect_stored(1, 1, || world.expect("shopify", &shopify("w-3", "orders/paid"), "held"));
        assert_eq!(world.event(&key).kind, "orders/paid");
        let key = world.expect("shopify", &shopify("w-4", "orders/invented"), "held");
        assert_eq!(world.event(&key).reason, "repeated_topic");
    }

    async fn an_id_that_cannot_be_used_is_held_under_the_digest(db: TestDatabase) {
        let world = World::start(db);
        for (body, reason) in [
            (&br#"{"type":"a"}"#[..], "no_id"),
            (br#"{"id":null}"#, "no_id"),
            (b"not json", "unreadable"),
            (b"", "unreadable"),
            (b"  \n ", "unreadable"),
            (b"\xef\xbb\xbf{\"id\":\"bom\"}", "unreadable"),
            (b"{\"id\":\"\xff\"}", "unreadable"),
            (br#"{"id":"a","id":"b"}"#, "ambiguous_id"),
            (br#"{"id":"a","id":"a"}"#, "ambiguous_id"),
            (br#"{"id":"a","\u0069d":"b"}"#, "ambiguous_id"),
            (br#"{"id":1.0}"#, "unusable_id"),
            (br#"{"id":1e3}"#, "unusable_id"),
            (br#"{"id":""}"#, "unusable_id"),
            (br#"{"id":{}}"#, "unusable_id"),
            (br#"{"id":["a"]}"#, "unusable_id"),
            (br#"{"id":true}"#, "unusable_id"),
            (br#"{"id":"a\u0000b"}"#, "unusable_id"),
            (br#"{"id":"\ud800"}"#, "unusable_id"),
        ] {
            let signed = custom(body);
            let shown = String::from_utf8_lossy(body);
            let key = world.expect("custom", &signed, "held");
            let event = world.event(&key);
            assert_eq!((event.state.as_str(), event.reason.as_str()), ("held", reason), "{shown}");
            assert_eq!(event.id, format!("body_{}", sha256_hex(body)), "{shown}");
            assert_eq!(world.body(&key), body, "{shown}");
            assert_eq!(world.deliveries(&key), ["held"], "{shown}");
            assert_eq!(world.expect("custom", &signed, "duplicate"), key, "{shown}");
        }
        let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(256));
        assert_eq!(world.event(&world.expect("custom", &custom(long), "held")).reason, "unusable_id");
        let longest = format!(r#"{{"id":"{}"}}"#, "x".repeat(255));
        world.expect("custom", &custom(longest), "accepted");
    }

    async fn a_batch_is_one_commit_of_many_events(db: TestDatabase) {
        let world = World::start(db);
        let body = r#"{"events": [ {"id": "a", "type":"x"},{"id":"b"}, {"id": "a", "type":"x"}, {"id":"a"} , 7]}"#;
        let answer = world.expect_stored(4, 3, || world.post("batch", &custom(body)));
        assert_eq!((answer.status, &answer.json()["status"]), (200, &json!("accepted")), "{}", answer.text());
        let events = answer.json()["events"].as_array().expect("a list").clone();
        let statuses: Vec<_> = events.iter().map(|event| event["status"].as_str().unwrap_or_default()).collect();
        assert_eq!(statuses, ["accepted", "accepted", "duplicate", "conflict", "held"]);
        let key = |index: usize| events[index]["key"].as_str().expect("a key");
        assert_eq!(key(0), key(2));
        assert!(answer.header("oncebox-key").is_some());
        for (index, own) in [(0, r#"{"id": "a", "type":"x"}"#), (1, r#"{"id":"b"}"#), (3, r#"{"id":"a"}"#), (4, "7")] {
            assert_eq!(world.body(key(index)), own.as_bytes());
            assert_eq!(world.event(key(index)).body_sha256, sha256_hex(own.as_bytes()));
        }
        assert_eq!((world.event(key(0)).kind.as_str(), world.event(key(0)).id.as_str()), ("x", "a"));

        let again = world.expect_nothing_stored(|| world.post("batch", &custom(body)));
        let words: Vec<_> = again.json()["events"].as_array().expect("a list").iter().map(|e| e["status"].clone()).collect();
        assert_eq!(words, ["duplicate", "duplicate", "duplicate", "conflict", "duplicate"]);
        // An empty list brings nothing: it is answered, and nothing is stored.
        let empty = world.expect_nothing_stored(|| world.post("batch", &custom(r#"{"events": []}"#)));
        assert_eq!(empty.status, 200, "{}", empty.text());
        // No list or no JSON: held whole.
        for odd in [r#"{"events": {}}"#, "{}", "x"] {
            let answer = world.expect_stored(1, 1, || world.post("batch", &custom(odd)));
            assert_eq!(answer.json()["status"], "held", "{odd}: {}", answer.text());
        }
    }

    async fn without_an_id_the_bytes_or_nothing_at_all_are_the_identity(db: TestDatabase) {
        let world = World::start(db);
        let key = world.expect_stored(1, 1, || world.expect("digest", &custom("ping"), "accepted"));
        assert_eq!(world.event(&key).id, format!("body_{}", sha256_hex(b"ping")));
        assert_eq!(world.expect("digest", &custom("ping"), "duplicate"), key);
        world.expect_stored(1, 1, || world.expect("digest", &custom("ping "), "accepted"));

        world.expect_stored(3, 3, || {
            let keys: std::collections::BTreeSet<_> =
                (0..3).map(|_| world.expect("none", &custom("ping"), "accepted")).collect();
            assert_eq!(keys.len(), 3, "every arrival is an event");
        });
    }

    async fn the_same_id_in_two_sources_is_two_events(db: TestDatabase) {
        let world = World::start(db);
        let signed = custom(r#"{"id":"same"}"#);
        let first = world.expect("custom", &signed, "accepted");
        let second = world.expect_stored(1, 1, || world.expect("large", &signed, "accepted"));
        assert_ne!(first, second);
        // Exact: no trimming, folding or normalising.
        world.expect_stored(5, 5, || {
            for id in ["Same", "same ", " same", "sa\u{301}me", "s\u{e1}me"] {
                world.expect("custom", &custom(format!(r#"{{"id":"{id}"}}"#)), "accepted");
            }
        });
    }
}
