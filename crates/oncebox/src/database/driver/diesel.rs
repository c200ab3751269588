//! diesel-async on Postgres: `AsyncPgConnection` inside `connection.transaction(…)`, and its deadpool.
//!
//! Diesel's transaction is a connection with a depth, not a type of its own, so a connection outside of one is refused
//! when it is used. Values travel untyped, as the server infers them, because our statements say what they want.

use std::io::Write;

use diesel::deserialize::{self, QueryableByName};
use diesel::pg::{Pg, PgTypeMetadata};
use diesel::query_builder::QueryId;
use diesel::result::DatabaseErrorKind::{
    ClosedConnection, ReadOnlyTransaction, SerializationFailure, UnableToSendCommand,
};
use diesel::row::{Field, NamedRow};
use diesel::serialize::{self, IsNull, Output, ToSql};
use diesel::sql_types::{HasSqlType, SingleValue, SqlType, is_nullable};
use diesel_async::pooled_connection::deadpool;
use diesel_async::{AnsiTransactionManager, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection, TransactionManager};

use crate::database::driver::held_transaction;
use crate::database::{Commit, Dialect, Pool, Row, StoreError, Transaction, Value, sql};

/// An open transaction on a connection of its own; use it as the connection that it is.
pub struct Tx(deadpool::Object<AsyncPgConnection>);

impl crate::database::sealed::Sealed for AsyncPgConnection {}

impl Transaction for AsyncPgConnection {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn query(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        must_be_open(self)?;
        let rows: Vec<Row> = bound(sql, values).load(self).await.map_err(classify)?;
        Ok(rows)
    }

    async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        must_be_open(self)?;
        let rows = bound(sql, values).execute(self).await.map_err(classify)?;
        Ok(u64::try_from(rows).unwrap_or(u64::MAX))
    }

    async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        must_be_open(self)?;
        self.batch_execute(sql).await.map_err(classify)
    }
}

held_transaction!(AsyncPgConnection, Dialect::Postgres, |tx| &mut *tx.0);

/// A connection whose transaction is still open when it comes back counts as broken and is closed by the pool.
impl Pool for deadpool::Pool<AsyncPgConnection> {
    type Tx = Tx;

    async fn begin(&self) -> Result<Tx, StoreError> {
        begin(self, "BEGIN").await
    }

    async fn begin_marked(&self) -> Result<Tx, StoreError> {
        begin(self, sql::BEGIN_MARKED).await
    }

    async fn commit(mut tx: Tx) -> Commit {
        match AnsiTransactionManager::commit_transaction(&mut *tx).await.map_err(classify) {
            Ok(()) => Commit::Committed,
            Err(error @ (StoreError::Busy(_) | StoreError::Refused(_))) => Commit::Failed(error),
            Err(error) => Commit::Unknown(error),
        }
    }
}

async fn begin(pool: &deadpool::Pool<AsyncPgConnection>, statement: &'static str) -> Result<Tx, StoreError> {
    let pool = pool.clone();
    // In a task of its own, so that nobody can drop it half-way.
    let begun = tokio::spawn(async move {
        let mut tx = Tx(pool.get().await.map_err(|error| StoreError::Disconnected(error.into()))?);
        AnsiTransactionManager::begin_transaction_sql(&mut *tx, statement).await.map_err(classify)?;
        Ok(tx)
    });
    begun.await.map_err(|gone| StoreError::Disconnected(gone.into()))?
}

impl std::fmt::Debug for Tx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tx")
    }
}

/// Outside of a transaction a mark would be committed before the work it stands for.
fn must_be_open(connection: &mut AsyncPgConnection) -> Result<(), StoreError> {
    let depth = AnsiTransactionManager::transaction_manager_status_mut(connection).transaction_depth();
    match depth {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(StoreError::Refused("no transaction is open on this connection".into())),
        Err(error) => Err(classify(error)),
    }
}

type Bound = diesel::query_builder::BoxedSqlQuery<'static, Pg, diesel::query_builder::SqlQuery>;

fn bound(sql: &str, values: Vec<Value>) -> Bound {
    let query = diesel::sql_query(sql.to_owned()).into_boxed();
    values.into_iter().fold(query, |query, value| query.bind::<Inferred, _>(value))
}

/// A type that the server finds out by itself.
#[derive(Clone, Copy, Debug, Default)]
struct Inferred;

impl SqlType for Inferred {
    type IsNull = is_nullable::NotNull;
}

impl SingleValue for Inferred {}

impl QueryId for Inferred {
    type QueryId = Self;
    const HAS_STATIC_QUERY_ID: bool = true;
}

impl HasSqlType<Inferred> for Pg {
    fn metadata(_: &mut Self::MetadataLookup) -> PgTypeMetadata {
        PgTypeMetadata::new(0, 0)
    }
}

impl ToSql<Inferred, Pg> for Value {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        match self {
            Self::Int(value) => out.write_all(&value.to_be_bytes())?,
            Self::Text(value) => out.write_all(value.as_bytes())?,
            Self::Bytes(value) => out.write_all(value)?,
            Self::Key(value) => out.write_all(value.as_bytes())?,
            Self::Null => return Ok(IsNull::Yes),
        }
        Ok(IsNull::No)
    }
}

impl QueryableByName<Pg> for Row {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> deserialize::Result<Self> {
        let value = |column| {
            let field = diesel::row::Row::get(row, column).ok_or("a column is missing")?;
            field.value().map_or(Ok(Value::Null), |value| read_value(value.get_oid().get(), value.as_bytes()))
        };
        (0..row.field_count()).map(value).collect::<Result<_, _>>().map(Row)
    }
}

/// By the numbers of the server's types: bool, bytea, int8, int4, uuid; the rest is text.
fn read_value(kind: u32, bytes: &[u8]) -> deserialize::Result<Value> {
    Ok(match kind {
        16 => Value::Int(i64::from(bytes == [1])),
        17 => Value::Bytes(bytes.to_vec()),
        20 => Value::Int(i64::from_be_bytes(bytes.try_into()?)),
        23 => Value::Int(i64::from(i32::from_be_bytes(bytes.try_into()?))),
        2950 => Value::Key(uuid::Uuid::from_bytes(bytes.try_into()?)),
        _ => Value::Text(String::from_utf8(bytes.to_vec())?),
    })
}

fn classify(error: diesel::result::Error) -> StoreError {
    match &error {
        diesel::result::Error::DatabaseError(SerializationFailure, _) => StoreError::Busy(error.into()),
        diesel::result::Error::DatabaseError(UnableToSendCommand | ClosedConnection | ReadOnlyTransaction, _)
        | diesel::result::Error::BrokenTransactionManager => StoreError::Disconnected(error.into()),
        _ => StoreError::Refused(error.into()),
    }
}
