//! Answers that are meant to hurt: memory and time stay bounded, and each has one documented outcome.

use std::time::{Duration, Instant};

use testkit::receiver::{Call, Receiver, Reply};
use testkit::{TestDatabase, contract};

use super::{HASTY, destination, message, setup, wait_for_messages, write};
use crate::world::World;

const OK: &str = "HTTP/1.1 200 OK\r\n";

fn answer(call: &Call, canary: &str) -> Reply {
    let chunked = |status: &str| format!("HTTP/1.1 {status}\r\ntransfer-encoding: chunked\r\n\r\n");
    let endless = |head: String| Reply::Stream(head, 1 << 20, Duration::ZERO);
    match call.path.rsplit('/').next().unwrap_or_default() {
        "endless" => endless(format!("{OK}\r\n")),
        "endless-chunk" => endless(format!("{}ffffffff\r\n", chunked("200 OK"))),
        "gigabyte" => endless(format!("{OK}content-length: 1073741824\r\n\r\n")),
        "drip" => Reply::Stream(format!("{OK}content-length: 100\r\n\r\n"), 1, Duration::from_secs(1)),
        "drip-head" => Reply::Stream("H".to_owned(), 1, Duration::from_secs(1)),
        "endless-head" => endless(format!("{OK}x: ")),
        "many-headers" => Reply::Stream(format!("{OK}{}\r\n", "x: y\r\n".repeat(10_000)), 1, Duration::from_secs(1)),
        "bad-header" => Reply::Stream(format!("{OK}bad\u{1}name: x\r\n\r\n"), 1, Duration::from_secs(1)),
        "nonsense" => Reply::Stream("SSH-2.0-nobody\r\n".to_owned(), 1, Duration::from_secs(1)),
        "hang" => Reply::Hang,
        "redirect" => Reply::With(307, "location", canary.to_owned()),
        "metadata" => Reply::With(302, "location", "http://169.254.169.254/latest".to_owned()),
        "later" => Reply::With(503, "retry-after", "999999999999".to_owned()),
        "conflict" if call.header("oncebox-attempt") == Some("1") => Reply::Status(409),
        "known-404" if call.header("oncebox-attempt") == Some("1") => Reply::Status(404),
        "refused" => Reply::Status(422),
        "gone" => Reply::Status(410),
        _ => Reply::Status(200),
    }
}

/// What becomes of each: state, attempts, and a word of the error.
const OUTCOMES: [(&str, &str, &str, &str); 20] = [
    ("endless", "sent", "1", ""),
    ("endless-chunk", "sent", "1", ""),
    ("gigabyte", "sent", "1", ""),
    ("drip", "sent", "1", ""),
    ("drip-head", "dead", "3", "the "),
    ("endless-head", "dead", "3", "connection broke"),
    ("many-headers", "dead", "3", "connection broke"),
    ("bad-header", "dead", "3", "connection broke"),
    ("nonsense", "dead", "3", "connection broke"),
    ("hang", "dead", "3", "in time"),
    ("redirect", "dead", "3", "answered 307"),
    ("metadata", "dead", "3", "answered 302"),
    ("later", "ready", "1", "answered 503"),
    ("conflict", "sent", "2", ""),
    ("known-404", "sent", "2", ""),
    ("refused", "dead", "1", "answered 422"),
    ("gone", "dead", "1", "answered 410"),
    ("../../elsewhere", "dead", "1", "leads out of the destination"),
    ("a b", "dead", "1", "leads out of the destination"),
    ("fine?x=1", "sent", "1", ""),
];

contract! {
    async fn every_bad_answer_has_its_outcome(db: TestDatabase) {
        let canary = Receiver::start();
        let elsewhere = canary.url();
        let receiver = Receiver::start_with(move |call| answer(call, &elsewhere));
        let rest = format!("{HASTY}retry_on = [404]\nconcurrency = 2\nheaders = {{ authorization = \"Bearer canary-crm\" }}");
        let world = World { program: setup(&db, &destination(&receiver, &rest).replace("\"10s\"", "\"2s\"")).serve(), db };
        let begun = Instant::now();
        for (index, (path, ..)) in OUTCOMES.iter().enumerate() {
            write(&world.db, &format!("m{index}"), path);
        }
        // The one that asked for a long pause stays ready.
        let ready = format!("select count(*) from {} where state in ('ready', 'claimed')", world.db.table("outbox_v1"));
        crate::world::wait_until("all but one ended", Duration::from_secs(120), || world.db.query(&ready) == [["1"]]);
        for (index, (path, state, attempt, error)) in OUTCOMES.iter().enumerate() {
            let row = message(&world.db, &format!("m{index}"), "state, attempt, last_error");
            let found = (row[0].as_str(), row[1].as_str());
            assert_eq!(found, (*state, *attempt), "{path}: {row:?}");
            assert!(row[2].contains(error), "{path}: {row:?}");
        }
        let due = message(&world.db, "m12", "(due_at_ms - created_at_ms) / 1000");
        let pause: i64 = due[0].split('.').next().and_then(|text| text.parse().ok()).expect("a number");
        assert!((86_000..=86_500).contains(&pause), "Retry-After is honoured up to a day, not {pause} s");
        let kept = world.db.query(&format!("select max(length(body)) from {}", world.db.table("outbox_answers")));
        assert_eq!(kept, [["65536"]]);
        assert_eq!(canary.calls().len(), 0, "a redirect was followed");
        let memory = peak_memory_mib(world.program.pid());
        println!("hostile: {:?}, peak memory {memory} MiB", begun.elapsed());
        assert!(memory < 200, "{memory} MiB");
        assert!(!world.program.log().contains("canary-crm"), "a destination's header was logged");
        let paths: Vec<String> = receiver.calls().iter().map(|call| call.path.clone()).collect();
        assert!(paths.iter().all(|path| path.starts_with("/hooks/")), "{paths:?}");
        wait_for_messages(&world.db, &["sent", "dead", "ready"]);
    }
}

fn peak_memory_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM")).expect("a peak");
    line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).expect("a number") / 1024
}
