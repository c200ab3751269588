//! A backlog of large bodies is worked off with a few of them in memory, whatever its size.
//!
//! `ONCEBOX_TEST_LARGE_BODIES` sets the number of bodies of 4 MB; the bound on memory is the same for any.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use testkit::receiver::{Receiver, Reply};
use testkit::{TestDatabase, contract, http};

use crate::chance::number;
use crate::handling::nodes::with_handlers;
use crate::handling::{HASTY, wait_for_states};
use crate::world::{PATIENCE, Setup, World, custom, wait_until};

const SMALL: usize = 600;
const BODIES: usize = 60;
const BODY_BYTES: usize = 4_000_000;
/// What the process may have in memory; some 60 MB of it are there without any body.
const RSS_MAX: u64 = 300_000_000;

contract! {
    async fn an_sql_handler_works_off_large_bodies_within_its_memory(db: TestDatabase) {
        db.execute("create table effects (event_id text, event_key text, size bigint)");
        let handler = format!(
            "[[handler]]\nname = \"large\"\nsources = [\"custom\"]\nconcurrency = 16\nlease = \"60s\"\n{HASTY}\
             sql = \"insert into effects (event_id, event_key, size) values (:event_id, :key, length(:body))\"\n");
        let (world, bodies, peak) = work_off(db, &handler);
        let counts = world.db.query("select count(*), count(distinct event_id), min(size) from effects where event_id like 'large%'");
        assert_eq!(counts[0][..2], [bodies.to_string(), bodies.to_string()]);
        assert!(counts[0][2].parse::<usize>().expect("a size") >= BODY_BYTES);
        judge(&world, "an sql handler", bodies, peak);
    }

    async fn an_http_handler_works_off_large_bodies_within_its_memory(db: TestDatabase) {
        let calls = Arc::new(AtomicUsize::new(0));
        let counting = calls.clone();
        let receiver = Receiver::forgetful(move |_| {
            counting.fetch_add(1, Ordering::Relaxed);
            Reply::Status(200)
        });
        let handler = format!(
            "[[handler]]\nname = \"large\"\nsources = [\"custom\"]\nconcurrency = 16\nlease = \"60s\"\n{HASTY}\
             http = {{ url = \"{}\", timeout = \"15s\" }}\n", receiver.url());
        let (world, bodies, peak) = work_off(db, &handler);
        assert!(calls.load(Ordering::Relaxed) >= bodies);
        judge(&world, "an http handler", bodies, peak);
    }

    async fn a_pull_claim_brings_no_more_bytes_than_fit(db: TestDatabase) {
        let pull = "[[handler]]\nname = \"large\"\npull = true\n";
        let world = World { program: large(&db, pull).serve(), db };
        store(&world, 6);
        let json = [("content-type", "application/json")];
        for expected in [3, 3, 0] {
            let claimed = http::post(world.program.admin_addr(), "/api/v1/handlers/large/claim", &json, br#"{"max":1000}"#);
            let items = claimed.json()["items"].as_array().map(Vec::len);
            assert_eq!(items, Some(expected), "three bodies of 4 MB go beyond 8 MiB");
        }
    }
}

fn large(db: &TestDatabase, handlers: &str) -> Setup {
    with_handlers(db, handlers).server("body_limit = \"8MiB\"")
}

/// Stores the bodies, then starts a server with the handler and waits for the end; with the most memory it had.
fn work_off(db: TestDatabase, handler: &str) -> (World, usize, u64) {
    let bodies = number("ONCEBOX_TEST_LARGE_BODIES").unwrap_or(BODIES);
    let setup = large(&db, handler);
    let world = World { program: setup.clone().server("workers = false").serve(), db };
    // Small ones first: a handler that has become quick claims the most.
    (0..SMALL).for_each(|nth| drop(world.expect("custom", &custom(format!(r#"{{"id":"small_{nth}"}}"#)), "accepted")));
    store(&world, bodies);
    let World { program, db } = world;
    drop(program);
    let world = World { program: setup.serve(), db };
    let peak = Peak::watch(world.program.pid());
    let open = format!("select count(*) from {} where state in ('ready', 'claimed')", world.db.table("deliveries"));
    let patience = PATIENCE * 3 + Duration::from_millis(400) * u32::try_from(bodies).expect("it fits");
    wait_until("everything is handled", patience, || world.db.query(&open) == [["0"]]);
    wait_for_states(&world, "large", &["done"]);
    (world, bodies, peak.end())
}

fn store(world: &World, bodies: usize) {
    let filler = "x".repeat(BODY_BYTES);
    for nth in 0..bodies {
        let answer = world.post("custom", &custom(format!(r#"{{"id":"large_{nth}","filler":"{filler}"}}"#)));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

fn judge(world: &World, what: &str, bodies: usize, peak: u64) {
    println!("{what} on {:?}: {bodies} bodies of 4 MB, at most {} MB in memory", world.db.backend(), peak / 1_000_000);
    assert!(peak < RSS_MAX, "{peak} bytes in memory");
}

/// The most memory that a process has while it is watched.
struct Peak {
    most: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    watching: std::thread::JoinHandle<()>,
}

impl Peak {
    fn watch(pid: u32) -> Self {
        let (most, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (seen, ended) = (most.clone(), over.clone());
        let watching = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
                let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
                let kilobytes = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
                seen.fetch_max(kilobytes.unwrap_or(0) * 1024, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Self { most, over, watching }
    }

    fn end(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.watching.join();
        self.most.load(Ordering::Relaxed)
    }
}
