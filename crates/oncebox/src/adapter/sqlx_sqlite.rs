//! sqlx on SQLite: `sqlx::Transaction<'_, Sqlite>` and `SqlitePool`.
//!
//! A transaction that reads first and writes later may find that somebody else wrote in between, and then fails without
//! waiting. Ours begin with the intention to write; begin your own with `begin_with("BEGIN IMMEDIATE")`.

use std::ops::{Deref, DerefMut};

use sqlx::sqlite::{SqlitePool, SqliteRow};
use sqlx::{AssertSqlSafe, Executor, Row as _, Sqlite, SqliteConnection, TypeInfo, ValueRef};

use super::{Commit, Dialect, Pool, Row, StoreError, Transaction, Value};

/// An open transaction that names no lifetime, so that closures over it stay general; use it as the connection it is.
#[derive(Debug)]
pub struct Tx(sqlx::Transaction<'static, Sqlite>);

impl Transaction for sqlx::Transaction<'_, Sqlite> {
    const DIALECT: Dialect = Dialect::Sqlite;

    async fn query(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        let rows = bound(sql, values).fetch_all(&mut **self).await.map_err(classify)?;
        rows.iter().map(|row| read_row(row).map_err(classify)).collect()
    }

    async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        let done = bound(sql, values).execute(&mut **self).await.map_err(classify)?;
        Ok(done.rows_affected())
    }

    async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        let text = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        (&mut **self).execute(text).await.map(drop).map_err(classify)
    }
}

impl Transaction for Tx {
    const DIALECT: Dialect = Dialect::Sqlite;

    async fn query(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        self.0.query(sql, values).await
    }

    async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        Transaction::execute(&mut self.0, sql, values).await
    }

    async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        self.0.batch(sql).await
    }
}

impl Deref for Tx {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.0
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.0
    }
}

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
