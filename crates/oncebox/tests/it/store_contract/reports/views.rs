//! The public views: the contract's columns in its order, with the same texts on both databases.

use oncebox::gateway::store::ArrivalCount;
use testkit::{Backend, TestDatabase};

use crate::world::{NOW, World, held, hex};

testkit::contract! {
    async fn the_views_have_the_columns_of_the_contract(db: TestDatabase) {
        let world = World::new(db).await;
        for (view, columns) in [
            ("events_v1", "source event_id key type body_sha256 state arrivals received_at last_arrival_at"),
            ("deliveries_v1", "key source event_id handler state attempt next_attempt_at finished_at last_error"),
            ("outbox_v1", "id destination idempotency_key state attempt created_at sent_at last_error"),
        ] {
            let names = match world.db.backend() {
                Backend::Sqlite => format!("select name from pragma_table_info('oncebox_{view}') order by cid"),
                Backend::Postgres => format!(
                    "select column_name from information_schema.columns \
                     where table_schema = 'oncebox' and table_name = '{view}' order by ordinal_position"
                ),
            };
            assert_eq!(world.db.query(&names).concat().join(" "), columns, "{view}");
        }
    }

    async fn events_are_shown_in_readable_form(db: TestDatabase) {
        let world = World::new(db).await;
        let event = world.event("evt_1", "a");
        let key = world.insert_one(event.clone()).await.key();
        world.store.add_arrivals(&[ArrivalCount { key, count: 2, last_at: NOW + 876, recent: vec![] }]).await.unwrap();
        let columns = "source, event_id, key, type, body_sha256, state, arrivals";
        let digest = hex(&event.event.body_sha256);
        assert_eq!(
            world.query(&format!("select {columns} from {{events_v1}}")),
            [["src", "evt_1", &key.to_string(), "invoice.paid", &digest, "accepted", "3"]]
        );
        let times = [readable(&world, "received_at"), readable(&world, "last_arrival_at")].join(", ");
        assert_eq!(
            world.query(&format!("select {times} from {{events_v1}}")),
            [["2024-11-15T19:46:40.123Z", "2024-11-15T19:46:40.999Z"]]
        );
        assert_eq!(key.to_string(), key.to_string().to_lowercase());
        assert_eq!(key.to_string().split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    }

    /// Fractions must not be lost or rounded by the way through a floating-point number.
    async fn every_millisecond_is_shown_as_it_is(db: TestDatabase) {
        let world = World::new(db).await;
        let events: Vec<_> = (0..1000).map(|n| {
            let mut event = world.event(&format!("{n:03}"), "a");
            event.received_at = NOW - 123 + n;
            event
        }).collect();
        world.insert(events).await;
        let time = readable(&world, "received_at");
        for row in world.query(&format!("select event_id, {time} from {{events_v1}}")) {
            assert_eq!(row[1], format!("2024-11-15T19:46:40.{}Z", row[0]));
        }
    }

    async fn deliveries_are_shown_with_their_event(db: TestDatabase) {
        let world = World::new(db).await;
        let key = world.insert_one(world.event("evt_1", "a")).await.key().to_string();
        let waiting = world.insert_one(held(world.event("evt_2", "?"))).await.key().to_string();
        let rows = world.query(
            "select key, source, event_id, handler, state, attempt, next_attempt_at is null, finished_at, last_error \
             from {deliveries_v1} order by event_id, handler",
        );
        let (no, yes) = if world.db.backend() == Backend::Sqlite { ("0", "1") } else { ("f", "t") };
        assert_eq!(rows, [
            [key.as_str(), "src", "evt_1", "billing", "ready", "0", no, "", ""],
            [&key, "src", "evt_1", "mail", "ready", "0", no, "", ""],
            [&waiting, "src", "evt_2", "billing", "held", "0", yes, "", ""],
            [&waiting, "src", "evt_2", "mail", "held", "0", yes, "", ""],
        ]);
    }

    async fn outbox_messages_are_shown_in_readable_form(db: TestDatabase) {
        let world = World::new(db).await;
        let (id, text) = match world.db.backend() {
            Backend::Sqlite => ("x'0192A3B4C5D67E8F90A1B2C3D4E5F607'", "0192a3b4-c5d6-7e8f-90a1-b2c3d4e5f607"),
            Backend::Postgres => ("'0192a3b4-c5d6-7e8f-90a1-b2c3d4e5f607'", "0192a3b4-c5d6-7e8f-90a1-b2c3d4e5f607"),
        };
        let bytes = if world.db.backend() == Backend::Sqlite { "blob" } else { "bytea" };
        world.db.execute(&format!(
            "insert into {} (id, destination, size, due_at_ms, created_at_ms) values ({id}, 'crm', 1, 1, {NOW})",
            world.db.table("outbox")
        ));
        world.db.execute(&format!(
            "insert into {} (id, idempotency_key, body) values ({id}, 'k', cast('x' as {bytes}))",
            world.db.table("outbox_contents")
        ));
        let time = readable(&world, "created_at");
        assert_eq!(
            world.query(&format!("select id, destination, idempotency_key, state, attempt, {time}, sent_at, last_error from {{outbox_v1}}")),
            [[text, "crm", "k", "ready", "0", "2024-11-15T19:46:40.123Z", "", ""]]
        );
        let outbox = world.store.stats(0).await.unwrap().messages;
        assert_eq!((outbox[0].name.as_str(), outbox[0].state.as_str(), outbox[0].count), ("crm", "ready", 1));
    }
}

/// A time column as text in UTC; SQLite's views hold that text already.
fn readable(world: &World, column: &str) -> String {
    match world.db.backend() {
        Backend::Sqlite => column.to_owned(),
        Backend::Postgres => format!("to_char({column} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"),
    }
}
