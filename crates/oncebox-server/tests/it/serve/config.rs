//! What the program says about its config, what it refuses, and what it never shows.

use std::fs;

use serde_json::json;
use testkit::http;
use testkit::postgres::{Cluster, Options};
use testkit::program::{Output, run};
use testkit::sender::{self, Signed};
use testkit::{TestDatabase, contract};

use crate::world::{
    BIN, PATIENCE, SECRETS, SLACK, STANDARD, SVIX, Setup, TOKEN, TWILIO, TWILIO_URL, World, custom, github, now,
    stripe, wait_until,
};

const MISTAKES: &str = r#"[server]
lisen = "127.0.0.1:1"
in_flight = 0
[store]
url = "mysql://u:hunter2@h/d"
[[source]]
name = "stripe"
provider = "strip"
secrets = [{ value = "hunter2-secret" }]
[[source]]
name = "standard"
provider = "standard-webhooks"
secrets = [{ value = "whsec_hunter2-not-base64" }]
"#;

#[test]
fn five_mistakes_are_five_lines_with_place_and_cure() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    fs::write(dir.path().join("bad.toml"), MISTAKES).expect("it can be written");
    let check = |output: &Output| {
        assert_eq!(output.status, Some(2), "{output:?}");
        let lines: Vec<&str> = output.stderr.lines().filter(|line| line.starts_with("bad.toml:")).collect();
        assert_eq!(lines.len(), 5, "{}", output.stderr);
        for (line, (place, cure)) in lines.iter().zip([
            ("2:1: server.lisen: ", "did you mean listen?"),
            ("3:1: server.in_flight: ", "write a value from 1 to 65536"),
            ("5:1: store.url: ", "write \"sqlite:oncebox.db\""),
            ("8:1: source.stripe.provider: ", "did you mean \"stripe\"?"),
            ("13:1: source.standard.secrets", "copy it again in full"),
        ]) {
            let rest = line.strip_prefix("bad.toml:").unwrap_or_default();
            assert!(rest.starts_with(place) && rest.contains(cure), "{line}");
        }
        assert!(output.stderr.contains("5 problems in bad.toml"));
        assert!(!format!("{output:?}").contains("hunter2"), "{output:?}");
    };
    check(&run(BIN, &["check", "--config", "bad.toml"], &[], dir.path()));
    check(&run(BIN, &["serve", "--config", "bad.toml"], &[], dir.path()));
    let missing = run(BIN, &["check", "--config", "none.toml"], &[], dir.path());
    assert_eq!(missing.status, Some(2), "{missing:?}");
    fs::write(dir.path().join("good.toml"), Setup::new("sqlite:oncebox.db").text()).expect("it can be written");
    let good = run(BIN, &["check", "--config", "good.toml"], &[], dir.path());
    assert_eq!(good.status, Some(0), "{good:?}");
    assert!(!dir.path().join("oncebox.db").exists(), "check changes nothing");
    assert!(SECRETS.iter().all(|secret| !format!("{good:?}").contains(secret)));
}

#[test]
fn an_admin_listener_beyond_loopback_needs_a_token() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    fs::write(dir.path().join("oncebox.toml"), "[server]\nadmin_listen = \"0.0.0.0:0\"\n").expect("it can be written");
    for command in ["serve", "check"] {
        let output = run(BIN, &[command], &[], dir.path());
        assert_eq!(output.status, Some(2), "{output:?}");
        assert!(output.stderr.contains("oncebox.toml:2:1") && output.stderr.contains("needs a token"), "{output:?}");
    }
    let blank = run(BIN, &["check"], &[("ONCEBOX_ADMIN_TOKEN", " ")], dir.path());
    assert_eq!(blank.status, Some(2), "a blank token counts as none: {blank:?}");
}

#[test]
fn a_log_filter_that_says_nothing_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    for (arguments, envs, word) in [
        (&["check"][..], &[("ONCEBOX_LOG", "warning")][..], "\"warning\" is not a level; use error, warn, info"),
        (&["check", "--log", "bogus=,="], &[], "\"bogus=\" is not a level"),
    ] {
        let output = run(BIN, arguments, envs, dir.path());
        assert!(output.status == Some(2) && output.stderr.contains(word), "{output:?}");
    }
}

#[test]
fn a_database_that_does_not_flush_is_refused() {
    for setting in ["fsync=off", "synchronous_commit=off"] {
        let cluster = Cluster::start(Options::default().setting(setting));
        let db = TestDatabase::fresh_on(&cluster);
        let mut setup = Setup::new(db.url());
        let mut refused = setup.launch();
        assert_eq!(refused.wait_exit(PATIENCE).code(), Some(1), "{setting}");
        let name = setting.split('=').next().unwrap_or_default();
        wait_until("it says why", PATIENCE, || refused.log().contains(name));
        assert!(db.row_counts().is_empty(), "refused before anything is written");

        setup.store.push_str("unsafe = true\n");
        let world = World { program: setup.serve(), db };
        world.expect("custom", &custom(r#"{"id":"a"}"#), "accepted");
        let stats = http::get(world.program.admin_addr(), "/api/v1/stats", &[]).json();
        assert!(stats["unsafe_because"].as_str().is_some_and(|why| why.contains(name)), "{stats}");
        wait_until("the log says so", PATIENCE, || world.program.log().contains("unsafe database accepted"));
    }
}

/// Credentials that come with the request itself.
const PATH_TOKEN: &str = "canary-path-6Wd3";
const QUERY_TOKEN: &str = "canary-query-4Mf8";
const BASIC: &str = "hooks:canary-basic-1Xz7";

/// A source for each place where a sender that cannot sign puts its credentials.
fn unsigned_sources() -> String {
    format!(
        "[[source]]\nname = \"by-path\"\nprovider = \"custom\"\nmac = \"none\"\nidentity = \"digest\"\n\
         path_token = {{ value = \"{PATH_TOKEN}\" }}\n\n\
         [[source]]\nname = \"by-query\"\nprovider = \"custom\"\nmac = \"equal\"\nsig = {{ query = \"token\" }}\n\
         identity = \"digest\"\nsecrets = [{{ value = \"{QUERY_TOKEN}\" }}]\n\n\
         [[source]]\nname = \"by-password\"\nprovider = \"basic-auth\"\nsecrets = [{{ value = \"{BASIC}\" }}]\n\n"
    )
}

/// Sends to each of them, right and wrong, and returns the keys of what was stored.
fn send_unsigned(world: &World) -> Vec<String> {
    let post = |path: &str, headers: &[(&str, &str)]| http::post(world.addr(), path, headers, b"{\"plain\":true}");
    let basic = |credentials: &str| format!("Basic {}", data_encoding::BASE64.encode(credentials.as_bytes()));
    world.expect_nothing_stored(|| {
        for (path, authorization) in [
            ("/in/by-path/wrong-canary-8Jk1", ""),
            ("/in/by-query?token=wrong-canary-8Jk1", ""),
            ("/in/by-query", "Bearer wrong-canary-8Jk1"),
            ("/in/by-password", &basic("hooks:wrong-canary-8Jk1")),
        ] {
            assert_eq!(post(path, &[("authorization", authorization)]).status, 401, "{path}");
        }
    });
    let right = [
        (format!("/in/by-path/{PATH_TOKEN}"), String::new()),
        (format!("/in/by-query?token={QUERY_TOKEN}&kept=yes"), String::new()),
        ("/in/by-password".to_owned(), basic(BASIC)),
    ];
    let send = |(path, authorization): &(String, String)| {
        let answer = world.expect_stored(1, 1, || post(path, &[("authorization", authorization)]));
        assert_eq!(answer.json()["status"], "accepted", "{path}: {}", answer.text());
        answer.header("oncebox-key").expect("a key").to_owned()
    };
    right.iter().map(send).collect()
}

contract! {
    async fn the_admin_listener_wants_its_token_and_its_name(db: TestDatabase) {
        let token = "operator-canary-3Kd7";
        let world = World::start_with(db, |setup| {
            setup.server(&format!("admin_token = {{ value = \"{token}\" }}")).server("viewer_token = { value = \"viewer-canary-5Vb2\" }")
        });
        let get = |path: &str, headers: &[(&str, &str)]| http::get(world.program.admin_addr(), path, headers).status;
        let bearer = |token: &str| format!("Bearer {token}");
        for path in ["/api/v1/stats", "/api/v1/events", "/api/v1/sources", "/api/v1/rejections", "/api/v1/held"] {
            for wrong in ["", " ", "x", &token[..token.len() - 1], &format!("{token} "), &token.to_uppercase(), &format!("{token}x")] {
                // A trailing space is no part of a header's value.
                let expected = if wrong.trim() == token { 200 } else { 401 };
                assert_eq!(get(path, &[("authorization", &bearer(wrong))]), expected, "{path} {wrong:?}");
            }
            assert_eq!(get(path, &[]), 401, "{path}");
            assert_eq!(get(path, &[("authorization", token)]), 401, "{path}");
            assert_eq!(get(path, &[("authorization", &format!("Basic {token}"))]), 401, "{path}");
            assert_eq!(get(path, &[("authorization", &bearer(token))]), 200, "{path}");
            assert_eq!(get(path, &[("authorization", &bearer("viewer-canary-5Vb2"))]), 200, "{path}");
        }
        assert_eq!((get("/readyz", &[]), get("/metrics", &[])), (200, 200), "open on loopback");
        let evil = b"GET /metrics HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
        let answer = http::raw(world.program.admin_addr(), evil, PATIENCE);
        assert!(answer.starts_with(b"HTTP/1.1 403"), "{}", String::from_utf8_lossy(&answer));
        let nameless = http::raw(world.program.admin_addr(), b"GET /readyz HTTP/1.0\r\n\r\n", PATIENCE);
        assert!(nameless.starts_with(b"HTTP/1.0 403") || nameless.starts_with(b"HTTP/1.1 403"));
        assert!(!world.program.log().contains(token));
    }

    async fn a_loopback_admin_without_a_token_is_open_to_its_own_name_only(db: TestDatabase) {
        let world = World::start(db);
        let with_host = |host: &str| {
            let request = format!("GET /api/v1/stats HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
            let answer = http::raw(world.program.admin_addr(), request.as_bytes(), PATIENCE);
            String::from_utf8_lossy(&answer).get(9..12).unwrap_or_default().to_owned()
        };
        for (host, status) in [("localhost:1", "200"), ("127.0.0.1", "200"), ("evil.example", "403"), ("localhost.evil.example", "403"), ("127.0.0.1.evil.example", "403")] {
            assert_eq!(with_host(host), status, "{host}");
        }
    }

    async fn metrics_count_what_happened(db: TestDatabase) {
        let world = World::start(db);
        world.expect("stripe", &stripe("evt_1"), "accepted");
        world.expect("stripe", &stripe("evt_1"), "duplicate");
        world.expect_401("stripe", &stripe("evt_1").tampered());
        world.expect("custom", &custom("x"), "held");
        let metrics = world.metrics();
        for line in [
            r#"oncebox_arrivals_total{source="stripe",result="accepted"} 1"#,
            r#"oncebox_arrivals_total{source="stripe",result="duplicate"} 1"#,
            r#"oncebox_arrivals_total{source="stripe",result="rejected"} 1"#,
            r#"oncebox_arrivals_total{source="custom",result="held"} 1"#,
            r#"oncebox_rejections_total{source="stripe",reason="mismatch"} 1"#,
            r#"oncebox_secret_matches_total{source="stripe",secret="1"} 2"#,
            "# TYPE oncebox_ack_seconds histogram",
            "oncebox_ack_seconds_count 4",
        ] {
            assert!(metrics.contains(line), "{line} is missing in\n{metrics}");
        }
    }

    async fn a_path_token_may_be_written_with_percent_signs(db: TestDatabase) {
        let world = World::start_with(db, |mut setup| {
            setup.rest.push_str("[[source]]\nname = \"by-path\"\nprovider = \"custom\"\nmac = \"none\"\nid = \"json:/id\"\n\
                path_token = { value = \"p q/r-0123456789ab\" }\n");
            setup
        });
        let post = |path: &str, id: &str| http::post(world.addr(), path, &[], json!({"id": id}).to_string().as_bytes());
        assert_eq!(post("/in/by-path/p%20q%2Fr-0123456789ab", "a").json()["status"], "accepted");
        assert_eq!(post("/in/by-path/p%20q%2fr-0123456789ab", "a").json()["status"], "duplicate");
        world.expect_nothing_stored(|| {
            for (path, status) in [("/in/by-path/p%20q/r-0123456789ab", 404), ("/in/by-path%2Fp%20q%2Fr", 404), ("/in/by-path/p+q%2Fr-0123456789ab", 401)] {
                assert_eq!(post(path, "b").status, status, "{path}");
            }
        });
    }

    async fn a_blank_admin_token_counts_as_none(db: TestDatabase) {
        let world = World::start_with(db, |setup| setup.server("admin_token = { env = \"BLANK_TOKEN\" }").env("BLANK_TOKEN", " "));
        assert_eq!(http::get(world.program.admin_addr(), "/api/v1/stats", &[]).status, 200);
        wait_until("the log says so", PATIENCE, || world.program.log().contains("BLANK_TOKEN is blank"));
    }

    async fn no_secret_is_ever_shown(db: TestDatabase) {
        let tokens = ["admin-canary-0Rt6", "viewer-canary-5Vb2"];
        let world = World::start_with(db, |mut setup| {
            let [admin, viewer] = tokens;
            let lines = format!("admin_token = {{ value = \"{admin}\" }}\nviewer_token = {{ value = \"{viewer}\" }}");
            setup.rest.push_str(&unsigned_sources());
            setup.server(&lines).env("ONCEBOX_LOG", "trace")
        });
        let body = json!({"id": "by-token", "type": "t"}).to_string().into_bytes();
        let by_token = |token: &str| Signed { headers: vec![("x-token".into(), token.into())], body: body.clone() };
        let key = world.expect("token", &by_token(TOKEN).with_header("authorization", "Bearer cookie-canary")
            .with_header("cookie", "session=cookie-canary").with_header("x-kept", "kept"), "accepted");
        world.expect("stripe", &stripe("evt_1"), "accepted");
        world.expect("github", &github("d-1", &json!({})), "accepted");
        world.expect("slack", &sender::slack(SLACK, now(), "Ev1", "m", &json!({})), "accepted");
        world.expect("standard-webhooks", &sender::standard_webhooks(STANDARD, now(), "m", "t", &json!({})), "accepted");
        world.expect("svix", &sender::svix(SVIX, now(), "m", "t", &json!({})), "accepted");
        assert_eq!(world.post("twilio", &sender::twilio(TWILIO, TWILIO_URL, "t", &[("MessageSid", "1")])).status, 200);
        for source in ["stripe", "token", "github"] {
            world.expect_401(source, &by_token("wrong-canary-8Jk1"));
        }
        let unsigned_keys = send_unsigned(&world);
        let authorization = format!("Bearer {}", tokens[0]);
        // A head that cannot be read is a line of the lowest levels, so the level counts.
        http::raw(world.addr(), format!("POST /in/by-path/{PATH_TOKEN} HTTP/1.1\r\nx\r\n\r\n").as_bytes(), PATIENCE);
        wait_until("the log tells of it", PATIENCE, || world.program.log().contains("connection ended"));
        let mut shown = world.program.log() + &world.metrics();
        let paths = unsigned_keys.iter().flat_map(|key| [format!("events/{key}"), format!("events/{key}/payload")]);
        for path in paths.chain(["rejections?source=by-path".into(), "rejections?source=by-query".into(), "sources/by-path".into()]) {
            let answer = http::get(world.program.admin_addr(), &format!("/api/v1/{path}"), &[("authorization", &authorization)]);
            assert_eq!(answer.status, 200, "{path}");
            shown += &answer.text();
        }
        for path in ["sources", "events", "held", "rejections", "stats", &format!("events/{key}"), &format!("events/{key}/payload")] {
            shown += &http::get(world.program.admin_addr(), &format!("/api/v1/{path}"), &[("authorization", &authorization)]).text();
        }
        let headers: Vec<String> = world.db.query(&format!("select headers from {}", world.db.table("payloads")))
            .into_iter().map(|row| String::from_utf8_lossy(&data_encoding::HEXLOWER.decode(row[0].trim_start_matches("\\x").as_bytes()).expect("hex")).into_owned()).collect();
        assert_eq!(headers.len(), 7 + unsigned_keys.len());
        assert!(headers.iter().any(|lines| lines.contains("x-kept: kept")), "{headers:?}");
        shown += &headers.join("\n");
        let encoded = data_encoding::BASE64.encode(BASIC.as_bytes());
        let password = BASIC.split(':').nth(1).unwrap_or_default();
        let unsigned = [PATH_TOKEN, QUERY_TOKEN, BASIC, password, &encoded];
        for secret in SECRETS.iter().chain(&tokens).chain(&unsigned).chain(&["cookie-canary", "wrong-canary-8Jk1"]) {
            let at = shown.find(secret).map(|at| shown.get(at.saturating_sub(200)..at));
            assert_eq!(at, None, "{secret} is shown");
        }
    }
}
