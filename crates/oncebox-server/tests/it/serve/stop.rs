//! SIGTERM under load loses nothing and resets nobody; SIGHUP takes a new config whole or not at all.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::http::{self, Answer, Connection, UnderWay};
use testkit::ledger::{Ledger, Outcome, Signature};
use testkit::program::Program;
use testkit::sender::{self, Signed};
use testkit::{TestDatabase, contract};

use crate::world::{GITHUB, PATIENCE, Setup, World, custom, github, wait_until};

const SENDERS: usize = 16;
const UNDER_WAY: usize = 24;

contract! {
    async fn a_stop_under_load_answers_what_was_accepted(db: TestDatabase) {
        let mut world = World::start(db);
        let addr = world.addr().to_owned();
        let load = Load {
            addr: &addr,
            ledger: Ledger::new("stop"),
            answered: AtomicUsize::new(0),
            cut: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        };
        let status = thread::scope(|scope| {
            let load = &load;
            for sender in 0..SENDERS {
                scope.spawn(move || send_until_refused(load, sender));
            }
            wait_until("the load runs", PATIENCE, || load.answered.load(Ordering::Acquire) > 100);
            let asked = Instant::now();
            world.program.signal(libc::SIGTERM);
            let status = world.program.wait_exit(Duration::from_secs(20));
            println!("stop: exit after {:?}", asked.elapsed());
            load.stopped.store(true, Ordering::Release);
            status
        });
        assert_eq!(status.code(), Some(0));
        assert_eq!(load.cut.load(Ordering::Acquire), 0, "a request that was taken got no answer");
        load.ledger.check(&world.db).assert_clean();
        assert_eq!(load.ledger.count(Outcome::Fail), 0);
        assert!(world.program.log().contains("stopped"));
    }

    async fn whoever_is_connected_at_a_stop_is_answered(db: TestDatabase) {
        let mut world = World::start(db);
        let signed = |number: usize| custom(format!(r#"{{"id":"waiting_{number}"}}"#));
        // While it cannot run, the kernel makes its connections and keeps what they send.
        world.program.signal(libc::SIGSTOP);
        let mut waiting: Vec<Connection> =
            (0..SENDERS).map(|number| begin(&world, &signed(number).raw("custom", world.addr()))).collect();
        world.program.signal(libc::SIGTERM);
        world.program.signal(libc::SIGCONT);
        let answers: Vec<Option<Answer>> =
            waiting.iter_mut().map(|connection| Some(connection.read_answer().expect("an answer"))).collect();
        assert_eq!(world.program.wait_exit(PATIENCE).code(), Some(0));
        expect_settled_by_a_retry(&mut world, "waiting", &answers, signed);
    }

    async fn whoever_sends_on_an_open_connection_at_a_stop_can_send_again(db: TestDatabase) {
        let mut world = World::start(db);
        let signed = |number: usize| custom(format!(r#"{{"id":"open_{number}"}}"#));
        let mut open: Vec<Connection> = (0..SENDERS).map(|_| begin(&world, &warm(&world))).collect();
        for connection in &mut open {
            assert_eq!(connection.read_answer().expect("an answer").status, 200);
        }
        world.program.signal(libc::SIGSTOP);
        for (number, connection) in open.iter_mut().enumerate() {
            connection.send(&signed(number).raw("custom", world.addr())).expect("sent");
        }
        world.program.signal(libc::SIGTERM);
        world.program.signal(libc::SIGCONT);
        // One that was idle when the stop was noticed is closed, as any idle connection may be at any time.
        let answers: Vec<Option<Answer>> = open.iter_mut().map(|connection| connection.read_answer().ok()).collect();
        assert_eq!(world.program.wait_exit(PATIENCE).code(), Some(0));
        expect_settled_by_a_retry(&mut world, "open", &answers, signed);
    }

    async fn whoever_comes_after_a_stop_was_noticed_is_sent_away(db: TestDatabase) {
        let mut world = World::start(db);
        let mut idle = begin(&world, &warm(&world));
        assert_eq!(idle.read_answer().expect("an answer").status, 200);
        let late = custom(r#"{"id":"late"}"#).raw("custom", world.addr());
        let (early, rest) = late.split_at(30);
        let mut begun = begin(&world, early);
        // Keeps the server from ending: a request that it has begun to read.
        let slow = custom(r#"{"id":"slow"}"#).raw("custom", world.addr());
        let mut held = UnderWay::all(world.addr(), [slow]);
        let before = world.row_counts();
        let addr = world.addr().to_owned();
        world.program.signal(libc::SIGTERM);
        wait_until("it no longer listens", PATIENCE, || Connection::open(&addr).is_err());
        begun.send(rest).expect("sent");
        expect_sent_away(&begun.read_answer().expect("an answer"));
        assert!(begun.is_closed_within(PATIENCE), "it hears nothing more from this connection");
        // Sending fails if the connection is closed by now.
        let sent = idle.send(&late).and_then(|()| idle.read_answer());
        if let Ok(answer) = sent {
            expect_sent_away(&answer);
        }
        assert_eq!(world.row_counts(), before, "neither is stored");
        held.send_bodies();
        assert_eq!(held.outcomes()[0].status(), Some(200), "what was under way is finished");
        assert_eq!(world.program.wait_exit(PATIENCE).code(), Some(0));
        world.program.restart();
        world.expect_stored(1, 1, || world.expect("custom", &custom(r#"{"id":"late"}"#), "accepted"));
    }

    async fn requests_under_way_are_finished_before_the_end(db: TestDatabase) {
        let mut world = World::start(db);
        let wire = |number: usize| custom(format!(r#"{{"id":"under_way_{number}"}}"#)).raw("custom", world.addr());
        let mut slow = UnderWay::all(world.addr(), (0..UNDER_WAY).map(wire));
        let addr = world.addr().to_owned();
        world.program.signal(libc::SIGTERM);
        wait_until("it no longer listens", PATIENCE, || Connection::open(&addr).is_err());
        assert!(world.program.exited().is_none(), "it waits for what is under way");
        slow.send_bodies();
        let answers: Vec<Option<u16>> = slow.outcomes().iter().map(testkit::http::Outcome::status).collect();
        assert_eq!(answers, [Some(200); UNDER_WAY]);
        assert_eq!(world.program.wait_exit(PATIENCE).code(), Some(0));
        let stored = format!("select count(*) from {} where event_id like 'under_way%'", world.db.table("events"));
        assert_eq!(world.db.query(&stored)[0][0], UNDER_WAY.to_string());
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
        changed.rest.push_str("[[destination]]\nname = \"crm\"\nurl = \"http://127.0.0.1:9/\"\n");
        reload(&mut world, &changed, "(added added; removed custom)");
        assert!(world.program.log().contains("1 destination (added crm)"), "{}", world.program.log());
        world.expect("added", &fresh, "accepted");
        world.expect_nothing_stored(|| assert_eq!(world.post("custom", &fresh).status, 404));
        world.expect("github", &github("d-1", &serde_json::json!({})), "accepted");
        let elsewhere = setup.clone().server("in_flight = 7").server("body_limit = \"2MiB\"");
        reload(&mut world, &elsewhere, "a reload leaves server.in_flight as it was; restart to change it");
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

    async fn signals_are_heard_while_it_starts(db: TestDatabase) {
        let setup = Setup::new(db.url());
        // The first moment somebody outside can know that it starts: nothing is answered yet.
        let bound = |program: &Program| {
            wait_until("it listens", PATIENCE, || Connection::open(program.admin_addr()).is_ok());
        };
        let mut reloaded = setup.launch();
        bound(&reloaded);
        reloaded.signal(libc::SIGHUP);
        wait_until("it reloads once it serves", PATIENCE, || reloaded.log().contains("reloaded: "));
        assert!(reloaded.exited().is_none());
        reloaded.kill9();
        let mut stopped = setup.launch();
        bound(&stopped);
        stopped.signal(libc::SIGTERM);
        assert_eq!(stopped.wait_exit(PATIENCE).code(), Some(0), "{}", stopped.log());
    }

    async fn a_secret_is_counted_under_its_name_wherever_it_stands(db: TestDatabase) {
        let setup = Setup::new(db.url()).env("OLD_SECRET", "old-secret").env("NEW_SECRET", "new-secret");
        let with = |secrets: &str| {
            let mut changed = setup.clone();
            changed.rest = setup.rest.replace(&format!("{{ value = \"{GITHUB}\" }}"), secrets);
            changed
        };
        let mut world = World { program: with("{ env = \"OLD_SECRET\" }").serve(), db };
        let by = |secret: &str, id: &str| -> Signed { sender::github(secret, id, "push", &serde_json::json!({ "n": id })) };
        let file = world.program.dir().join("third");
        std::fs::write(&file, "third-secret\n").expect("written");
        world.expect("github", &by("old-secret", "1"), "accepted");
        let new_first = format!("{{ env = \"NEW_SECRET\" }}, {{ env = \"OLD_SECRET\" }}, {{ file = {file:?} }}");
        reload(&mut world, &with(&new_first), "reloaded");
        for (secret, id) in [("new-secret", "2"), ("old-secret", "3"), ("third-secret", "4")] {
            world.expect("github", &by(secret, id), "accepted");
        }
        for line in [
            r#"oncebox_secret_matches_total{source="github",secret="1",name="OLD_SECRET"} 1"#,
            r#"oncebox_secret_matches_total{source="github",secret="1",name="NEW_SECRET"} 1"#,
            r#"oncebox_secret_matches_total{source="github",secret="2",name="OLD_SECRET"} 1"#,
            r#"oncebox_secret_matches_total{source="github",secret="3",name="third"} 1"#,
            r#"oncebox_secret_matches_total{source="stripe",secret="1"} 0"#,
        ] {
            assert!(world.metrics().lines().any(|found| found == line), "{line}: {}", world.metrics());
        }
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

/// Opens a connection and sends the beginning of a request.
fn begin(world: &World, bytes: &[u8]) -> Connection {
    let mut connection = Connection::open(world.addr()).expect("it listens");
    connection.send(bytes).expect("sent");
    connection
}

/// A request that leaves its connection open, and is a duplicate from the second time on.
fn warm(world: &World) -> Vec<u8> {
    custom(r#"{"id":"warm"}"#).raw("custom", world.addr())
}

/// A refusal at a stop: come again.
#[track_caller]
fn expect_sent_away(answer: &Answer) {
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(answer.json()["status"], 503);
}

/// What was answered 200 is stored and what was not is not; sent again after a start, each is there once.
fn expect_settled_by_a_retry(
    world: &mut World,
    prefix: &str,
    answers: &[Option<Answer>],
    signed: impl Fn(usize) -> Signed,
) {
    let (events, prefix) = (world.db.table("events"), format!("'{prefix}%'"));
    let mut expected = Vec::new();
    for (number, answer) in answers.iter().enumerate() {
        match answer {
            Some(answer) if answer.status == 200 => expected.push(number),
            Some(answer) => expect_sent_away(answer),
            None => {}
        }
    }
    let answered = answers.iter().flatten().count();
    println!("stop: {} sent, {answered} answered, {} of them 200", answers.len(), expected.len());
    let stored = format!("select count(*) from {events} where event_id like {prefix}");
    assert_eq!(world.db.query(&stored), [[expected.len().to_string()]]);
    world.program.restart();
    for number in 0..answers.len() {
        let word = if expected.contains(&number) { "duplicate" } else { "accepted" };
        world.expect("custom", &signed(number), word);
    }
    assert_eq!(world.db.query(&stored), [[answers.len().to_string()]]);
}

/// Writes a config, asks for a reload and waits until the log tells how it went.
fn reload(world: &mut World, setup: &Setup, outcome: &str) {
    let before = world.program.log().matches(outcome).count();
    world.program.write_config(&setup.text());
    world.program.signal(libc::SIGHUP);
    wait_until(outcome, PATIENCE, || world.program.log().matches(outcome).count() > before);
}

/// Sends one request per connection until the server is gone, and counts those that it had taken and left unanswered.
fn send_until_refused(load: &Load<'_>, sender: usize) {
    for number in 0.. {
        if load.stopped.load(Ordering::Acquire) {
            return;
        }
        let Ok(mut connection) = Connection::open(load.addr) else { return };
        let id = format!("evt_{sender}_{number}");
        let signed = custom(format!(r#"{{"id":"{id}"}}"#));
        let sent = connection.send(&signed.raw("custom", load.addr));
        let status = sent.and_then(|()| connection.read_answer()).map(|answer| answer.status).ok();
        load.ledger.record("custom", &id, &signed.body, Signature::Good, status);
        match status {
            Some(200) => drop(load.answered.fetch_add(1, Ordering::AcqRel)),
            Some(_) => {}
            // The kernel takes connections before the program does; those end when the listener goes.
            None if Connection::open(load.addr).is_err() => return,
            None => drop(load.cut.fetch_add(1, Ordering::AcqRel)),
        }
    }
}

struct Load<'a> {
    addr: &'a str,
    ledger: Ledger,
    answered: AtomicUsize,
    cut: AtomicUsize,
    stopped: AtomicBool,
}
