//! The database goes away under load: 503 and nothing else, and the first 2xx soon after its return.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection as Sqlite;
use testkit::database::postgres_query;
use testkit::http::{self, Connection};
use testkit::ledger::{Ledger, Signature};
use testkit::postgres::{Cluster, Mode, Options};
use testkit::proxy::Proxy;
use testkit::{Backend, TestDatabase};

use crate::world::{PATIENCE, Setup, World, custom, wait_until};

const SENDERS: usize = 8;
/// What is promised; a shared machine may stall in one round, not in most of them.
const BACK_WITHIN: Duration = Duration::from_secs(2);
const BACK_AT_LAST: Duration = Duration::from_secs(5);
const LONG_AWAY: Duration = Duration::from_secs(4);

#[test]
fn a_stopped_postgres_is_503_until_it_is_back() {
    let mut cluster = Cluster::start(Options::default());
    let world = World::start(TestDatabase::fresh_on(&cluster));
    let load = Load::new(&world);
    let mut returns = Vec::new();
    load.run(|| {
        for (round, mode) in
            [Mode::Fast, Mode::Immediate, Mode::Fast, Mode::Immediate, Mode::Fast].into_iter().enumerate()
        {
            load.wait_for(200);
            cluster.stop(mode);
            load.wait_for(503);
            wait_until("/readyz is 503", PATIENCE, || ready(&world) == 503);
            assert_eq!(http::get(world.addr(), "/healthz", &[]).status, 200);
            if round == 0 {
                // However long it was away.
                let away = Instant::now();
                wait_until("it is away for long", PATIENCE, || away.elapsed() > LONG_AWAY);
            }
            cluster.start_again();
            let took = load.wait_for(200);
            println!("outage, {mode:?} stop: first 2xx {took:?} after Postgres was back");
            assert!(took < BACK_AT_LAST, "{took:?}");
            returns.push(took);
            wait_until("/readyz is 200", PATIENCE, || ready(&world) == 200);
        }
    });
    returns.sort_unstable();
    assert!(returns[returns.len() / 2] < BACK_WITHIN, "the median of {returns:?}");
    load.judge(&world);
}

#[test]
fn a_broken_link_never_makes_a_false_promise() {
    let db = TestDatabase::fresh(Backend::Postgres);
    let port = Cluster::shared().port();
    let proxy = Proxy::start(port);
    let setup = Setup::new(&proxy.through(db.url(), port));
    let world = World { program: setup.serve(), db };
    let load = Load::new(&world);
    load.run(|| {
        for round in 0..6 {
            load.wait_for(200);
            match round % 3 {
                0 => proxy.cut(),
                1 => proxy.deafen(),
                _ => proxy.stall(),
            }
            let broken = Instant::now();
            if round % 3 == 0 {
                load.wait_for(503);
            }
            // A deaf or stalled link shows only by its silence: let requests run into it.
            wait_until("requests wait for the link", PATIENCE, || broken.elapsed() > Duration::from_millis(300));
            proxy.resume();
            let took = load.wait_for(200);
            println!("outage, link broken in way {}: first 2xx {took:?} after it was put right", round % 3);
        }
    });
    load.judge(&world);
}

#[test]
fn connections_that_a_firewall_forgot_are_all_given_up_at_once() {
    let db = TestDatabase::fresh(Backend::Postgres);
    let port = Cluster::shared().port();
    let proxy = Proxy::start(port);
    let mut setup = Setup::new(&proxy.through(db.url(), port));
    setup.store.push_str("writers = 8\n");
    let world = World { program: setup.serve(), db };
    let load = Load::new(&world);
    load.run(|| {
        for _ in 0..20 {
            load.wait_for(200);
        }
        wait_until("many are connected", PATIENCE, || proxy.connections() >= 10);
    });
    load.judge(&world);
    // One sender alone: it must not meet one lost connection after the other.
    let connected = proxy.connections();
    proxy.forget();
    let mut answers = Vec::new();
    let took = wait_until("a 2xx", Duration::from_secs(90), || {
        answers.push(world.post("custom", &custom(r#"{"id":"after"}"#)).status);
        answers.last() == Some(&200)
    });
    println!("outage, {connected} connections forgotten: {answers:?}, a 2xx after {took:?}");
    assert!(took < Duration::from_secs(20), "{took:?}: {answers:?}");
}

#[test]
fn a_deaf_link_at_commit_is_503() {
    let db = TestDatabase::fresh(Backend::Postgres);
    let port = Cluster::shared().port();
    let proxy = Proxy::start(port);
    let world = World { program: Setup::new(&proxy.through(db.url(), port)).serve(), db };
    world.expect("custom", &custom(r#"{"id":"warm"}"#), "accepted");
    proxy.deafen();
    let answer = world.post("custom", &custom(r#"{"id":"deaf"}"#));
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{}", answer.text());
    proxy.resume();
    wait_until("it stores again", PATIENCE, || world.post("custom", &custom(r#"{"id":"deaf"}"#)).status == 200);
}

#[test]
fn terminated_backends_are_replaced() {
    let world = World::start(TestDatabase::fresh(Backend::Postgres));
    let load = Load::new(&world);
    let kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                where datname = current_database() and application_name = 'oncebox'";
    load.run(|| {
        for _ in 0..20 {
            load.wait_for(200);
            // The answer may be to a commit before the last round, with nobody connected since.
            wait_until("a backend is terminated", PATIENCE, || postgres_query(world.db.url(), kill)[0][0] != "0");
        }
        load.wait_for(200);
    });
    load.judge(&world);
}

#[test]
fn a_locked_sqlite_file_is_waited_for_or_503() {
    let world = World::start(TestDatabase::fresh(Backend::Sqlite));
    world.expect("custom", &custom(r#"{"id":"warm"}"#), "accepted");
    let intruder = Sqlite::open(world.db.file().expect("SQLite has a file")).expect("it opens");
    intruder.busy_timeout(PATIENCE).expect("a timeout can be set");

    // Released in time: nobody notices.
    intruder.execute_batch("begin immediate").expect("the lock is free");
    thread::scope(|scope| {
        let started = Instant::now();
        let waiting = scope.spawn(|| world.post("custom", &custom(r#"{"id":"patient"}"#)));
        wait_until("it waits", PATIENCE, || started.elapsed() > Duration::from_millis(500));
        assert!(!waiting.is_finished(), "it cannot have stored anything");
        intruder.execute_batch("commit").expect("it ends");
        assert_eq!(waiting.join().expect("it ends").json()["status"], "accepted");
    });

    // Not released: 503, and all is well afterwards.
    intruder.execute_batch("begin immediate").expect("the lock is free");
    let started = Instant::now();
    let answer = world.post("custom", &custom(r#"{"id":"shut out"}"#));
    println!("outage, locked file: 503 after {:?}", started.elapsed());
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{}", answer.text());
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    assert_eq!(http::get(world.addr(), "/healthz", &[]).status, 200);
    intruder.execute_batch("rollback").expect("it ends");
    world.expect_stored(1, 1, || world.expect("custom", &custom(r#"{"id":"shut out"}"#), "accepted"));
}

#[test]
fn a_second_server_on_one_file_refuses_to_start() {
    let world = World::start(TestDatabase::fresh(Backend::Sqlite));
    let mut second = Setup::new(world.db.url()).launch();
    assert_eq!(second.wait_exit(PATIENCE).code(), Some(1));
    wait_until("it says why", PATIENCE, || second.log().contains("another oncebox server runs on"));
    world.expect("custom", &custom(r#"{"id":"a"}"#), "accepted");
}

fn ready(world: &World) -> u16 {
    http::get(world.program.admin_addr(), "/readyz", &[]).status
}

/// Senders that never stop, and what they were answered.
struct Load {
    addr: String,
    ledger: Ledger,
    next: AtomicUsize,
    stopping: AtomicBool,
    answered: [AtomicUsize; 2],
}

impl Load {
    fn new(world: &World) -> Self {
        Self {
            addr: world.addr().to_owned(),
            ledger: Ledger::new("outage"),
            next: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            answered: Default::default(),
        }
    }

    /// Keeps sending while something happens.
    fn run(&self, scenario: impl FnOnce()) {
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        thread::scope(|scope| {
            // Also when the scenario panics, or the senders would never end.
            let _stop = Stop(&self.stopping);
            for _ in 0..SENDERS {
                scope.spawn(|| self.send());
            }
            scenario();
        });
    }

    /// Waits until somebody is answered so, counted from now.
    fn wait_for(&self, status: u16) -> Duration {
        let count = &self.answered[usize::from(status == 503)];
        let before = count.load(Ordering::Acquire);
        wait_until(&format!("a {status}"), Duration::from_secs(30), || count.load(Ordering::Acquire) > before)
    }

    /// Only 2xx and 503 with `Retry-After`, and every 2xx stored.
    fn judge(&self, world: &World) {
        let mut statuses = BTreeMap::new();
        for record in self.ledger.records() {
            *statuses.entry(record.status).or_insert(0_usize) += 1;
        }
        println!("outage: answers {statuses:?}");
        assert!(statuses.keys().all(|status| matches!(status, Some(200 | 503))), "{statuses:?}");
        self.ledger.check(&world.db).assert_clean();
        assert!(!world.program.log().contains("panicked"));
    }

    fn send(&self) {
        let mut connection = None;
        let mut event = self.next.fetch_add(1, Ordering::Relaxed);
        while !self.stopping.load(Ordering::Acquire) {
            let signed = custom(format!(r#"{{"id":"evt_{event}"}}"#));
            let mut open = connection.take().unwrap_or_else(|| Connection::open(&self.addr).expect("it listens"));
            let sent = open.send(&signed.raw("custom", &self.addr));
            let answer = sent.and_then(|()| open.read_answer()).ok();
            let status = answer.as_ref().map(|answer| answer.status);
            self.ledger.record("custom", &format!("evt_{event}"), &signed.body, Signature::Good, status);
            match answer {
                Some(answer) if answer.status == 200 => {
                    self.answered[0].fetch_add(1, Ordering::AcqRel);
                    event = self.next.fetch_add(1, Ordering::Relaxed);
                }
                Some(answer) => {
                    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{}", answer.text());
                    self.answered[1].fetch_add(1, Ordering::AcqRel);
                }
                None => {}
            }
            connection = status.map(|_| open);
        }
    }
}
