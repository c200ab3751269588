//! SIGTERM under load loses nothing and resets nobody; SIGHUP takes a new config whole or not at all.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::http::{self, Connection};
use testkit::ledger::{Ledger, Outcome, Signature};
use testkit::sender::{self, Signed};
use testkit::{TestDatabase, contract};

use crate::world::{GITHUB, PATIENCE, Setup, World, custom, github, wait_until};

const SENDERS: usize = 16;

contract! {
    async fn a_stop_under_load_answers_what_was_accepted(db: TestDatabase) {
        let mut world = World::start(db);
        let ledger = Ledger::new("stop");
        let (answered, cut) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let stopped = AtomicBool::new(false);
        let addr = world.addr().to_owned();
        thread::scope(|scope| {
            for sender in 0..SENDERS {
                let (ledger, answered, cut, stopped, addr) = (&ledger, &answered, &cut, &stopped, &addr);
                scope.spawn(move || send_until_refused(addr, sender, ledger, answered, cut, stopped));
            }
            wait_until("the load runs", PATIENCE, || answered.load(Ordering::Acquire) > 100);
            let asked = Instant::now();
            world.program.signal(libc::SIGTERM);
            let status = world.program.wait_exit(Duration::from_secs(20));
            println!("stop: exit after {:?}", asked.elapsed());
            stopped.store(true, Ordering::Release);
            assert_eq!(status.code(), Some(0));
        });
        assert_eq!(cut.load(Ordering::Acquire), 0, "a request on an accepted connection got no answer");
        ledger.check(&world.db).assert_clean();
        assert_eq!(ledger.count(Outcome::Fail), 0);
        assert!(world.program.log().contains("stopped"));
    }

    async fn a_request_under_way_is_finished_before_the_end(db: TestDatabase) {
        let mut world = World::start(db);
        let signed = custom(r#"{"id":"under way"}"#);
        let wire = signed.raw("custom", world.addr());
        let (head, tail) = wire.split_at(wire.len() - 3);
        let mut slow = Connection::open(world.addr()).expect("it listens");
        slow.send(head).expect("sent");
        // A second request on the same socket would wait; this one shows that the first was seen.
        wait_until("the head is read", PATIENCE, || world.post("custom", &custom(r#"{"id":"probe"}"#)).status == 200);
        world.program.signal(libc::SIGTERM);
        wait_until("it no longer listens", PATIENCE, || Connection::open(world.addr()).is_err());
        assert!(world.program.exited().is_none(), "it waits for the request under way");
        slow.send(tail).expect("sent");
        let answer = slow.read_answer().expect("an answer");
        // Stored, or turned away with the promise of a retry: never silence.
        assert!(matches!(answer.status, 200 | 503), "{}", answer.text());
        assert_eq!(world.program.wait_exit(PATIENCE).code(), Some(0));
        let stored = world.db.query(&format!("select count(*) from {} where event_id = 'under way'", world.db.table("events")));
        assert_eq!(stored[0][0] == "1", answer.status == 200);
    }

    async fn a_stop_does_not_wait_for_idle_connections(db: TestDatabase) {
        let mut world = World::start_with(db, |setup| setup.server("grace = \"20s\""));
        let mut idle = Connection::open(world.addr()).expect("it listens");
        idle.send(&custom(r#"{"id":"a"}"#).raw("custom", world.addr())).expect("sent");
        assert_eq!(idle.read_answer().expect("an answer").status, 200);
        let asked = Instant::now();
        world.program.signal(libc::SIGINT);
        assert_eq!(world.program.wait_exit(PATIENCE).code(), Some(0));
        assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
    }

    async fn a_reload_adds_and_removes_sources(db: TestDatabase) {
        let setup = Setup::new(db.url());
        let mut world = World { program: setup.serve(), db };
        let fresh = custom(r#"{"id":"a"}"#);
        world.expect_nothing_stored(|| assert_eq!(world.post("added", &fresh).status, 404));
        let mut changed = setup.clone();
        changed.rest = setup.rest.replace("name = \"custom\"", "name = \"added\"");
        reload(&mut world, &changed, "reloaded");
        world.expect("added", &fresh, "accepted");
        world.expect_nothing_stored(|| assert_eq!(world.post("custom", &fresh).status, 404));
        world.expect("github", &github("d-1", &serde_json::json!({})), "accepted");
        reload(&mut world, &setup, "reloaded");
        assert_eq!(world.post("added", &fresh).status, 404);
    }

    async fn a_bad_config_is_refused_as_a_whole(db: TestDatabase) {
        let setup = Setup::new(db.url());
        let mut world = World { program: setup.serve(), db };
        let mut bad = setup.clone();
        // One good new source and one bad one: neither counts.
        bad.rest = setup.rest.replace("name = \"custom\"", "name = \"added\"");
        bad.rest.push_str("[[source]]\nname = \"broken\"\nprovider = \"stripe\"\nsecrets = [{ env = \"ONCEBOX_NOT_SET\" }]\n");
        reload(&mut world, &bad, "reload refused");
        assert_eq!(world.post("added", &custom(r#"{"id":"a"}"#)).status, 404);
        assert_eq!(world.post("broken", &custom(r#"{"id":"a"}"#)).status, 404);
        world.expect("custom", &custom(r#"{"id":"a"}"#), "accepted");
        world.program.write_config("this is [ not toml");
        world.program.signal(libc::SIGHUP);
        wait_until("it is refused", PATIENCE, || world.program.log().matches("reload refused").count() == 2);
        world.expect("custom", &custom(r#"{"id":"b"}"#), "accepted");
    }

    async fn a_secret_is_rotated_without_a_gap(db: TestDatabase) {
        let setup = Setup::new(db.url());
        let mut world = World { program: setup.serve(), db };
        let with = |secrets: &str| {
            let mut changed = setup.clone();
            changed.rest = setup.rest.replace(&format!("[{{ value = \"{GITHUB}\" }}]"), secrets);
            changed
        };
        let by = |secret: &str, id: &str| -> Signed { sender::github(secret, id, "push", &serde_json::json!({ "n": id })) };
        world.expect("github", &by(GITHUB, "1"), "accepted");
        world.expect_401("github", &by("fresh-secret", "2"));
        reload(&mut world, &with(&format!("[{{ value = \"{GITHUB}\" }}, {{ value = \"fresh-secret\" }}]")), "reloaded");
        world.expect("github", &by(GITHUB, "3"), "accepted");
        world.expect("github", &by("fresh-secret", "2"), "accepted");
        let second = r#"oncebox_secret_matches_total{source="github",secret="2"} 1"#;
        assert!(world.metrics().contains(second), "{}", world.metrics());
        reload(&mut world, &with("[{ value = \"fresh-secret\" }]"), "reloaded");
        world.expect_nothing_stored(|| world.expect_401("github", &by(GITHUB, "4")));
        world.expect("github", &by("fresh-secret", "4"), "accepted");
        let sources = http::get(world.program.admin_addr(), "/api/v1/sources", &[]).text();
        assert!(!sources.contains("fresh-secret"), "{sources}");
    }
}

/// Writes a config, asks for a reload and waits until the log tells how it went.
fn reload(world: &mut World, setup: &Setup, outcome: &str) {
    let before = world.program.log().matches(outcome).count();
    world.program.write_config(&setup.text());
    world.program.signal(libc::SIGHUP);
    wait_until(outcome, PATIENCE, || world.program.log().matches(outcome).count() > before);
}

/// Sends on kept connections. Once the server stops, a new connection or an idle one may end; a request for which
/// the server has answered before on this connection within the same moment may not go unanswered.
fn send_until_refused(
    addr: &str,
    sender: usize,
    ledger: &Ledger,
    answered: &AtomicUsize,
    cut: &AtomicUsize,
    stopped: &AtomicBool,
) {
    let mut number = 0;
    while !stopped.load(Ordering::Acquire) {
        // A connection of its own for each request: accepted means that its request is answered.
        let Ok(mut connection) = Connection::open(addr) else { return };
        let id = format!("evt_{sender}_{number}");
        let signed = custom(format!(r#"{{"id":"{id}"}}"#));
        number += 1;
        let sent = connection.send(&signed.raw("custom", addr));
        let answer = sent.and_then(|()| connection.read_answer());
        let status = answer.as_ref().ok().map(|answer| answer.status);
        ledger.record("custom", &id, &signed.body, Signature::Good, status);
        match status {
            Some(200) => drop(answered.fetch_add(1, Ordering::AcqRel)),
            Some(_) => {}
            // The kernel accepts before the program does: such a connection is reset when the listener goes.
            None if Connection::open(addr).is_err() => return,
            None => drop(cut.fetch_add(1, Ordering::AcqRel)),
        }
    }
}
