//! Every fault point of a run in turn fails or loses its result: nothing is half gone, and the next run ends the work.

use std::collections::BTreeSet;

use oncebox::gateway::fault::Faults;
use testkit::{Backend, TestDatabase};

use super::{DAY, LEDGER, PAYLOAD, aged, aging, check, has_payload, literal, lock_is_free, now, run, stored, try_run};
use crate::world::{SOURCE, World};

/// More points than one run passes.
const POINTS_MAX: usize = 300;

testkit::contract! {
    async fn whatever_fails(db: TestDatabase) {
        sweep(db, "fail").await;
    }

    async fn whatever_result_is_lost(db: TestDatabase) {
        sweep(db, "unknown").await;
    }
}

async fn sweep(db: TestDatabase, action: &str) {
    let world = aging(db).await;
    let mut entered = BTreeSet::new();
    for nth in 1..POINTS_MAX {
        let (needed, over) = fill(&world, nth).await;
        let faults = Faults::parse(&format!("*={action}@{nth}")).unwrap();
        let outcome = try_run(&world.store.clone().with_faults(faults.clone())).await;
        check(&world);
        assert!(has_payload(&world, needed).await, "at point {nth}");
        assert_eq!(world.count("outbox"), world.count("outbox_contents"), "at point {nth}");
        let passed = faults.passed();
        entered.extend(passed.get(nth - 1).copied());
        run(&world).await;
        check(&world);
        assert!(has_payload(&world, needed).await && !has_payload(&world, over).await, "after point {nth}");
        assert_eq!((world.count("outbox"), world.count("outbox_contents")), (0, 0), "after point {nth}");
        if passed.len() < nth {
            assert!(outcome.is_ok(), "nothing was armed: {outcome:?}");
            return check_entered(&world, &entered);
        }
    }
    panic!("the sweep never came to its end");
}

/// One that is needed, one whose payload is over, one that is over altogether; on Postgres also a day of its own.
async fn fill(world: &World, nth: usize) -> (oncebox::gateway::event::EventKey, oncebox::gateway::event::EventKey) {
    if world.db.backend() == Backend::Postgres {
        old_day(world, nth).await;
    }
    let needed = stored(world, aged(world, SOURCE, &format!("dead_{nth}"), PAYLOAD + 6 * DAY), "dead").await;
    let over = stored(world, aged(world, SOURCE, &format!("over_{nth}"), PAYLOAD + 6 * DAY), "done").await;
    stored(world, aged(world, SOURCE, &format!("gone_{nth}"), LEDGER + DAY), "done").await;
    old_message(world, nth);
    (needed, over)
}

fn old_message(world: &World, nth: usize) {
    let at = now() - 91 * DAY;
    let id = literal(world, oncebox::gateway::event::KeyMaker::default().make::<()>(at));
    let (outbox, contents) = (world.db.table("outbox"), world.db.table("outbox_contents"));
    let body = if world.db.backend() == Backend::Sqlite { "x''" } else { "''" };
    world.db.execute(&format!(
        "insert into {outbox} (id, destination, size, state, due_at_ms, created_at_ms) values ({id}, 'crm', 0, 'sent', 1, {at})"
    ));
    world.db.execute(&format!("insert into {contents} (id, idempotency_key, body) values ({id}, '{nth}', {body})"));
}

/// The day in which the payloads of this round lie; what an earlier round kept of it is out of its way.
async fn old_day(world: &World, nth: usize) {
    world.db.execute("delete from oncebox.payloads_rest; delete from oncebox.deliveries; delete from oncebox.events; delete from oncebox.ledger; delete from oncebox.attempts");
    let day = now() - 20 * DAY;
    let day = day - day.rem_euclid(DAY);
    let (from, to) = (oncebox::gateway::event::EventKey::at(day), oncebox::gateway::event::EventKey::at(day + DAY));
    let lock = loop {
        if let Some(lock) = world.store.lock_retention().await.unwrap() {
            break lock;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    let one = oncebox::gateway::store::Partition { name: format!("payloads_d{nth}"), from, to };
    assert_eq!(world.store.make_partition(&lock, &one).await.unwrap(), oncebox::gateway::store::Exclusive::Done);
    drop(lock);
    lock_is_free(world).await;
}

fn check_entered(world: &World, entered: &BTreeSet<&str>) {
    let mut points = vec![
        "retention.look",
        "retention.payloads",
        "retention.payloads_removed",
        "retention.events",
        "retention.messages",
    ];
    if world.db.backend() == Backend::Postgres {
        points.extend(["retention.drop_partition", "retention.detached", "retention.kept", "retention.dropped"]);
    }
    for point in points {
        assert!(entered.contains(point), "{point} was never entered: {entered:?}");
    }
}
