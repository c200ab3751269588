//! Exactly once in a plain rusqlite transaction, without a runtime: many threads, one file, one order per event.
//!
//! `cargo run -p oncebox --example rusqlite_sync --features rusqlite`

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use oncebox::Once;
use oncebox::database::rusqlite::{migrate, once};
use rusqlite::{Connection, TransactionBehavior};
use testkit::{Backend, TestDatabase};

type AnyError = Box<dyn Error + Send + Sync>;

fn open(file: &Path) -> Result<Connection, AnyError> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(Duration::from_secs(20))?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    Ok(connection)
}

/// One delivery. Immediate, so that it waits for its turn in place of failing half-way.
fn deliver(connection: &mut Connection, id: &str) -> Result<Once, AnyError> {
    let mut tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let claimed = once(&mut tx, "stripe", id)?;
    if claimed == Once::Fresh {
        tx.execute("insert into orders (event) values (?1)", [id])?;
    }
    tx.commit()?;
    Ok(claimed)
}

fn main() -> Result<(), AnyError> {
    let db = TestDatabase::fresh(Backend::Sqlite);
    let file = db.file().ok_or("a file")?;
    migrate(&mut open(file)?)?;
    db.execute("create table orders (event text)");

    std::thread::scope(|scope| -> Result<(), AnyError> {
        let senders: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| -> Result<(), AnyError> {
                    let mut connection = open(file)?;
                    for copy in 0..10 {
                        let _ = deliver(&mut connection, &format!("evt_{}", 1 + copy % 2))?;
                    }
                    Ok(())
                })
            })
            .collect();
        senders.into_iter().try_for_each(|sender| sender.join().map_err(|_panicked| "a thread panicked")?)
    })?;
    assert_eq!(db.query("select event from orders order by event"), [["evt_1"], ["evt_2"]]);
    println!("80 deliveries of 2 events: 2 orders");
    Ok(())
}
