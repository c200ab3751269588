//! Death at every named point of processing: the next process makes it right, and no effect is there twice.

use testkit::effects::EffectReport;
use testkit::{TestDatabase, contract};

use super::nodes::with_handlers;
use super::{LEDGER, delivery, effects, event, send, wait_for_states};
use crate::world::{PATIENCE, World};

/// On the way of a delivery; the plain ones are passed by the start of the workers, too.
const POINTS: [&str; 12] = [
    "deliveries.claim",
    "deliveries.claimed",
    "deliveries.effect",
    "deliveries.finish",
    "deliveries.fail",
    "store.begin@4",
    "store.commit@2",
    "store.commit@3",
    "store.commit@4",
    "store.commit@5",
    "store.committed@4",
    "store.committed@5",
];

contract! {
    async fn an_effect_is_there_once_after_death_at_every_point(db: TestDatabase) {
        db.execute("create table effects (event_id text, event_key text, attempt integer check (event_id <> 'evt_0'))");
        let handlers = LEDGER.replace("attempts = 3", "attempts = 50").replace("sources = [\"custom\"]\n", "sources = [\"custom\"]\ntypes = [\"load\"]\n");
        let setup = with_handlers(&db, &handlers);
        let mut db = db;
        for (number, point) in POINTS.iter().enumerate() {
            let world = World { program: setup.clone().server("workers = false").serve(), db };
            let first = 1 + number * 5;
            (first..first + 5).for_each(|n| drop(world.expect("custom", &event(n), "accepted")));
            if *point == "deliveries.fail" {
                world.expect("custom", &event(0), "accepted");
            }
            let World { program, db: kept } = world;
            drop(program);
            let plan = point.split_once('@').map_or(format!("{point}=abort"), |(point, nth)| format!("{point}=abort@{nth}"));
            let mut dying = setup.clone().env("ONCEBOX_FAULTS", &plan).launch();
            let status = dying.wait_exit(PATIENCE);
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGABRT), "{point}: {status}");
            drop(dying);
            if *point == "deliveries.fail" {
                // Enough of the one that always fails.
                kept.execute(&format!("update {} set state = 'discarded' where key in (select key from {} where event_id = 'evt_0')",
                    kept.table("deliveries"), kept.table("events")));
            }
            let world = World { program: setup.serve(), db: kept };
            wait_for_states(&world, "ledger", &["done", "discarded"]);
            let report = EffectReport::of(&world.db, "ledger");
            report.assert_clean();
            assert_eq!(world.db.count("effects"), i64::try_from(5 * (number + 1)).expect("it fits"), "{point}");
            db = world.db;
        }
    }
    /// Whatever is claimed together goes down together; only the one that does it may die of that.
    async fn one_event_that_kills_the_process_takes_no_others_along(db: TestDatabase) {
        const EVENTS: usize = 200;
        const KILLER: usize = 70;
        db.execute("create table effects (event_id text, event_key text, attempt integer)");
        let setup = with_handlers(&db, LEDGER);
        let world = World { program: setup.clone().server("workers = false").serve(), db };
        send(&world, 0..EVENTS);
        let World { program, mut db } = world;
        drop(program);
        let deadly = setup.env("ONCEBOX_FAULTS", &format!("deliveries.effect:evt_{KILLER}=abort"));
        for crash in 1..=3 {
            let mut program = deadly.launch();
            assert!(!program.wait_exit(PATIENCE).success(), "crash {crash}");
            let lost = db.query(&format!("select count(*) from {} where state = 'claimed'", db.table("deliveries")));
            println!("crash {crash} on {:?}: {} deliveries were in hand", db.backend(), lost[0][0]);
        }
        let world = World { program: deadly.serve(), db };
        wait_for_states(&world, "ledger", &["done", "dead"]);
        let (state, attempt, error) = delivery(&world, "ledger", &format!("evt_{KILLER}"));
        assert_eq!((state.as_str(), attempt), ("dead", 3), "{error}");
        let others = i64::try_from(EVENTS - 1).expect("it fits");
        assert_eq!(effects(&world), (others, others), "nobody else died");
        db = world.db;
        EffectReport::of(&db, "ledger").assert_clean();
    }
}
