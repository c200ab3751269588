//! Whatever is refused leaves a trace: a count, a line in the log, and a row where a source is known.

use std::time::Duration;

use testkit::http::{self, Connection};
use testkit::{TestDatabase, contract};

use crate::world::{PATIENCE, World, custom, stripe, wait_until};

contract! {
    async fn what_is_refused_at_a_source_is_counted_and_shown(db: TestDatabase) {
        let world = World::start(db);
        let large = custom(format!(r#"{{"id":"large","pad":"{}"}}"#, "x".repeat(70_000)));
        assert_eq!(world.post("small", &large).status, 413);
        assert_eq!(http::request(world.addr(), "PUT", "/in/small", &[], b"").expect("an answer").status, 405);
        assert_eq!(world.post("small", &custom("{}").with_header("content-encoding", "gzip")).status, 415);
        let wire = custom(r#"{"id":"broken"}"#).raw("small", world.addr());
        let mut broken = Connection::open(world.addr()).expect("it listens");
        broken.send(&wire[..wire.len() - 1]).expect("sent");
        broken.finish_sending().expect("it is open");
        assert!(broken.read_answer().map_or(true, |answer| answer.status == 400));
        let expected = [
            r#"oncebox_rejections_total{source="small",reason="too_large"} 1"#,
            r#"oncebox_rejections_total{source="small",reason="method"} 1"#,
            r#"oncebox_rejections_total{source="small",reason="content_encoding"} 1"#,
            r#"oncebox_rejections_total{source="small",reason="broken_body"} 1"#,
            r#"oncebox_arrivals_total{source="small",result="rejected"} 4"#,
            "oncebox_ack_seconds_count 4",
        ];
        wait_until("all are counted", PATIENCE, || expected.iter().all(|line| world.metrics().contains(line)));
        let page = http::get(world.program.admin_addr(), "/api/v1/rejections?source=small", &[]).json();
        let reasons: Vec<&str> = page["items"].as_array().expect("rows").iter()
            .map(|row| row["reason"].as_str().unwrap_or_default()).collect();
        assert_eq!(reasons, ["broken_body", "content_encoding", "method", "too_large"], "{page}");
        assert!(page.to_string().contains("body_limit"), "it says what to do: {page}");
        assert!(world.program.log().contains("too_large"), "{}", world.program.log());
    }

    async fn what_is_no_sources_is_counted_and_told(db: TestDatabase) {
        let world = World::start(db);
        for path in ["/in/strpe", "/in/stripe/token-0123456789", "/in/stripe/"] {
            assert_eq!(http::post(world.addr(), path, &[], b"{}").status, 404, "{path}");
        }
        for path in ["/", "/wp-login.php"] {
            assert_eq!(http::get(world.addr(), path, &[]).status, 404, "{path}");
        }
        assert_eq!(http::get(world.addr(), &format!("/in/{}", "q".repeat(9000)), &[]).status, 414);
        let raw = |bytes: &[u8]| http::raw(world.addr(), bytes, Duration::from_secs(20));
        assert!(raw(format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(70_000)).as_bytes()).starts_with(b"HTTP/1.1 431"));
        assert!(raw(b"GET / HTTP/1.1\nhost: a\r\n\r\n").starts_with(b"HTTP/1.1 400"));
        let expected = [
            r#"oncebox_refused_total{reason="unknown_source"} 3"#,
            r#"oncebox_refused_total{reason="unknown_path"} 2"#,
            r#"oncebox_refused_total{reason="long_target"} 1"#,
            r#"oncebox_refused_total{reason="large_head"} 1"#,
            r#"oncebox_refused_total{reason="malformed_head"} 1"#,
            r#"oncebox_refused_total{reason="connections"} 0"#,
        ];
        let metrics = world.metrics();
        for line in expected {
            assert!(metrics.contains(line), "{line} is not in\n{metrics}");
        }
        let log = world.program.log();
        let said = "refused: no source of the config has this name and form of URL; correct the URL at the vendor";
        assert!(log.lines().any(|line| line.contains("strpe") && line.contains(said)), "{log}");
        assert!(log.contains("strpe") && !log.contains("token-0123456789"), "{log}");
    }

    async fn refusals_are_all_counted_and_few_are_logged(db: TestDatabase) {
        let world = World::start(db);
        let wire = http::encode(world.addr(), "GET", "/in/nobody", &[], b"");
        let outcomes = http::blast(world.addr(), vec![wire; 1000], 8);
        assert!(outcomes.iter().all(|outcome| outcome.status() == Some(404)));
        let line = r#"oncebox_refused_total{reason="unknown_source"} 1000"#;
        assert!(world.metrics().contains(line), "{}", world.metrics());
        let lines = world.program.log().matches("unknown_source").count();
        assert!((1..500).contains(&lines), "{lines} lines");
    }

    async fn readiness_is_told_on_the_public_listener_too(db: TestDatabase) {
        let world = World::start(db);
        for method in ["GET", "HEAD"] {
            let answer = http::request(world.addr(), method, "/readyz", &[], b"").expect("an answer");
            assert_eq!(answer.status, 200, "{method}");
        }
        // A stranger learns nothing but the word.
        assert_eq!(http::get(world.addr(), "/readyz", &[]).text(), r#"{"status":"ready"}"#);
        assert_eq!(http::post(world.addr(), "/readyz", &[], b"").status, 405);
        world.expect("stripe", &stripe("evt_1"), "accepted");
    }
}
