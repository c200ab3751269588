//! Death at each named fault point: the process stops exactly there, and the sender's retry makes it right.

use testkit::http::Connection;
use testkit::{TestDatabase, contract};

use crate::world::{PATIENCE, Setup, World, custom, stripe};

/// On the way of one event, in order.
const POINTS: [&str; 6] =
    ["store.begin", "events.referee", "events.write", "events.written", "store.commit", "store.committed"];

contract! {
    async fn an_event_survives_death_at_every_point(db: TestDatabase) {
        let url = db.url().to_owned();
        let mut db = db;
        for (number, point) in POINTS.iter().enumerate() {
            // The second passage: the first event is already stored and must not be harmed.
            // Nobody works beside it: the passages counted are those of ingest.
            let armed = Setup::new(&url).server("workers = false").env("ONCEBOX_FAULTS", &format!("{point}=abort@2"));
            let mut program = armed.serve();
            let (before, wanted) = (stripe(&format!("before_{number}")), stripe(&format!("wanted_{number}")));
            assert_eq!(before.post(program.public_addr(), "stripe").status, 200, "{point}");
            let mut connection = Connection::open(program.public_addr()).expect("it listens");
            connection.send(&wanted.raw("stripe", program.public_addr())).expect("sent");
            assert!(connection.read_answer().is_err(), "{point}: no answer from the dead");
            let status = program.wait_exit(PATIENCE);
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGABRT), "{point}: {status}");
            drop(program);

            let world = World { program: Setup::new(&url).serve(), db };
            let expected = if *point == "store.committed" { "duplicate" } else { "accepted" };
            let key = world.expect("stripe", &wanted, expected);
            assert_eq!(world.body(&key), wanted.body, "{point}");
            assert_eq!(world.deliveries(&key), ["ready"], "{point}");
            world.expect_nothing_stored(|| {
                world.expect("stripe", &wanted, "duplicate");
                world.expect("stripe", &before, "duplicate");
            });
            let counts = world.row_counts();
            let events = 2 * (i64::try_from(number).expect("it fits") + 1);
            assert_eq!([counts["ledger"], counts["events"], counts["payloads"], counts["deliveries"]], [events; 4], "{point}");
            db = world.db;
        }
    }

    async fn a_migration_survives_death(db: TestDatabase) {
        let mut program = Setup::new(db.url()).env("ONCEBOX_FAULTS", "store.migrate=abort").launch();
        assert!(!program.wait_exit(PATIENCE).success());
        drop(program);
        World::start(db).expect("custom", &custom(r#"{"id":"a"}"#), "accepted");
    }

    async fn an_unknown_commit_is_503_and_the_retry_settles_it(db: TestDatabase) {
        for (point, expected) in [("store.commit=unknown@1", None), ("store.commit=fail@1", Some("accepted")), ("store.committed=unknown@1", Some("duplicate"))] {
            let setup = Setup::new(db.url()).server("workers = false").env("ONCEBOX_FAULTS", point);
            let program = setup.serve();
            let signed = stripe(point);
            let answer = signed.post(program.public_addr(), "stripe");
            assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{point}: {}", answer.text());
            let again = signed.post(program.public_addr(), "stripe");
            assert_eq!(again.status, 200, "{point}");
            if let Some(expected) = expected {
                assert_eq!(again.json()["status"], expected, "{point}");
            }
        }
        assert_eq!(db.count(&db.table("events")), 3);
    }
}
