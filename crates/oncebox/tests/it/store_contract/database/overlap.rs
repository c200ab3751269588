//! Old and new programs on one schema: what the programs of the first release write still goes in after every later
//! migration. The statements are copies on purpose: they must not change with the program.

use testkit::{Backend, TestDatabase};

use crate::world::World;

/// What programs that know no migration after the first one write. `{name}` is a table, `<n>` sixteen bytes, `<<n>>` thirty-two.
const RELEASED: [&str; 15] = [
    "INSERT INTO {ledger} (identity, key) VALUES (<1>, <2>) ON CONFLICT (identity) DO NOTHING",
    "INSERT INTO {repeats} (fingerprint, key) VALUES (<3>, <2>) ON CONFLICT (fingerprint) DO NOTHING",
    "INSERT INTO {events} (key, source, event_id, type, identity, body_sha256, state, reason, original, received_at_ms) \
     VALUES (<2>, 's', 'evt_1', 't', 'id', <<4>>, 'accepted', NULL, NULL, 1)",
    "INSERT INTO {payloads} (key, remote, headers, body) VALUES (<2>, 'r', <5>, <5>)",
    "INSERT INTO {deliveries} (delivery, key, handler, state, order_key, due_at_ms) VALUES (<6>, <2>, 'h', 'ready', NULL, 1)",
    "INSERT INTO {arrivals} (key, count, last_at_ms, recent) VALUES (<2>, 1, 1, '')",
    "UPDATE {deliveries} SET state = 'claimed', attempt = attempt + 1, token = <7>, lease_until_ms = 9, node = <8>, \
     claimed_at_ms = 2, waits_for = NULL, wait_until_ms = NULL WHERE delivery = <6> AND state = 'ready'",
    "INSERT INTO {attempts} (delivery, attempt, node, started_at_ms, ended_at_ms, outcome, status, error) \
     VALUES (<6>, 1, <8>, 2, 3, 'failed', 500, 'no')",
    "UPDATE {deliveries} SET state = 'done', finished_at_ms = 3 WHERE delivery = <6> AND token = <7> AND state = 'claimed'",
    "INSERT INTO {handlers} (handler, attempts, base_ms, cap_ms, lease_ms, on_dead) VALUES ('h', 3, 1, 1, 1, 'skip')",
    "INSERT INTO {nodes} (node, name, started_at_ms, seen_at_ms) VALUES (<8>, 'n', 1, 1)",
    "INSERT INTO {actions} (action, kind, filter, who, counted, reached, started_at_ms) \
     VALUES ('a', 'replay', '{}', 'w', 1, <2>, 1) ON CONFLICT (action) DO NOTHING",
    "INSERT INTO {outbox_contents} (id, idempotency_key, body) VALUES (<9>, 'k', <5>)",
    "INSERT INTO {outbox} (id, destination, size, due_at_ms, created_at_ms) VALUES (<9>, 'crm', 1, 1, 1)",
    "INSERT INTO {steps} (delivery, step, result, at_ms) VALUES (<6>, 's', '1', 1)",
];

testkit::contract! {
    async fn what_the_first_release_writes_still_goes_in(db: TestDatabase) {
        let world = World::new(db).await;
        for statement in RELEASED {
            world.db.execute(&in_dialect(&world, statement));
        }
        assert_eq!(world.query("select state, attempt from {deliveries}"), [["done", "1"]]);
        let events = world.query("select event_id, state, arrivals from {events_v1}");
        assert_eq!(events, [["evt_1", "accepted", "2"]]);
        world.store.migrate().await.unwrap();
    }
}

fn in_dialect(world: &World, statement: &str) -> String {
    let postgres = world.db.backend() == Backend::Postgres;
    let mut sql = statement.to_owned();
    for n in 1..=9 {
        let (key, digest) = (format!("{n:02}").repeat(16), format!("{n:02}").repeat(32));
        let bytes = |hex: &str| if postgres { format!("'\\x{hex}'::bytea") } else { format!("x'{hex}'") };
        sql = sql.replace(&format!("<<{n}>>"), &bytes(&digest));
        let short = if postgres && n != 5 { format!("'{key}'::uuid") } else { bytes(&key) };
        sql = sql.replace(&format!("<{n}>"), &short);
    }
    let prefix = world.db.table("");
    sql.replace("'{}'", "'\u{1}'").replace('{', &prefix).replace('}', "").replace("'\u{1}'", "'{}'")
}
