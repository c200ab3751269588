//! rusqlite: `rusqlite::Transaction<'_>`, whose calls block, and a [`Database`] for async code.
//!
//! What waits for nothing needs no runtime either, so [`once`] and [`send`] have a form here that is no future.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, TransactionBehavior, params_from_iter};

pub use crate::database::driver::rusqlite_thread::{Database, Tx};
use crate::database::verb::once::Once;
use crate::database::{Dialect, Row, StoreError, Transaction, Value};
use crate::event::Key;
use crate::fault::Faults;
use crate::message::Message;

/// Brings the schema up to date on your own connection, and says how many steps that took.
pub fn migrate(connection: &mut Connection) -> Result<usize, StoreError> {
    let mut tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(classify)?;
    let steps = at_once(crate::database::migrate::run_pending(&mut tx, &Faults::none()))?;
    tx.commit().map_err(classify)?;
    Ok(steps)
}

/// Claims an id within a scope in your own open transaction; begin it as immediate, so that it waits for its turn.
pub fn once(tx: &mut rusqlite::Transaction<'_>, scope: &str, id: &str) -> Result<Once, StoreError> {
    at_once(crate::database::verb::once::once(tx, scope, id))
}

/// Writes an outbox message in your own open transaction.
pub fn send(tx: &mut rusqlite::Transaction<'_>, message: &Message) -> Result<(), StoreError> {
    at_once(crate::database::verb::outbox::send(tx, message))
}

impl crate::database::sealed::Sealed for rusqlite::Transaction<'_> {}

impl Transaction for rusqlite::Transaction<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn query(&mut self, sql: &str, values: Vec<Value>) -> impl Future<Output = Result<Vec<Row>, StoreError>> + Send {
        std::future::ready(read_rows(self, sql, values))
    }

    fn execute(&mut self, sql: &str, values: Vec<Value>) -> impl Future<Output = Result<u64, StoreError>> + Send {
        std::future::ready(run(self, sql, values))
    }

    fn batch(&mut self, sql: &str) -> impl Future<Output = Result<(), StoreError>> + Send {
        std::future::ready(self.execute_batch(sql).map_err(classify))
    }
}

/// The end of a future that has nothing to wait for.
fn at_once<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => Err(StoreError::Refused("a blocking call had to wait".into())),
    }
}

pub(crate) fn run(connection: &Connection, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(classify)?;
    let rows = statement.execute(params_from_iter(values)).map_err(classify)?;
    Ok(u64::try_from(rows).unwrap_or(u64::MAX))
}

pub(crate) fn read_rows(connection: &Connection, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(classify)?;
    let columns = statement.column_count();
    let rows = statement.query_map(params_from_iter(values), |row| read_row(row, columns)).map_err(classify)?;
    rows.collect::<Result<_, _>>().map_err(classify)
}

pub(crate) fn read_row(row: &rusqlite::Row<'_>, columns: usize) -> rusqlite::Result<Row> {
    (0..columns).map(|column| row.get_ref(column).map(read_value)).collect::<Result<_, _>>().map(Row)
}

fn read_value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Int(value),
        #[expect(clippy::cast_possible_truncation, reason = "we store no fractions")]
        ValueRef::Real(value) => Value::Int(value as i64),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        match self {
            Self::Int(value) => value.to_sql(),
            Self::Text(value) => value.to_sql(),
            Self::Bytes(value) => value.to_sql(),
            Self::Key(value) => value.as_bytes().to_sql(),
            Self::Null => rusqlite::types::Null.to_sql(),
        }
    }
}

impl<K> rusqlite::ToSql for Key<K> {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        self.as_bytes().to_sql()
    }
}

pub(crate) fn classify(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy(error.into()),
        Some(
            ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::OutOfMemory,
        ) => StoreError::Disconnected(error.into()),
        _ => StoreError::Refused(error.into()),
    }
}
