//! Handshakes against the running program: answered as the vendor wants, and nothing is stored.

use data_encoding::HEXLOWER;
use testkit::TestDatabase;
use testkit::http::{self, Answer};
use testkit::program::run;
use testkit::sender::Signed;

use crate::world::{BIN, PATIENCE, Setup, World, wait_until};

const HOOK_SECRET: &str = "canary-hook-b537207f20cb";

testkit::contract! {
    async fn unsigned_checks_are_answered_and_not_stored(db: TestDatabase) {
        let world = World::start_with(db, with_sources);
        let ask = |method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
            world.expect_nothing_stored(|| asked(&world, method, path, headers, body))
        };
        let answer = ask("GET", "/in/dropbox?challenge=abc", &[], "");
        assert_eq!((answer.status, answer.text().as_str()), (200, "abc"));
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let answer = ask("GET", "/in/meta?hub.mode=subscribe&hub.verify_token=agreed&hub.challenge=7", &[], "");
        assert_eq!((answer.status, answer.text().as_str()), (200, "7"));
        assert_eq!(ask("GET", "/in/meta?hub.mode=subscribe&hub.verify_token=no&hub.challenge=7", &[], "").status, 401);
        let answer = ask("OPTIONS", "/in/grid", &[("webhook-request-origin", "eventgrid.azure.net")], "");
        assert_eq!((answer.status, answer.header("webhook-allowed-origin")), (200, Some("eventgrid.azure.net")));
        assert_eq!(ask("HEAD", "/in/trello", &[], "").status, 200);
        assert_eq!(ask("GET", "/in/x?crc_token=abc", &[], "").json()["response_token"].as_str().map(|text| &text[..7]), Some("sha256="));
        assert_eq!(ask("GET", "/in/x?crc_token=%7B%7D", &[], "").status, 401, "no event is signed for strangers");
        assert_eq!(ask("POST", "/in/zoom", &[], r#"{"event":"endpoint.url_validation","payload":{"plainToken":"a"}}"#).status, 401);
        assert_eq!(ask("PUT", "/in/dropbox?challenge=abc", &[], "").status, 405);
    }

    async fn a_secret_is_taken_once_and_only_when_armed(db: TestDatabase) {
        let world = World::start_with(db, with_sources);
        let hello = |secret: &str| asked(&world, "POST", "/in/asana", &[("x-hook-secret", secret)], "{}");
        world.expect_nothing_stored(|| assert_eq!(hello(HOOK_SECRET).status, 401));
        let config = world.program.config_path();
        let config = config.to_str().expect("text");
        let arm = |source: &str| run(BIN, &["arm", source, "--config", config], &[], world.program.dir());
        assert_eq!(arm("dropbox").status, Some(2), "its secret does not arrive");
        assert_eq!(arm("nobody").status, Some(2));
        let armed = arm("asana");
        assert_eq!(armed.status, Some(0), "{armed:?}");

        let answer = hello(HOOK_SECRET);
        assert_eq!((answer.status, answer.header("x-hook-secret")), (200, Some(HOOK_SECRET)));
        world.expect_nothing_stored(|| assert_eq!(hello("another").status, 401));
        let event = signed(HOOK_SECRET);
        wait_until("the source has the secret", PATIENCE, || world.post("asana", &event).status == 200);
        world.expect_401("asana", &signed("another"));
        assert!(!world.program.log().contains(HOOK_SECRET));
        let kept = world.db.query(&format!("select * from {}", world.db.table("arrived_secrets")));
        assert!(!format!("{kept:?}").contains(HOOK_SECRET) && !format!("{kept:?}").contains(&HEXLOWER.encode(HOOK_SECRET.as_bytes())));
    }
}

fn with_sources(mut setup: Setup) -> Setup {
    setup.store.push_str("secret_key = { value = \"canary-store-key\" }\n");
    for (name, provider, keys) in [
        ("asana", "asana", ""),
        ("dropbox", "dropbox", SECRET),
        ("grid", "azure-event-grid", SECRET),
        ("meta", "meta-whatsapp", "secrets = [{ value = \"s\" }]\nverify_token = \"agreed\"\n"),
        ("trello", "trello", SECRET),
        ("x", "x-twitter", SECRET),
        ("zoom", "zoom", SECRET),
    ] {
        setup.rest.push_str(&format!("[[source]]\nname = \"{name}\"\nprovider = \"{provider}\"\n{keys}"));
    }
    setup
}

const SECRET: &str = "secrets = [{ value = \"s\" }]\n";

fn asked(world: &World, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    http::request(world.addr(), method, path, headers, body.as_bytes()).expect("an answer")
}

fn signed(secret: &str) -> Signed {
    let body = br#"{"events":[{"user":{"gid":"1"},"resource":{"gid":"2","resource_type":"task"},"action":"added","created_at":"2026-01-01T00:00:00Z"}]}"#;
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    let signature = HEXLOWER.encode(ring::hmac::sign(&key, body).as_ref());
    Signed { headers: vec![("x-hook-signature".to_owned(), signature)], body: body.to_vec() }
}
