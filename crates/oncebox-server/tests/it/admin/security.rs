//! The admin listener against pages of other sites, wrong names, wrong tokens and viewers who want to act.

use std::time::Duration;

use serde_json::json;
use testkit::http::{self, Answer};
use testkit::{TestDatabase, contract, free_port};

use crate::world::{PATIENCE, SECRETS, Setup, World, custom, stripe, wait_until};

pub(crate) const OPERATOR: &str = "operator-canary-3Kd7";
pub(crate) const VIEWER: &str = "viewer-canary-5Vb2";
const ACTIONS: [&str; 6] = ["replay", "release", "discard", "forget", "handlers/pull/pause", "handlers/pull/resume"];
const FILTER: &[u8] = br#"{"filter":{"source":"stripe"}}"#;

pub(crate) fn with_tokens(setup: Setup) -> Setup {
    setup
        .server(&format!("admin_token = {{ value = \"{OPERATOR}\" }}\nviewer_token = {{ value = \"{VIEWER}\" }}"))
        .server("admin_hosts = [\"hooks.internal\"]")
}

pub(crate) fn ask(world: &World, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    http::request(world.program.admin_addr(), method, path, headers, body).expect("an answer")
}

/// Logs in and gives cookie and form token.
pub(crate) fn log_in(world: &World, token: &str, headers: &[(&str, &str)]) -> (Answer, String, String) {
    let headers = [&[("content-type", "application/json")], headers].concat();
    let body = json!({ "token": token }).to_string();
    let answer = ask(world, "POST", "/api/v1/session", &headers, body.as_bytes());
    let cookie = answer.header("set-cookie").and_then(|line| line.split(';').next()).unwrap_or_default().to_owned();
    let form_token = if answer.status == 200 {
        answer.json()["form_token"].as_str().expect("text").to_owned()
    } else {
        String::new()
    };
    (answer, cookie, form_token)
}

/// One dead delivery; what an action would change.
pub(crate) fn bury(world: &World) {
    world.expect("stripe", &stripe("a"), "accepted");
    let deliveries = world.db.table("deliveries");
    world
        .db
        .execute(&format!("update {deliveries} set state = 'dead', attempt = 1, finished_at_ms = 1, last_error = 'x'"));
}

pub(crate) fn state(world: &World) -> String {
    world.db.query(&format!("select state from {}", world.db.table("deliveries"))).remove(0).remove(0)
}

contract! {
    async fn other_sites_cannot_act_where_no_token_is_needed(db: TestDatabase) {
        let world = World::start(db);
        bury(&world);
        let own = format!("http://{}", world.program.admin_addr().trim_start_matches("http://"));
        for path in ACTIONS {
            let path = format!("/api/v1/{path}");
            for (kind, headers) in [
                ("a form", [("content-type", "application/x-www-form-urlencoded"), ("origin", "https://evil.example")]),
                ("no-cors", [("content-type", "text/plain;charset=UTF-8"), ("origin", "https://evil.example")]),
                ("a sandbox", [("content-type", "text/plain"), ("origin", "null")]),
                ("JSON", [("content-type", "application/json"), ("origin", "https://evil.example")]),
                ("another port", [("content-type", "application/json"), ("origin", "http://127.0.0.1:1")]),
                ("without Origin", [("content-type", "application/json"), ("sec-fetch-site", "cross-site")]),
                ("a neighbour", [("content-type", "application/json"), ("sec-fetch-site", "same-site")]),
            ] {
                let answer = ask(&world, "POST", &path, &headers, FILTER);
                assert_eq!((answer.status, answer.header("content-type")), (403, Some("application/problem+json")), "{kind}: {path}");
                assert_eq!(answer.header("access-control-allow-origin"), None);
            }
            let preflight = [("origin", "https://evil.example"), ("access-control-request-method", "POST")];
            assert_eq!(ask(&world, "OPTIONS", &path, &preflight, b"").status, 403, "{path}");
        }
        assert_eq!(state(&world), "dead");
        let from_here = [("content-type", "application/json"), ("origin", own.as_str()), ("sec-fetch-site", "same-origin")];
        assert_eq!(ask(&world, "POST", "/api/v1/replay", &from_here, FILTER).status, 200);
        assert_eq!(state(&world), "ready");
    }

    async fn a_session_acts_for_its_own_pages_alone(db: TestDatabase) {
        let world = World::start_with(db, with_tokens);
        bury(&world);
        let (opened, cookie, form_token) = log_in(&world, OPERATOR, &[]);
        assert_eq!(opened.status, 200, "{}", opened.text());
        let line = opened.header("set-cookie").expect("a cookie");
        for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
            assert!(line.contains(part), "{line}");
        }
        assert!(!line.contains("Secure"), "plain HTTP: {line}");
        let cookie = ("cookie", cookie.as_str());
        let (json, token) = (("content-type", "application/json"), ("oncebox-form-token", form_token.as_str()));
        let act = |headers: &[(&str, &str)]| ask(&world, "POST", "/api/v1/replay", headers, FILTER).status;
        assert_eq!(act(&[json, cookie]), 403, "the cookie alone");
        assert_eq!(act(&[json, cookie, ("oncebox-form-token", "x")]), 403, "a wrong form token");
        assert_eq!(act(&[json, cookie, token, ("origin", "https://evil.example")]), 403, "a foreign Origin");
        assert_eq!(act(&[json, cookie, token, ("sec-fetch-site", "cross-site")]), 403);
        assert_eq!(act(&[("content-type", "application/x-www-form-urlencoded"), cookie]), 403, "a form to the API");
        assert_eq!(state(&world), "dead");
        let look = |headers: &[(&str, &str)]| ask(&world, "GET", "/api/v1/stats", headers, b"").status;
        assert_eq!((look(&[cookie]), look(&[("cookie", "oncebox_session=x")]), look(&[])), (200, 401, 401));
        assert_eq!(look(&[cookie, ("authorization", "Bearer wrong")]), 401, "a wrong token is not made good");
        assert_eq!(act(&[json, cookie, token]), 200);
        assert_eq!(ask(&world, "DELETE", "/api/v1/session", &[cookie], b"").status, 403, "nor logs anybody out");
        assert_eq!(ask(&world, "DELETE", "/api/v1/session", &[cookie, token], b"").status, 204);
        assert_eq!(look(&[cookie]), 401, "after the logout");
        let host = world.program.admin_addr().trim_start_matches("http://").to_owned();
        let (behind_tls, ..) = log_in(&world, OPERATOR, &[("origin", &format!("https://{host}"))]);
        assert!(behind_tls.header("set-cookie").expect("a cookie").contains("; Secure"));
    }

    async fn a_viewer_looks(db: TestDatabase) {
        let world = World::start_with(db, with_tokens);
        bury(&world);
        let (opened, cookie, form_token) = log_in(&world, VIEWER, &[]);
        assert_eq!(opened.json()["role"], "viewer");
        let bearer = format!("Bearer {VIEWER}");
        for path in ACTIONS.iter().copied().chain(["sources/stripe/arm", "handlers/pull/claim"]) {
            let path = format!("/api/v1/{path}");
            let json = ("content-type", "application/json");
            let by_session = [json, ("cookie", cookie.as_str()), ("oncebox-form-token", form_token.as_str())];
            assert_eq!(ask(&world, "POST", &path, &by_session, FILTER).status, 403, "{path}");
            assert_eq!(ask(&world, "POST", &path, &[json, ("authorization", &bearer)], FILTER).status, 403, "{path}");
            assert_eq!(ask(&world, "POST", &path, &[json], FILTER).status, 401, "{path}");
        }
        assert_eq!(state(&world), "dead");
        assert_eq!(ask(&world, "GET", "/api/v1/session", &[("cookie", &cookie)], b"").json()["role"], "viewer");
    }

    async fn only_names_of_the_house_are_answered(db: TestDatabase) {
        let world = World::start_with(db, with_tokens);
        let with_host = |host: &str, path: &str| {
            let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {OPERATOR}\r\nconnection: close\r\n\r\n");
            let answer = http::raw(world.program.admin_addr(), request.as_bytes(), PATIENCE);
            String::from_utf8_lossy(&answer).get(9..12).unwrap_or_default().to_owned()
        };
        for path in ["/api/v1/stats", "/readyz", "/metrics", "/api/openapi.json"] {
            for (host, status) in [
                ("localhost", "200"), ("127.0.0.1:1", "200"), ("[::1]", "200"), ("hooks.internal:8081", "200"),
                ("evil.example", "403"), ("hooks.internal.evil.example", "403"), ("", "403"),
            ] {
                assert_eq!(with_host(host, path), status, "{host} {path}");
            }
        }
    }

    async fn a_token_is_not_guessed(db: TestDatabase) {
        let world = World::start_with(db, with_tokens);
        for wrong in ["", " ", "x", &OPERATOR[..OPERATOR.len() - 1], &OPERATOR.to_uppercase(), &format!("{OPERATOR}x")] {
            let (answer, cookie, _) = log_in(&world, wrong, &[]);
            assert_eq!((answer.status, cookie.as_str()), (401, ""), "{wrong:?}");
            assert!(!answer.text().contains(OPERATOR));
        }
        let refused: Vec<u16> = (0..100).map(|n| log_in(&world, &format!("guess {n}"), &[]).0.status).collect();
        assert_eq!(refused.iter().filter(|status| **status == 401).count(), 4, "{refused:?}");
        let (locked, ..) = log_in(&world, OPERATOR, &[]);
        assert_eq!(locked.status, 429, "nor found by luck");
        assert!(locked.header("retry-after").is_some_and(|seconds| seconds.parse::<u32>().is_ok()));
        let page = ask(&world, "POST", "/login", &[("content-type", "application/x-www-form-urlencoded")], format!("token={OPERATOR}").as_bytes());
        assert_eq!((page.status, page.header("retry-after").is_some()), (429, true), "nor by a form");
        let stranger = ask(&world, "GET", "/api/v1/stats", &[], b"");
        assert_eq!((stranger.status, stranger.header("www-authenticate")), (401, Some("Bearer")));
        let bearer = format!("Bearer {OPERATOR}");
        assert_eq!(ask(&world, "GET", "/api/v1/stats", &[("authorization", &bearer)], b"").status, 200, "machines go on");
    }

    async fn a_bearer_is_not_guessed(db: TestDatabase) {
        let world = World::start_with(db, |setup| with_tokens(setup).server("trusted_proxies = 1"));
        let ask_from = |address: &str, token: &str, path: &str| {
            let bearer = format!("Bearer {token}");
            ask(&world, "GET", path, &[("authorization", &bearer), ("x-forwarded-for", address)], b"")
        };
        let look = |address: &str, token: &str| ask_from(address, token, "/api/v1/stats").status;
        let stale: Vec<u16> = (0..30).map(|_| look("192.0.2.1", "yesterdays-canary-1Aa1")).collect();
        assert!(stale.iter().all(|status| *status == 401), "an old config is no guess: {stale:?}");
        assert_eq!(look("192.0.2.1", OPERATOR), 200, "nor keeps its neighbour out");
        let refused: Vec<u16> = (0..150).map(|n| look("192.0.2.2", &format!("guess-canary-{n}"))).collect();
        assert_eq!(refused.iter().filter(|status| **status == 401).count(), 100, "{refused:?}");
        let locked = ask_from("192.0.2.2", OPERATOR, "/api/v1/stats");
        assert_eq!(locked.status, 429, "nor found by luck");
        assert!(locked.header("retry-after").is_some_and(|seconds| seconds.parse::<u32>().is_ok()));
        assert_eq!(ask_from("192.0.2.2", OPERATOR, "/events").status, 429, "nor on a page");
        assert_eq!(ask_from("192.0.2.2", "x", "/readyz").status, 429, "nor where only this machine needs none");
        assert_eq!(ask(&world, "GET", "/readyz", &[], b"").status, 200, "as whoever asks from here shows");
        assert_eq!((look("192.0.2.1", OPERATOR), look("192.0.2.3", VIEWER)), (200, 200), "others go on");
        let log = world.program.log();
        assert!(log.contains("a request with a wrong token") && log.contains("192.0.2.2"), "{log}");
        assert!(!log.contains("guess-canary") && !log.contains("yesterdays-canary"), "{log}");
    }

    async fn sessions_end_when_the_token_changes(db: TestDatabase) {
        let setup = with_tokens(Setup::new(db.url()));
        let mut world = World { program: setup.serve(), db };
        let (_, operator, _) = log_in(&world, OPERATOR, &[]);
        let (_, viewer, _) = log_in(&world, VIEWER, &[]);
        world.program.write_config(&setup.text().replace(OPERATOR, "another-canary-9Xy1"));
        world.program.signal(libc::SIGHUP);
        let status = |cookie: &str| ask(&world, "GET", "/api/v1/stats", &[("cookie", cookie)], b"").status;
        wait_until("the session of the old token ends", PATIENCE, || status(&operator) == 401);
        assert_eq!(status(&viewer), 200, "its token stayed");
        let old = format!("Bearer {OPERATOR}");
        assert_eq!(ask(&world, "GET", "/api/v1/stats", &[("authorization", &old)], b"").status, 401);
        assert_eq!(log_in(&world, "another-canary-9Xy1", &[]).0.status, 200);
    }

    async fn behind_a_proxy_on_this_machine_nobody_is_here(db: TestDatabase) {
        let world = World::start_with(db, |setup| with_tokens(setup).server("trusted_proxies = 1"));
        let forwarded = [("x-forwarded-for", "203.0.113.9")];
        for path in ["/readyz", "/metrics", "/api/openapi.json", "/api/docs"] {
            assert_eq!(ask(&world, "GET", path, &[], b"").status, 200, "{path}");
            assert_eq!(ask(&world, "GET", path, &forwarded, b"").status, 401, "{path}");
        }
    }

    async fn without_tokens_a_proxys_requests_are_refused(db: TestDatabase) {
        let world = World::start(db);
        for name in ["x-forwarded-for", "x-forwarded-proto", "forwarded", "via", "x-real-ip"] {
            for path in ["/api/v1/stats", "/", "/metrics"] {
                assert_eq!(ask(&world, "GET", path, &[(name, "203.0.113.9")], b"").status, 403, "{name} {path}");
            }
        }
        assert_eq!(ask(&world, "GET", "/api/v1/stats", &[], b"").status, 200);
    }

    async fn unsigned_handshakes_fill_no_log_and_write_nothing(db: TestDatabase) {
        let world = World::start_with(db, |mut setup| {
            setup.rest.push_str("[[source]]\nname = \"asana\"\nprovider = \"asana\"\n");
            setup
        });
        let wire = http::encode(world.addr(), "POST", "/in/asana", &[("x-hook-secret", "a-stranger")], b"{}");
        let outcomes = world.expect_nothing_stored(|| http::blast(world.addr(), vec![wire; 400], 8));
        assert!(outcomes.iter().all(|outcome| outcome.status() == Some(401)));
        let lines = world.program.log().lines().filter(|line| line.contains("asana")).count();
        assert!(lines < 200, "{lines} lines for 400 handshakes");
    }

    async fn other_machines_need_a_token(db: TestDatabase) {
        let setup = Setup::new(db.url());
        let everywhere = format!("admin_listen = \"0.0.0.0:{}\"", free_port());
        for token in ["", "admin_token = { value = \"\" }", "admin_token = { value = \"  \" }", "viewer_token = { value = \"viewer-canary-5Vb2\" }"] {
            let config = setup.text();
            let line = config.lines().find(|line| line.starts_with("admin_listen")).expect("a line");
            let text = config.replace(line, &format!("{everywhere}\n{token}"));
            let mut program = testkit::program::Program::launch(crate::world::BIN, &text, &[]);
            let status = program.wait_exit(Duration::from_secs(60));
            assert_eq!(status.code(), Some(2), "{token:?}: {}", program.log());
        }
    }

    async fn nothing_on_the_api_shows_a_secret(db: TestDatabase) {
        let world = World::start_with(db, with_tokens);
        world.expect("stripe", &stripe("evt_1"), "accepted");
        let key = world.expect("custom", &custom(r#"{"type":"t"}"#), "held");
        world.expect_401("stripe", &stripe("evt_1").tampered());
        let bearer = format!("Bearer {OPERATOR}");
        let document = ask(&world, "GET", "/api/openapi.json", &[("authorization", &bearer)], b"").json();
        let mut shown = document.to_string();
        let paths = document["paths"].as_object().expect("paths");
        let mut read = 0;
        for (path, methods) in paths.iter().filter(|(path, methods)| methods.get("get").is_some() && !path.ends_with("/tail")) {
            let path = path.replace("{key}", &key).replace("{name}", "stripe").replace("{id}", &key);
            let answer = ask(&world, "GET", &path, &[("authorization", &bearer)], b"");
            assert!(answer.status == 200 || answer.status == 404, "{path}: {} {methods}", answer.status);
            read += usize::from(answer.status == 200);
            shown += &answer.text();
        }
        assert!(read >= 15, "{read} routes were read");
        for secret in SECRETS.iter().chain(&[OPERATOR, VIEWER]) {
            assert!(!shown.contains(secret), "{secret} is shown");
        }
    }

    async fn bodies_are_downloads_that_no_browser_runs(db: TestDatabase) {
        let world = World::start(db);
        let key = world.expect("custom", &custom("<script>alert(1)</script>"), "held");
        let answer = ask(&world, "GET", &format!("/api/v1/events/{key}/payload"), &[], b"");
        assert_eq!(answer.body, b"<script>alert(1)</script>");
        assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
        let disposition = answer.header("content-disposition").unwrap_or_default();
        assert!(disposition.starts_with("attachment") && disposition.contains(&key), "{disposition}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert!(answer.header("content-security-policy").is_some_and(|policy| policy.contains("sandbox")));
        for path in ["/api/v1/stats", "/readyz", "/nowhere", "/api/v1/events/nothing"] {
            let answer = ask(&world, "GET", path, &[], b"");
            let policy = answer.header("content-security-policy").unwrap_or_default();
            assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
            assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        }
    }
}
