//! sqlx on SQLite: `sqlx::Transaction<'_, Sqlite>` and `SqlitePool`.
//!
//! A transaction that reads first and writes later may find that somebody else wrote in between, and then fails without
//! waiting. Ours begin with the intention to write; begin your own with `begin_with("BEGIN IMMEDIATE")`.

use sqlx::sqlite::{SqlitePool, SqliteRow};
use sqlx::{AssertSqlSafe, Executor, Row as _, Sqlite, SqliteConnection, TypeInfo, ValueRef};

use crate::database::driver::sqlx_transaction::transaction;
use crate::database::{Commit, Dialect, Pool, Row, StoreError, Transaction, Value};

transaction!(Sqlite, SqliteConnection, Dialect::Sqlite);

impl Pool for SqlitePool {
    type Tx = Tx;

    async fn begin(&self) -> Result<Tx, StoreError> {
        let pool = self.clone();
        let begun = tokio::spawn(async move { pool.begin_with("BEGIN IMMEDIATE").await }).await;
        begun.map_err(|gone| StoreError::Disconnected(gone.into()))?.map(Tx).map_err(classify)
    }

    async fn commit(tx: Tx) -> Commit {
        match tx.0.commit().await {
            Ok(()) => Commit::Committed,
            // Nothing is written while another process holds the file; a failed flush leaves it open what is on disk.
            Err(error) => match classify(error) {
                error @ (StoreError::Busy(_) | StoreError::Refused(_)) => Commit::Failed(error),
                error => Commit::Unknown(error),
            },
        }
    }
}

type Bound<'q> = sqlx::query::Query<'q, Sqlite, sqlx::sqlite::SqliteArguments>;

fn bound<'q>(sql: &str, values: Vec<Value>) -> Bound<'q> {
    let query = sqlx::query(AssertSqlSafe(sql.to_owned()));
    values.into_iter().fold(query, |query, value| match value {
        Value::Int(value) => query.bind(value),
        Value::Text(value) => query.bind(value),
        Value::Bytes(value) => query.bind(value),
        Value::Key(value) => query.bind(value.as_bytes().to_vec()),
        Value::Null => query.bind(None::<i64>),
    })
}

fn read_row(row: &SqliteRow) -> Result<Row, sqlx::Error> {
    (0..row.len()).map(|column| read_value(row, column)).collect::<Result<_, _>>().map(Row)
}

fn read_value(row: &SqliteRow, column: usize) -> Result<Value, sqlx::Error> {
    let raw = row.try_get_raw(column)?;
    if raw.is_null() {
        return Ok(Value::Null);
    }
    let kind = raw.type_info().name().to_owned();
    Ok(match kind.as_str() {
        "TEXT" => Value::Text(row.try_get_unchecked(column)?),
        "BLOB" => Value::Bytes(row.try_get_unchecked(column)?),
        _ => Value::Int(row.try_get_unchecked(column)?),
    })
}

fn classify(error: sqlx::Error) -> StoreError {
    let code = error.as_database_error().and_then(|error| error.code()).and_then(|code| code.parse::<i32>().ok());
    // The low byte is the kind: 5 busy, 6 locked; 7 no memory, 8 read-only, 10 disk trouble, 13 full, 14 cannot open.
    match code.map(|code| code & 0xff) {
        Some(5 | 6) => StoreError::Busy(error.into()),
        Some(7 | 8 | 10 | 13 | 14) => StoreError::Disconnected(error.into()),
        Some(_) => StoreError::Refused(error.into()),
        None => StoreError::Disconnected(error.into()),
    }
}
