//! Death at every point around send and mark: each message is received at least once, always under one key, none comes
//! from a transaction that rolled back, none is missing, and a receiver that dedupes ends with one effect for each.
//!
//! The points are named; SIGKILL comes at moments that nobody chose.
//!
//! `ONCEBOX_TEST_MESSAGES` sets how many messages, 100 unless told otherwise; `ONCEBOX_TEST_KILLS` how often the relay is
//! killed at random, `ONCEBOX_TEST_SEED` repeats a run.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt as _;

use testkit::receiver::{Call, Receiver};
use testkit::{TestDatabase, contract};

use super::{destination, send_sql, setup, wait_for_messages, write};
use crate::chance::{Random, number};
use crate::handling::{event, wait_for_states};
use crate::world::{PATIENCE, World, wait_until};

/// On the way of a message. The first passage, and one amid others.
const POINTS: [&str; 12] = [
    "outbox.claim=abort@1",
    "outbox.claim=abort@2",
    "outbox.claimed=abort@1",
    "outbox.send=abort@1",
    "outbox.send=abort@6",
    "outbox.sent=abort@1",
    "outbox.sent=abort@3",
    "outbox.sent=abort@7",
    "outbox.mark=abort@1",
    "outbox.mark=abort@2",
    "outbox.marked=abort@1",
    "outbox.marked=abort@2",
];

contract! {
    async fn a_message_is_received_under_one_key_whatever_dies(db: TestDatabase) {
        let count = number("ONCEBOX_TEST_MESSAGES").unwrap_or(100);
        let receiver = Receiver::start();
        db.execute("create table refused (event_id text check (event_id = 'never'))");
        let handlers = format!(
            "[[handler]]\nname = \"good\"\nsources = [\"custom\"]\nsql = \"\"\"{}\"\"\"\n\
             [[handler]]\nname = \"rolled-back\"\nsources = [\"custom\"]\nretry = {{ attempts = 1 }}\n\
             sql = \"\"\"{}; insert into refused values (:event_id)\"\"\"\n",
            send_sql(&db, "notify"), send_sql(&db, "phantom"),
        );
        // Without the destination the messages wait: what is not configured is not dropped.
        let world = World { program: setup(&db, &handlers).serve(), db };
        (0..count).for_each(|number| drop(world.expect("custom", &event(number), "accepted")));
        wait_for_states(&world, "good", &["done"]);
        wait_for_states(&world, "rolled-back", &["dead"]);
        let World { program, db } = world;
        drop(program);
        assert_eq!(db.count(&db.table("outbox")), i64::try_from(count).expect("it fits"));

        let retry = "concurrency = 4\nretry = { attempts = 100, base = \"10ms\", cap = \"10ms\" }";
        let setup = setup(&db, &format!("{handlers}{}", destination(&receiver, retry).replace("\"10s\"", "\"1s\"")));
        let open = format!("select count(*) from {} where state <> 'sent'", db.table("outbox_v1"));
        let mut more = 0;
        for point in POINTS {
            let mut dying = setup.clone().env("ONCEBOX_FAULTS", point).launch();
            wait_until(&format!("it dies at {point}"), PATIENCE, || {
                // A busy machine may mark all that is left at once; then the point is reached with something more to send.
                if dying.exited().is_none() && db.query(&open) == [["0"]] {
                    write(&db, &format!("more_{more}"), "");
                    more += 1;
                }
                dying.exited().is_some()
            });
            let status = dying.wait_exit(PATIENCE);
            assert_eq!(status.signal(), Some(libc::SIGABRT), "{point}: {status}\n{}", dying.log());
        }
        let world = World { program: setup.serve(), db };
        wait_for_messages(&world.db, &["sent"]);

        let calls = receiver.calls();
        let effects = check_keys(&calls, count + more);
        println!("relay on {:?}: {count} messages and {more} more, {} deaths, {} calls", world.db.backend(), POINTS.len(), calls.len());
        let is_wanted = |key: &String| key.ends_with("/crm/notify") || key.contains("more_");
        assert!(effects.iter().all(is_wanted), "nothing that was rolled back");
        assert!(calls.len() > count, "no death hit between call and mark");
        let stored = world.db.query(&format!("select idempotency_key from {}", world.db.table("outbox_v1")));
        assert_eq!(stored.into_iter().flatten().collect::<BTreeSet<_>>(), effects);
    }

    async fn a_message_is_received_under_one_key_whenever_the_relay_is_killed(db: TestDatabase) {
        let mut random = Random::seeded();
        let kills = number("ONCEBOX_TEST_KILLS").unwrap_or(6);
        let receiver = Receiver::start();
        // So even a pace that every kill finds messages claimed, under way and waiting.
        let rest = "concurrency = 8\nrate = \"400/s\"\nretry = { attempts = 1000, base = \"10ms\", cap = \"10ms\" }";
        let setup = setup(&db, &destination(&receiver, rest).replace("\"10s\"", "\"1s\""));
        drop(setup.serve());
        let mut written = 0;
        for _ in 0..kills {
            (0..60).for_each(|n| write(&db, &format!("m{}", written + n), ""));
            written += 60;
            let before = receiver.calls().len();
            let mut dying = setup.launch();
            let some = random.index(60);
            wait_until("some are sent", PATIENCE, || receiver.calls().len() > before + some);
            dying.kill9();
        }
        let world = World { program: setup.serve(), db };
        wait_for_messages(&world.db, &["sent"]);
        let calls = receiver.calls();
        check_keys(&calls, written);
        println!("relay on {:?}: {written} messages, {kills} kills, {} calls", world.db.backend(), calls.len());
    }
}

/// Every message was received, each under one key, and no two under the same; gives the keys.
fn check_keys(calls: &[Call], count: usize) -> BTreeSet<String> {
    let mut keys: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for call in calls {
        keys.entry(call.text()).or_default().insert(call.header("idempotency-key").expect("a key"));
    }
    let effects: BTreeSet<String> = keys.values().flatten().map(|key| (*key).to_owned()).collect();
    assert_eq!((keys.len(), effects.len()), (count, count), "every message, each under one key");
    assert!(keys.values().all(|keys| keys.len() == 1));
    effects
}
