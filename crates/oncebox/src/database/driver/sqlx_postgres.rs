//! sqlx on Postgres: `sqlx::Transaction<'_, Postgres>` and `PgPool`.
//!
//! A `begin` that is dropped half-way may leave sqlx 0.9's pooled connection inside a transaction that nobody ends, so
//! it runs in a task of its own that nobody can drop.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgPool, PgRow, PgTypeInfo};
use sqlx::{AssertSqlSafe, Column, Encode, Executor, PgConnection, Postgres, Row as _, Type, TypeInfo};

use crate::database::driver::sqlx_transaction::transaction;
use crate::database::{
    Commit, Dialect, Pool, Row, StoreError, Transaction, Value, classify_postgres, refused_commit, sql,
};
use crate::event::EventKey;

transaction!(Postgres, PgConnection, Dialect::Postgres);

impl Pool for PgPool {
    type Tx = Tx;

    async fn begin(&self) -> Result<Tx, StoreError> {
        begin(self, "BEGIN").await
    }

    async fn begin_marked(&self) -> Result<Tx, StoreError> {
        begin(self, sql::BEGIN_MARKED).await
    }

    async fn commit(tx: Tx) -> Commit {
        match tx.0.commit().await {
            Ok(()) => Commit::Committed,
            Err(error) if refused_commit(code(&error).as_deref()) => Commit::Failed(classify(error)),
            Err(error) => Commit::Unknown(classify(error)),
        }
    }
}

async fn begin(pool: &PgPool, statement: &'static str) -> Result<Tx, StoreError> {
    let pool = pool.clone();
    let begun = tokio::spawn(async move { pool.begin_with(statement).await }).await;
    begun.map_err(|gone| StoreError::Disconnected(gone.into()))?.map(Tx).map_err(classify)
}

type Bound<'q> = sqlx::query::Query<'q, Postgres, sqlx::postgres::PgArguments>;

fn bound<'q>(sql: &str, values: Vec<Value>) -> Bound<'q> {
    values.into_iter().fold(sqlx::query(AssertSqlSafe(sql.to_owned())), sqlx::query::Query::bind)
}

/// Numbers by which the server knows the types that we bind.
const UNKNOWN: Oid = Oid(0);
const BYTEA: Oid = Oid(17);
const INT8: Oid = Oid(20);
const TEXT: Oid = Oid(25);
const UUID: Oid = Oid(2950);

impl Type<Postgres> for Value {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(UNKNOWN)
    }
}

impl Encode<'_, Postgres> for Value {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        match self {
            Self::Int(value) => buffer.extend_from_slice(&value.to_be_bytes()),
            Self::Text(value) => buffer.extend_from_slice(value.as_bytes()),
            Self::Bytes(value) => buffer.extend_from_slice(value),
            Self::Key(value) => buffer.extend_from_slice(value.as_bytes()),
            Self::Null => return Ok(IsNull::Yes),
        }
        Ok(IsNull::No)
    }

    /// The server finds out what a null is meant to be.
    fn produces(&self) -> Option<PgTypeInfo> {
        Some(PgTypeInfo::with_oid(match self {
            Self::Int(_) => INT8,
            Self::Text(_) => TEXT,
            Self::Bytes(_) => BYTEA,
            Self::Key(_) => UUID,
            Self::Null => UNKNOWN,
        }))
    }
}

fn read_row(row: &PgRow) -> Result<Row, sqlx::Error> {
    (0..row.len()).map(|column| read_value(row, column)).collect::<Result<_, _>>().map(Row)
}

fn read_value(row: &PgRow, column: usize) -> Result<Value, sqlx::Error> {
    Ok(match row.column(column).type_info().name() {
        "INT8" => row.try_get::<Option<i64>, _>(column)?.into(),
        "INT4" => row.try_get::<Option<i32>, _>(column)?.map(i64::from).into(),
        "BOOL" => row.try_get::<Option<bool>, _>(column)?.map(i64::from).into(),
        "BYTEA" => row.try_get::<Option<Vec<u8>>, _>(column)?.map_or(Value::Null, Value::Bytes),
        "UUID" => {
            let key = row.try_get_unchecked::<Option<sqlx::types::Uuid>, _>(column)?;
            key.map(|key| EventKey::from_bytes(key.into_bytes())).into()
        }
        _ => row.try_get_unchecked::<Option<String>, _>(column)?.map_or(Value::Null, Value::Text),
    })
}

fn code(error: &sqlx::Error) -> Option<String> {
    error.as_database_error().and_then(|error| error.code()).map(std::borrow::Cow::into_owned)
}

fn classify(error: sqlx::Error) -> StoreError {
    match &error {
        sqlx::Error::Database(_) => classify_postgres(code(&error).as_deref(), error),
        sqlx::Error::Encode(_) | sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. } => {
            StoreError::Refused(error.into())
        }
        _ => StoreError::Disconnected(error.into()),
    }
}
