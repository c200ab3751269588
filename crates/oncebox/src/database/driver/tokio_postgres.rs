//! tokio-postgres: `tokio_postgres::Transaction<'_>`, and pools of deadpool-postgres with the feature of that name.

use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::database::error::Stale;
use crate::database::{Dialect, Row, StoreError, Transaction, Value, classify_postgres};
use crate::event::Key;

impl crate::database::sealed::Sealed for tokio_postgres::Transaction<'_> {}

impl Transaction for tokio_postgres::Transaction<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn query(&mut self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        let rows = tokio_postgres::Transaction::query(self, sql, &as_params(&values)).await.map_err(classify)?;
        rows.iter().map(read_row).collect()
    }

    async fn execute(&mut self, sql: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        tokio_postgres::Transaction::execute(self, sql, &as_params(&values)).await.map_err(classify)
    }

    async fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        self.batch_execute(sql).await.map_err(classify)
    }
}

pub(crate) fn classify(error: tokio_postgres::Error) -> StoreError {
    if is_stale(&error) {
        return StoreError::Disconnected(Box::new(Stale(error.into())));
    }
    let code = error.code().map(|code| code.code().to_owned());
    classify_postgres(code.as_deref(), error)
}

/// A prepared statement that the session does not have any more, or whose columns are others now. Only this session has
/// the problem, so nobody's work is to blame.
fn is_stale(error: &tokio_postgres::Error) -> bool {
    let Some(said) = error.as_db_error() else { return false };
    match said.code().code() {
        "26000" => true,
        // The code stands for everything that is not supported; the words depend on the server's language.
        "0A000" => said.routine() == Some("RevalidateCachedQuery"),
        _ => false,
    }
}

pub(crate) fn as_params(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

pub(crate) fn read_row(row: &tokio_postgres::Row) -> Result<Row, StoreError> {
    (0..row.len()).map(|column| read_value(row, column)).collect::<Result<_, _>>().map(Row).map_err(classify)
}

fn read_value(row: &tokio_postgres::Row, column: usize) -> Result<Value, tokio_postgres::Error> {
    let kind = row.columns()[column].type_();
    Ok(match *kind {
        Type::BOOL => row.try_get::<_, Option<bool>>(column)?.map(i64::from).into(),
        Type::INT4 => row.try_get::<_, Option<i32>>(column)?.map_or(Value::Null, |value| Value::Int(value.into())),
        Type::UUID => row.try_get::<_, Option<uuid::Uuid>>(column)?.map_or(Value::Null, Value::Key),
        Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(column)?.map_or(Value::Null, Value::Bytes),
        Type::INT8 => row.try_get::<_, Option<i64>>(column)?.map_or(Value::Null, Value::Int),
        _ => row.try_get::<_, Option<String>>(column)?.map_or(Value::Null, Value::Text),
    })
}

impl ToSql for Value {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut tokio_postgres::types::private::BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Int(value) => value.to_sql(kind, out),
            Self::Text(value) => value.to_sql(kind, out),
            Self::Bytes(value) => value.to_sql(kind, out),
            Self::Key(value) => value.to_sql(kind, out),
            Self::Null => Ok(IsNull::Yes),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<K> ToSql for Key<K> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut tokio_postgres::types::private::BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        uuid::Uuid::from_bytes(*self.as_bytes()).to_sql(kind, out)
    }

    fn accepts(kind: &Type) -> bool {
        <uuid::Uuid as ToSql>::accepts(kind)
    }

    to_sql_checked!();
}
