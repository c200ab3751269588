//! Filling a database with events of the past.

use std::ops::Range;

use bytes::Bytes;
use lab::database::Database;
use lab::fill::slice::{Filled, PastEvent, write};
use oncebox::gateway::event::KeyMaker;
use oncebox::gateway::store::Depth;
use oncebox_verify::sha256;
use testkit::{TestDatabase, contract};

const NOW: i64 = 1_731_700_000_000;
const TABLES: [&str; 4] = ["ledger", "events", "payloads", "deliveries"];

/// Events with these numbers; the even ones still have their payload.
fn past(numbers: Range<u64>) -> Vec<PastEvent> {
    let keys = KeyMaker::default();
    let one = |number: u64| PastEvent {
        key: keys.make(NOW),
        source: "stripe".into(),
        event_id: format!("evt_{number}"),
        event_type: "invoice.paid".into(),
        body_sha256: sha256(number.to_string().as_bytes()),
        received_at: NOW,
        payload: number.is_multiple_of(2).then(|| Bytes::from(number.to_string())),
    };
    numbers.map(one).collect()
}

async fn migrated(db: &TestDatabase) -> Database {
    let database = Database::parse(db.url()).expect("a URL");
    database.open().await.expect("it opens").close().await;
    database
}

contract! {
    async fn a_slice_is_written_once(db: TestDatabase) {
        let database = migrated(&db).await;
        let mut connection = database.connect().await.expect("a connection");
        for (numbers, expected) in
            [(0..50, Filled::Written), (0..50, Filled::Known), (40..60, Filled::Partly), (0..0, Filled::Known)]
        {
            assert_eq!(write(&mut connection, past(numbers), "bench").await.expect("a slice"), expected);
        }
        assert_eq!(TABLES.map(|table| db.count(&db.table(table))), [50, 50, 25, 50]);
        let deliveries = format!("select distinct state, handler, attempt from {}", db.table("deliveries"));
        assert_eq!(db.query(&deliveries), [["done", "bench", "1"]]);
        let store = database.open().await.expect("it opens");
        let found = store.inspect(Depth::All, |_| {}).await.expect("it can be looked over");
        assert!(found.iter().all(|one| one.faults.is_empty()), "{found:?}");
        // The ledger knows them by the identity that a webhook with this id would have.
        let known = store.ledger_keys(&[past(7..8)[0].identity()]).await.expect("an answer");
        assert!(known[0].is_some());
    }

    async fn a_slice_that_was_cut_off_left_nothing(db: TestDatabase) {
        let database = migrated(&db).await;
        let mut connection = database.connect().await.expect("a connection");
        let (deliveries, aside) = (db.table("deliveries"), "aside");
        let bare = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
        db.execute(&format!("alter table {deliveries} rename to {aside}"));
        assert!(write(&mut connection, past(0..10), "bench").await.is_err());
        assert_eq!(db.count(&db.table("ledger")), 0);
        let moved = deliveries.replace(&bare(&deliveries), aside);
        db.execute(&format!("alter table {moved} rename to {}", bare(&deliveries)));
        // Whoever goes on is another process.
        let mut connection = database.connect().await.expect("a connection");
        assert_eq!(write(&mut connection, past(0..10), "bench").await.expect("a slice"), Filled::Written);
    }

    async fn sizes_and_rows_are_known(db: TestDatabase) {
        let database = migrated(&db).await;
        let mut connection = database.connect().await.expect("a connection");
        write(&mut connection, past(0..500), "bench").await.expect("a slice");
        for (table, rows) in TABLES.into_iter().zip([500, 500, 250, 500]) {
            assert_eq!(database.rows_of(&connection, table).await.expect("a count"), rows);
            let bytes = database.bytes_of(&connection, table).await.expect("a size");
            assert!((8192..1_000_000).contains(&bytes), "{table}: {bytes}");
        }
    }
}
