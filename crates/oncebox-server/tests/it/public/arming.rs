//! Secrets that a handshake brings: taken once, only when armed, known on every node, and shown to nobody but the
//! operator who waited for one that must be typed in at the vendor.

use std::thread;

use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use testkit::http::{self, Answer};
use testkit::program::{Output, Program, run};
use testkit::sender::{self, Signed};
use testkit::{Backend, TestDatabase};

use crate::world::{BIN, PATIENCE, Setup, World, wait_until};

const HOOK_SECRET: &str = "canary-hook-b537207f20cb";
const NOTION_TOKEN: &str = "secret_canary-notion-4f1c";

testkit::contract! {
    async fn a_secret_is_taken_once_and_only_when_armed(db: TestDatabase) {
        let world = World::start_with(db, with_sources);
        world.expect_nothing_stored(|| assert_eq!(hello(world.addr(), HOOK_SECRET).status, 401));
        assert_eq!(arm(&world.program, &["dropbox"]).status, Some(2), "its secret does not arrive");
        assert_eq!(arm(&world.program, &["nobody"]).status, Some(2));
        let armed = arm(&world.program, &["asana"]);
        assert_eq!(armed.status, Some(0), "{armed:?}");

        let answer = hello(world.addr(), HOOK_SECRET);
        assert_eq!((answer.status, answer.header("x-hook-secret")), (200, Some(HOOK_SECRET)));
        world.expect_nothing_stored(|| assert_eq!(hello(world.addr(), "another").status, 401));
        wait_until("the source has the secret", PATIENCE, || world.post("asana", &asana(HOOK_SECRET)).status == 200);
        world.expect_401("asana", &asana("another"));
        assert_unseen(&world, HOOK_SECRET);
    }

    async fn an_arming_ends_by_itself_or_by_a_person(db: TestDatabase) {
        let world = World::start_with(db, with_sources);
        let ago = "update {table} set changed_at_ms = changed_at_ms - 601000";
        assert_eq!(arm(&world.program, &["asana"]).status, Some(0));
        world.db.execute(&ago.replace("{table}", &world.db.table("arrived_secrets")));
        // What this node knows is two seconds old at most.
        wait_until("ten minutes are over", PATIENCE, || hello_refused_unseen(&world));
        assert_eq!(arm(&world.program, &["asana"]).status, Some(0));
        let config = world.program.config_path();
        let disarm = |source: &str| {
            run(BIN, &["disarm", source, "--config", config.to_str().expect("text")], &[], world.program.dir())
        };
        assert_eq!(disarm("nobody").status, Some(2));
        let told = disarm("asana");
        assert_eq!((told.status, told.stdout.trim()), (Some(0), "asana takes no handshake's secret"), "{told:?}");
        assert_eq!(hello(world.addr(), HOOK_SECRET).status, 401);
        assert_eq!(arm(&world.program, &["asana"]).status, Some(0));
        assert_eq!(hello(world.addr(), HOOK_SECRET).status, 200);
        let log = http::get(world.program.admin_addr(), "/api/v1/actions", &[]).json();
        let kinds: Vec<&str> = log["items"].as_array().expect("rows").iter().map(|row| row["kind"].as_str().unwrap_or_default()).collect();
        assert_eq!(kinds, ["secret", "arm", "disarm", "arm", "arm"], "{log}");
        assert_eq!(log["items"][0]["who"], "a handshake from 127.0.0.1");
        assert!(world.program.log().lines().any(|line| line.contains("secret was taken") && line.contains("127.0.0.1")));
    }

    async fn who_waits_is_told_and_sees_only_what_must_be_typed_in(db: TestDatabase) {
        let world = World::start_with(db, with_sources);
        let waiting = arm_and_wait(&world, "asana", &["--wait"]);
        assert_eq!(hello(world.addr(), HOOK_SECRET).status, 200);
        let told = waiting.join().expect("it ends");
        assert_eq!((told.status, told.stdout.trim()), (Some(0), "the secret of asana arrived"), "{told:?}");

        let waiting = arm_and_wait(&world, "notion", &["--wait=60s", "--json"]);
        assert_eq!(verify(world.addr()).status, 200);
        assert_eq!(world.row_counts()["events"], 0, "a handshake is no event");
        let told = waiting.join().expect("it ends");
        let said: Value = serde_json::from_str(&told.stdout).expect("JSON");
        assert_eq!(said, json!({ "source": "notion", "armed": false, "secret": NOTION_TOKEN }));
        assert!(!told.stderr.contains(NOTION_TOKEN));
        world.expect("notion", &notion("n-1"), "accepted");

        let again = arm(&world.program, &["notion", "--wait=1s"]);
        assert_eq!(again.status, Some(1), "nothing came: {again:?}");
        assert!(again.stderr.contains("waiting up to 1s for the handshake of notion"), "{again:?}");
        assert!(again.stdout.contains("it stays armed") && !again.stdout.contains(NOTION_TOKEN), "{again:?}");
        world.expect("notion", &notion("n-2"), "accepted");
        assert_unseen(&world, NOTION_TOKEN);
        assert_unseen(&world, HOOK_SECRET);
        let pages = ["/api/v1/sources", "/api/v1/rejections", "/api/v1/stats", "/metrics"];
        for page in pages {
            let text = http::get(world.program.admin_addr(), page, &[]).text();
            assert!(!text.contains(NOTION_TOKEN) && !text.contains(HOOK_SECRET), "{page}");
        }
    }

    async fn only_the_operator_may_arm_and_wait(db: TestDatabase) {
        let world = World::start_with(db, |setup| {
            let setup = setup.server("admin_token = { value = \"the-operator-0001\" }").server("viewer_token = { value = \"a-viewer-00000001\" }");
            with_sources(setup)
        });
        let ask = |token: &str| {
            let token = format!("Bearer {token}");
            let headers = [("authorization", token.as_str())];
            http::post(world.program.admin_addr(), "/api/v1/sources/notion/arm?wait=1", &headers, b"")
        };
        for (token, status) in [("a-viewer-00000001", 403), ("", 401), ("wrong", 401)] {
            assert_eq!(ask(token).status, status, "{token}");
        }
        assert_eq!(verify(world.addr()).status, 401, "nobody armed");
        let answer = ask("the-operator-0001");
        assert_eq!((answer.status, answer.json()), (200, json!({ "source": "notion", "armed": true })));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let log = http::get(world.program.admin_addr(), "/api/v1/actions", &[("authorization", "Bearer the-operator-0001")]).json();
        let line = (&log["items"][0]["kind"], &log["items"][0]["filter"]["source"], log["items"].as_array().map(Vec::len));
        assert_eq!(line, (&json!("arm"), &json!("notion"), Some(1)), "{log}");
    }

    async fn straight_at_the_database_the_config_is_asked(db: TestDatabase) {
        let url = db.url().to_owned();
        let mut world = World::start_with(db, with_sources);
        let text = std::fs::read_to_string(world.program.config_path()).expect("the config");
        world.program.kill9();
        let folder = tempfile::tempdir().expect("a folder");
        let arm = |args: &[&str]| run(BIN, &[&["arm", "--database", &url], args].concat(), &[], folder.path());
        let without_key = text.replace("secret_key", "#secret_key");
        let weak = text.replace("Y2FuYXJ5LXN0b3JlLWtleS0wMTIzNDU2Nzg5YWJjZGVm", "canary-store-key");
        for (name, text) in [("whole.toml", &text), ("keyless.toml", &without_key), ("weak.toml", &weak)] {
            std::fs::write(folder.path().join(name), text).expect("written");
        }
        for (args, status, part) in [
            (&["asana", "--config", "whole.toml"][..], 0, ""),
            (&["asana"], 0, "note: without a config nobody can check"),
            (&["asana", "--wait"], 2, "needs the server's config too"),
            (&["asana", "--wait=2h"], 2, "ten minutes are the longest"),
            (&["nobody", "--config", "whole.toml"], 2, "the config has no source \"nobody\""),
            (&["dropbox", "--config", "whole.toml"], 2, "does not arrive by a handshake"),
            (&["asana", "--config", "keyless.toml"], 2, "no store.secret_key"),
            (&["asana", "--config", "weak.toml"], 2, "or a weak one"),
        ] {
            let output = arm(args);
            assert_eq!(output.status, Some(status), "{args:?}: {output:?}");
            assert!(output.stderr.contains(part), "{args:?}: {output:?}");
        }
        // A server that comes later finds the source armed, and who waits beside it is told.
        world.program.restart();
        let waiting = thread::scope(|scope| {
            let waiting = scope.spawn(|| arm(&["notion", "--config", "whole.toml", "--wait=60s"]));
            wait_until("notion is armed", PATIENCE, || is_armed(&world.db, "notion"));
            assert_eq!(verify(world.addr()).status, 200);
            waiting.join().expect("it ends")
        });
        assert_eq!(waiting.status, Some(0), "{waiting:?}");
        assert!(waiting.stdout.contains(NOTION_TOKEN), "{waiting:?}");
        assert_eq!(hello(world.addr(), HOOK_SECRET).status, 200);
    }
}

#[test]
fn what_one_node_took_every_node_knows() {
    let db = TestDatabase::fresh(Backend::Postgres);
    let url = db.url().to_owned();
    let world = World::start_with(db, with_sources);
    let second = with_sources(Setup::new(&url)).serve();
    let waiting = arm_and_wait(&world, "notion", &["--wait"]);
    assert_eq!(verify(second.public_addr()).status, 200, "the handshake goes to the other node");
    let told = waiting.join().expect("it ends");
    assert!(told.status == Some(0) && told.stdout.contains(NOTION_TOKEN), "{told:?}");
    world.expect("notion", &notion("n-1"), "accepted");
    assert_eq!(notion("n-2").post(second.public_addr(), "notion").status, 200);
    assert_eq!(verify(world.addr()).status, 401, "it is taken once over all nodes");

    assert_eq!(arm(&world.program, &["asana"]).status, Some(0));
    assert_eq!(hello(world.addr(), HOOK_SECRET).status, 200);
    let learned = || asana(HOOK_SECRET).post(second.public_addr(), "asana").status == 200;
    wait_until("the second node has learned it", PATIENCE, learned);
    let third = with_sources(Setup::new(&url)).serve();
    assert_eq!(asana(HOOK_SECRET).post(third.public_addr(), "asana").status, 200, "a node that starts knows it");
    for node in [&world.program, &second, &third] {
        assert!(!node.log().contains(HOOK_SECRET) && !node.log().contains(NOTION_TOKEN));
    }
}

fn with_sources(mut setup: Setup) -> Setup {
    setup.store.push_str("secret_key = { value = \"Y2FuYXJ5LXN0b3JlLWtleS0wMTIzNDU2Nzg5YWJjZGVm\" }\n");
    for (name, keys) in [("asana", ""), ("notion", ""), ("dropbox", "secrets = [{ value = \"s\" }]\n")] {
        setup.rest.push_str(&format!("[[source]]\nname = \"{name}\"\nprovider = \"{name}\"\n{keys}"));
    }
    setup
}

fn arm(program: &Program, args: &[&str]) -> Output {
    let config = program.config_path();
    let args = [&["arm", "--config", config.to_str().expect("text")], args].concat();
    run(BIN, &args, &[], program.dir())
}

/// Runs `arm` beside the test and returns once the source is armed.
fn arm_and_wait(world: &World, source: &str, args: &[&str]) -> thread::JoinHandle<Output> {
    let (config, dir) = (world.program.config_path(), world.program.dir().to_owned());
    let config = config.to_str().expect("text").to_owned();
    let args: Vec<String> = ["arm", source, "--config", &config].iter().chain(args).map(ToString::to_string).collect();
    let waiting = thread::spawn(move || {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        run(BIN, &args, &[], dir)
    });
    wait_until("the source is armed", PATIENCE, || is_armed(&world.db, source));
    waiting
}

fn is_armed(db: &TestDatabase, source: &str) -> bool {
    let sql = format!("select armed from {} where source = '{source}'", db.table("arrived_secrets"));
    db.query(&sql).first().is_some_and(|row| row[0] == "1")
}

/// Neither the log nor the database shows it.
fn assert_unseen(world: &World, secret: &str) {
    assert!(!world.program.log().contains(secret));
    let kept = format!("{:?}", world.db.query(&format!("select * from {}", world.db.table("arrived_secrets"))));
    assert!(!kept.contains(secret) && !kept.contains(&HEXLOWER.encode(secret.as_bytes())));
}

/// Whether a handshake is refused and its secret was not taken.
fn hello_refused_unseen(world: &World) -> bool {
    let sealed = format!("select count(*) from {} where sealed is not null", world.db.table("arrived_secrets"));
    let refused = hello(world.addr(), "a-stranger").status == 401;
    assert_eq!(world.db.query(&sealed), [["0"]], "nothing is taken after its time");
    refused
}

fn hello(addr: &str, secret: &str) -> Answer {
    http::post(addr, "/in/asana", &[("x-hook-secret", secret)], b"{}")
}

fn verify(addr: &str) -> Answer {
    http::post(addr, "/in/notion", &[], format!(r#"{{"verification_token":"{NOTION_TOKEN}"}}"#).as_bytes())
}

fn asana(secret: &str) -> Signed {
    let body = br#"{"events":[{"user":{"gid":"1"},"resource":{"gid":"2","resource_type":"task"},"action":"added","created_at":"2026-01-01T00:00:00Z"}]}"#;
    let signature = HEXLOWER.encode(&sender::hmac_sha256(secret.as_bytes(), &[body]));
    Signed { headers: vec![("x-hook-signature".to_owned(), signature)], body: body.to_vec() }
}

fn notion(id: &str) -> Signed {
    let body = json!({ "id": id, "type": "page.created" }).to_string().into_bytes();
    let signature = HEXLOWER.encode(&sender::hmac_sha256(NOTION_TOKEN.as_bytes(), &[&body]));
    Signed { headers: vec![("x-notion-signature".to_owned(), format!("sha256={signature}"))], body }
}
