//! Every vendor's check of the URL against the running program: answered to the byte as the vendor wants, refused like
//! any stranger where it is not right, and nothing of it is stored.

mod asks;

use testkit::TestDatabase;
use testkit::http::{self, Answer};

use crate::world::{Setup, World};
use asks::{Ask, SECRET, dropbox_sign, hex, pings, refused, signed_and_answered, unsigned_and_answered};

testkit::contract! {
    async fn every_handshake_is_answered_as_its_vendor_wants(db: TestDatabase) {
        let world = World::start_with(db, with_sources);
        for (ask, reply) in unsigned_and_answered().into_iter().chain(signed_and_answered()) {
            let answer = world.expect_nothing_stored(|| asked(&world, &ask));
            let expected = reply.headers.iter().map(|(name, value)| format!("{name}: {value}"));
            let expected: Vec<String> = expected.chain([format!("content-type: {}", reply.content_type)]).collect();
            assert_eq!((answer.status, answer.text().as_str()), (200, reply.body.as_str()), "{ask:?}");
            assert_eq!(own_headers(&answer), sorted(expected), "{ask:?}");
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{ask:?}");
        }
    }

    async fn what_is_not_right_is_refused_like_any_stranger(db: TestDatabase) {
        let world = World::start_with(db, with_sources);
        let stranger = asked(&world, &Ask::new("POST", "stripe", "").body("{}"));
        assert_eq!((stranger.status, stranger.header("content-type")), (401, Some("application/problem+json")));
        for ask in refused() {
            let answer = world.expect_nothing_stored(|| asked(&world, &ask));
            assert_eq!(answer.status, 401, "{ask:?}: {}", answer.text());
            if ask.method != "HEAD" {
                assert_eq!(answer.text(), stranger.text(), "{ask:?}");
            }
            assert_eq!(own_headers(&answer), own_headers(&stranger), "{ask:?}");
        }
    }

    async fn methods_are_open_only_where_a_vendor_needs_them(db: TestDatabase) {
        let world = World::start_with(db, with_sources);
        for (source, methods) in [
            ("stripe", "POST"),
            ("slack", "POST"),
            ("zoom", "POST"),
            ("monday", "POST"),
            ("microsoft-graph", "POST"),
            ("dropbox", "POST, GET"),
            ("meta-whatsapp", "POST, GET"),
            ("okta", "POST, GET"),
            ("x-twitter", "POST, GET"),
            ("braintree", "POST, GET"),
            ("trello", "POST, HEAD"),
            ("mandrill", "POST, HEAD"),
            ("azure-event-grid", "POST, OPTIONS"),
            ("cloudevents-webhook", "POST, OPTIONS"),
        ] {
            for method in ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"] {
                if methods.split(", ").any(|open| open == method) {
                    continue;
                }
                // What would be answered by the right method.
                let ask = Ask::new(method, source, "?challenge=a&crc_token=a&validationToken=a");
                let answer = world.expect_nothing_stored(|| asked(&world, &ask));
                assert_eq!((answer.status, answer.header("allow")), (405, Some(methods)), "{ask:?}");
            }
        }
    }

    async fn a_test_event_is_acknowledged_in_the_vendors_words(db: TestDatabase) {
        let world = World::start_with(db, with_sources);
        let answer = world.expect_stored(1, 1, || asked(&world, &dropbox_sign()));
        assert_eq!((answer.status, answer.text().as_str()), (200, "Hello API Event Received"));
        let status = (answer.header("content-type"), answer.header("oncebox-status"));
        assert_eq!(status, (Some("text/plain; charset=utf-8"), Some("accepted")));
        assert!(answer.header("oncebox-key").is_some());
    }

    async fn pings_are_events_like_any_other(db: TestDatabase) {
        let world = World::start_with(db, with_sources);
        for (source, ping, kind) in pings() {
            let key = world.expect_stored(1, 1, || world.expect(source, &ping, "accepted"));
            assert_eq!(world.event(&key).kind, kind, "{source}");
            world.expect_nothing_stored(|| world.expect(source, &ping, "duplicate"));
        }
    }
}

/// A source for each vendor, named by its slug.
fn with_sources(mut setup: Setup) -> Setup {
    let shared = format!("secrets = [{{ value = \"{SECRET}\" }}]\n");
    let discord = hex(ring::signature::KeyPair::public_key(&asks::discord_key()).as_ref());
    let sns = format!("topic_arn = \"{}\"\nsecrets = [{{ value = '''{}''' }}]\n", asks::TOPIC, asks::SNS_CERTIFICATE);
    for (provider, keys) in [
        ("aws-sns", sns),
        ("braintree", format!("{shared}public_key = \"our_public_key\"\n")),
        ("discord-interactions", format!("secrets = [{{ value = \"{discord}\" }}]\n")),
        ("mailchimp", "path_token = { value = \"path-token-000001\" }\n".to_owned()),
        ("meta-whatsapp", format!("{shared}verify_token = \"agreed\"\n")),
    ] {
        setup.rest.push_str(&format!("[[source]]\nname = \"{provider}\"\nprovider = \"{provider}\"\n{keys}"));
    }
    for provider in [
        "azure-event-grid",
        "cloudevents-webhook",
        "dropbox",
        "dropbox-sign",
        "figma",
        "intercom",
        "line",
        "mandrill",
        "microsoft-graph",
        "monday",
        "okta",
        "pagerduty-v3",
        "trello",
        "twitch-eventsub",
        "woocommerce",
        "x-twitter",
        "xero",
        "zoom",
    ] {
        setup.rest.push_str(&format!("[[source]]\nname = \"{provider}\"\nprovider = \"{provider}\"\n{shared}"));
    }
    setup
}

fn asked(world: &World, ask: &Ask) -> Answer {
    let headers: Vec<(&str, &str)> = ask.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let target = format!("/in/{}{}", ask.source, ask.rest);
    http::request(world.addr(), ask.method, &target, &headers, &ask.body).expect("an answer")
}

/// The headers that are not those of any answer.
fn own_headers(answer: &Answer) -> Vec<String> {
    let every = ["date", "content-length", "connection", "x-content-type-options"];
    let own = answer.headers.iter().filter(|(name, _)| !every.contains(&name.as_str()));
    sorted(own.map(|(name, value)| format!("{name}: {value}")).collect())
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}
