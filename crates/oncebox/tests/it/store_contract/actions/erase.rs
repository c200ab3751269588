//! Erasing a subject: its bytes go everywhere, its identity stays.

use oncebox::gateway::delivery::Next;
use oncebox::gateway::fault::Faults;
use oncebox::gateway::store::{ActionError, Depth, Erasure, Failure, Inserted, Subject, SubjectValue};
use oncebox_verify::BodyPointer;
use testkit::{Backend, TestDatabase};

use crate::store_contract::deliveries::{claim, finish, processing};
use crate::world::{NOW, SOURCE, World};

const POINTER: &str = "/data/customer";

fn of(customer: &str) -> Subject {
    Subject::Value(SubjectValue {
        source: SOURCE.to_owned(),
        pointer: POINTER.to_owned(),
        place: BodyPointer::parse(POINTER).unwrap(),
        value: customer.to_owned(),
        since: None,
        until: None,
    })
}

fn erasure(id: &str, subject: Subject) -> Erasure {
    Erasure { id: id.to_owned(), who: "ann".to_owned(), subject }
}

fn body(customer: &str) -> String {
    format!(r#"{{"data":{{"customer":"{customer}"}}}}"#)
}

/// Every text and every byte that we keep about events, in one string.
fn everything(world: &World) -> String {
    let bytes = |column: &str| match world.db.backend() {
        Backend::Sqlite => format!("cast({column} as text)"),
        Backend::Postgres => format!("encode({column}, 'escape')"),
    };
    let mut text = String::new();
    for (columns, table) in [
        (format!("{}, {}", bytes("headers"), bytes("body")), "payloads"),
        ("order_key, last_error".to_owned(), "outbox"),
        (format!("{}, headers, path", bytes("body")), "outbox_contents"),
        (bytes("body"), "outbox_answers"),
        ("error".to_owned(), "outbox_attempts"),
        ("error".to_owned(), "attempts"),
        ("last_error".to_owned(), "deliveries"),
        ("result".to_owned(), "steps"),
        ("filter".to_owned(), "actions"),
    ] {
        for row in world.query(&format!("select {columns} from {{{table}}}")) {
            text += &format!("{table}: {}\n", row.join(" "));
        }
    }
    text
}

/// Writes what handlers and the relay would have left about an event.
fn traces(world: &World, id: &str, word: &str) {
    let literal = match world.db.backend() {
        Backend::Sqlite => format!("cast('{word}' as blob)"),
        Backend::Postgres => format!("'{word}'::bytea"),
    };
    for sql in [
        format!(
            "insert into {{outbox}} (id, destination, size, state, due_at_ms, created_at_ms, order_key, last_error) \
             select key, 'crm', 1, 'ready', 1, 1, '{word}', '{word}' from {{events}} where event_id = '{id}'"
        ),
        format!(
            "insert into {{outbox_contents}} (id, idempotency_key, path, headers, body, key) \
             select key, event_id, '/{word}', '{{\"x\":\"{word}\"}}', {literal}, key \
             from {{events}} where event_id = '{id}'"
        ),
        format!(
            "insert into {{outbox_answers}} (id, at_ms, body) select key, 1, {literal} from {{events}} where event_id = '{id}'"
        ),
        format!(
            "insert into {{outbox_attempts}} (id, attempt, ended_at_ms, outcome, error) \
             select key, 1, 1, 'failed', '{word}' from {{events}} where event_id = '{id}'"
        ),
        format!(
            "insert into {{steps}} (delivery, step, result, at_ms) select d.delivery, 's', '{word}', 1 \
             from {{deliveries}} d join {{events}} e on e.key = d.key where e.event_id = '{id}'"
        ),
    ] {
        let prefix = world.db.table("");
        let names = ["outbox_answers", "outbox_attempts", "outbox_contents", "outbox", "events", "steps", "deliveries"];
        let sql = names.iter().fold(sql, |sql, name| sql.replace(&format!("{{{name}}}"), &format!("{prefix}{name}")));
        world.db.execute(&sql);
    }
}

testkit::contract! {
    async fn a_subject_is_gone_and_its_events_are_still_known(db: TestDatabase) {
        let world = processing(db).await;
        world.insert((0..3).map(|n| world.event(&format!("evt_{n}"), &body("cus_secret")))).await;
        let claimed = claim(&world, 2).await;
        finish(&world, &[claimed[0].fence]).await;
        let error = "no customer cus_secret".to_owned();
        let failure = Failure { fence: claimed[1].fence, next: Next::Dead, error, status: None };
        world.store.fail(&[failure], NOW).await.unwrap();
        world.insert_one(world.event("evt_9", &body("cus_other"))).await;
        traces(&world, "evt_0", "cus_secret");
        let counted = world.store.count_erasure(&of("cus_secret")).await.unwrap();
        // One of six deliveries is done; one message waits.
        assert_eq!((counted.events, counted.waiting), (3, 6));
        assert_eq!(world.store.erase(&erasure("e1", of("cus_secret")), NOW).await.unwrap(), 3);
        let left = everything(&world);
        assert!(!left.contains("cus_secret"), "{left}");
        assert!(left.contains("cus_other") && left.contains("value_mark"), "{left}");
        let states = world.query(
            "select d.state, count(*) from {deliveries} d join {events} e on e.key = d.key \
             where e.event_id <> 'evt_9' group by d.state order by d.state",
        );
        assert_eq!(states, [["discarded", "5"], ["done", "1"]]);
        assert_eq!(world.query("select state, last_error, size from {outbox}"), [["discarded", "erased", "0"]]);
        assert_eq!((world.count("ledger"), world.count("events"), world.count("payloads")), (4, 4, 1));
        let again = world.insert_one(world.event("evt_1", &body("cus_secret"))).await;
        assert!(matches!(again, Inserted::Duplicate(_)), "{again:?}");
        let found = world.store.inspect(Depth::All, |_| {}).await.unwrap();
        assert!(found.iter().all(|one| one.faults.is_empty()), "{found:?}");
        assert_eq!(claim(&world, 10).await.len(), 1, "the other subject's event still runs");
        let log = world.store.actions_after(None, 1).await.unwrap();
        assert_eq!((log[0].kind.as_str(), log[0].counted, log[0].acted), ("erase", Some(3), 3));
    }

    async fn one_event_by_its_key(db: TestDatabase) {
        let world = processing(db).await;
        let key = world.insert_one(world.event("evt_1", "not json cus_1")).await.key();
        world.insert_one(world.event("evt_2", "not json cus_2")).await;
        let subject = || Subject::Event(key);
        assert_eq!(world.store.erase(&erasure("e", subject()), NOW).await.unwrap(), 1);
        assert_eq!(world.store.erase(&erasure("e", subject()), NOW).await.unwrap(), 1, "it tells what it did");
        assert_eq!(world.count("payloads"), 1);
        let other = world.store.erase(&erasure("e", of("cus_2")), NOW).await;
        assert!(matches!(other, Err(ActionError::Reused)), "{other:?}");
    }

    async fn the_same_id_with_another_value_is_another_erasure(db: TestDatabase) {
        let world = processing(db).await;
        world.insert([1, 2].map(|n| world.event(&format!("evt_{n}"), &body(&format!("cus_{n}"))))).await;
        assert_eq!(world.store.erase(&erasure("e", of("cus_1")), NOW).await.unwrap(), 1);
        assert!(matches!(world.store.erase(&erasure("e", of("cus_2")), NOW).await, Err(ActionError::Reused)));
        assert_eq!(world.count("payloads"), 1);
    }

    async fn an_erasure_cut_off_midway_goes_on(db: TestDatabase) {
        let world = processing(db).await;
        world.insert((0..450).map(|n| world.event(&format!("evt_{n}"), &body("cus_1")))).await;
        let cut = world.store.clone().with_faults(Faults::parse("actions.slice=fail@2").unwrap());
        assert!(cut.erase(&erasure("e", of("cus_1")), NOW).await.is_err());
        assert_eq!((world.store.actions_after(None, 1).await.unwrap()[0].acted, world.count("payloads")), (200, 250));
        assert_eq!(world.store.erase(&erasure("e", of("cus_1")), NOW).await.unwrap(), 450);
        assert_eq!((world.count("payloads"), world.count("ledger")), (0, 450));
    }

    async fn a_worker_that_holds_the_event_cannot_finish_it(db: TestDatabase) {
        let world = processing(db).await;
        let key = world.insert_one(world.event("evt_1", &body("cus_1"))).await.key();
        let claimed = claim(&world, 1).await;
        world.store.erase(&erasure("e", Subject::Event(key)), NOW).await.unwrap();
        let finished = finish(&world, &[claimed[0].fence]).await;
        assert_eq!(finished, oncebox::gateway::store::Finished::LeaseLost(vec![claimed[0].fence.delivery]));
    }
}
