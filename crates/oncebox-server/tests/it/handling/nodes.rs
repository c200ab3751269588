//! Nodes that stop, die, sleep and come back while they have work in hand.

use std::collections::BTreeSet;
use std::time::Duration;

use testkit::receiver::{Receiver, Reply};
use testkit::{Backend, TestDatabase, contract};

use super::{HASTY, LEDGER, delivery, effects, event, send, start, start_on, wait_for_states};
use crate::world::{PATIENCE, Setup, World, wait_until};

pub(crate) fn with_handlers(db: &TestDatabase, handlers: &str) -> Setup {
    let mut setup = Setup::new(db.url());
    setup.rest = setup.rest.replace("[[handler]]\nname = \"pull\"\npull = true\n", handlers);
    setup
}

/// A handler on Postgres that takes a few milliseconds for each event.
pub(crate) fn slow(handler: &str) -> String {
    handler.replace("values (:event_id", "select :event_id").replace(":attempt)", ":attempt from pg_sleep(0.005)")
}

contract! {
    async fn a_stop_lets_attempts_end_and_puts_the_rest_back(db: TestDatabase) {
        let receiver = Receiver::start_with(|call| {
            if call.text().contains("evt_0\"") { Reply::Hang } else { Reply::Status(200) }
        });
        db.execute("create table effects (event_id text, event_key text, attempt integer)");
        let http = format!(
            "[[handler]]\nname = \"app\"\nsources = [\"custom\"]\nlease = \"60s\"\nconcurrency = 1\n{HASTY}\
             http = {{ url = \"{}\", timeout = \"30s\" }}\n", receiver.url());
        let setup = with_handlers(&db, &http).server("grace = \"1s\"");
        let mut world = World { program: setup.serve(), db };
        send(&world, 0..5);
        wait_until("the call hangs", PATIENCE, || receiver.calls().len() == 1);
        world.program.signal(libc::SIGTERM);
        assert!(world.program.wait_exit(PATIENCE).success());
        // Cut off after its grace, and no attempt used.
        assert_eq!(delivery(&world, "app", "evt_0"), ("ready".to_owned(), 0, String::new()));
        assert_eq!(delivery(&world, "app", "evt_1"), ("ready".to_owned(), 0, String::new()));
        receiver.behave(|_| Reply::Status(200));
        world.program.restart();
        wait_for_states(&world, "app", &["done"]);
        let keys: BTreeSet<_> =
            receiver.calls().iter().map(|call| call.header("idempotency-key").map(str::to_owned)).collect();
        assert_eq!((receiver.calls().len(), keys.len()), (6, 5));
    }

    async fn a_handler_that_kills_the_process_is_dead_after_its_attempts(db: TestDatabase) {
        db.execute("create table effects (event_id text, event_key text, attempt integer)");
        let setup = with_handlers(&db, LEDGER);
        let program = setup.clone().server("workers = false").serve();
        let world = World { program, db };
        world.expect("custom", &event(1), "accepted");
        let World { program, db } = world;
        drop(program);
        for _ in 0..3 {
            let mut program = setup.clone().env("ONCEBOX_FAULTS", "deliveries.effect=abort").launch();
            assert!(!program.wait_exit(PATIENCE).success());
        }
        let world = World { program: setup.serve(), db };
        wait_for_states(&world, "ledger", &["dead"]);
        let (_, attempt, error) = delivery(&world, "ledger", "evt_1");
        assert_eq!((attempt, effects(&world)), (3, (0, 0)), "{error}");
        send(&world, 2..10);
        wait_for_states(&world, "ledger", &["dead", "done"]);
        assert_eq!(effects(&world), (8, 8));
    }

    async fn a_reload_adds_changes_and_removes_handlers(db: TestDatabase) {
        let mut world = start(db, LEDGER);
        send(&world, 0..3);
        wait_for_states(&world, "ledger", &["done"]);
        let old = std::fs::read_to_string(world.program.config_path()).expect("a config");
        let more = LEDGER.replace("\"ledger\"", "\"second\"").replace(":attempt)", "100)");
        world.program.write_config(&format!("{old}\n{more}"));
        world.program.signal(libc::SIGHUP);
        wait_until("it reloaded", PATIENCE, || world.program.log().contains("2 handlers (added second)"));
        assert!(world.program.log().contains("handler   ledger (sql)"), "the banner names the handlers");
        send(&world, 3..5);
        wait_for_states(&world, "second", &["done"]);
        wait_for_states(&world, "ledger", &["done"]);
        assert_eq!(effects(&world), (7, 5));
        // A broken statement is refused whole; the old handlers go on.
        world.program.write_config(&format!("{old}\n{}", more.replace("insert into", "commit; insert into")));
        world.program.signal(libc::SIGHUP);
        wait_until("it was refused", PATIENCE, || world.program.log().contains("reload refused"));
        // Gone from the config: its deliveries stay.
        world.program.write_config(&old.replace(LEDGER, ""));
        world.program.signal(libc::SIGHUP);
        wait_until("it reloaded again", PATIENCE, || world.program.log().matches("reloaded").count() == 2);
        world.expect("custom", &event(9), "accepted");
        assert_eq!(effects(&world), (7, 5));
    }

    async fn a_node_without_workers_only_ingests(db: TestDatabase) {
        db.execute("create table effects (event_id text, event_key text, attempt integer)");
        let world = World { program: with_handlers(&db, LEDGER).server("workers = false").serve(), db };
        send(&world, 0..3);
        std::thread::sleep(Duration::from_millis(1500));
        assert_eq!(delivery(&world, "ledger", "evt_2").0, "ready");
        let World { program, db } = world;
        drop(program);
        let world = start_on(db, LEDGER);
        wait_for_states(&world, "ledger", &["done"]);
        assert_eq!(effects(&world), (3, 3));
    }
}

/// The worst pause: a node sleeps past its leases with claims in hand, another takes over, then it wakes up.
#[test]
fn a_node_that_slept_past_its_leases_changes_nothing() {
    let db = TestDatabase::fresh(Backend::Postgres);
    db.execute("create table effects (event_id text, event_key text, attempt integer)");
    // Long enough that a test which is not scheduled for a while still finds it at work.
    let handlers = slow(LEDGER)
        .replace("0.005", "0.02")
        .replace("lease = \"5s\"", "lease = \"2s\"")
        .replace("attempts = 3", "attempts = 9");
    let other = with_handlers(&db, &handlers).server("workers = false").serve();
    let world = World { program: other, db };
    send(&world, 0..600);
    let mut sleeper = with_handlers(&world.db, &handlers).serve();
    wait_until("the sleeper works", PATIENCE, || effects(&world).0 > 50);
    let claimed = format!("select count(*) from {} where state = 'claimed'", world.db.table("deliveries"));
    let mut in_hand = String::new();
    // It may be met between two claims.
    wait_until("it sleeps with claims in hand", PATIENCE, || {
        sleeper.signal(libc::SIGSTOP);
        in_hand = world.db.query(&claimed)[0][0].clone();
        if in_hand == "0" {
            sleeper.signal(libc::SIGCONT);
        }
        in_hand != "0"
    });
    let taker = with_handlers(&world.db, &handlers).serve();
    wait_for_states(&world, "ledger", &["done"]);
    assert_eq!(effects(&world), (600, 600), "{in_hand} were in hand");
    sleeper.signal(libc::SIGCONT);
    send(&world, 600..700);
    wait_for_states(&world, "ledger", &["done"]);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(effects(&world), (700, 700), "{in_hand} were in hand");
    drop(taker);
}
