//! A query of the business on SQLite: on a connection of its own that may only read.

use std::collections::HashSet;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use crate::store::StoreError;
use crate::store::sqlite::{Database, classify};

impl Database {
    pub(in crate::store) async fn first_column(&self, query: &str) -> Result<HashSet<String>, StoreError> {
        let query = query.to_owned();
        self.on_lone_reader(move |connection| read(connection, &query)).await
    }
}

fn read(connection: &Connection, query: &str) -> Result<HashSet<String>, StoreError> {
    let mut statement = connection.prepare(query).map_err(classify)?;
    if !statement.readonly() || statement.column_count() == 0 {
        return Err(StoreError::Refused("the query must be a select".into()));
    }
    let rows = statement.query_map([], |row| row.get_ref(0).map(as_text)).map_err(classify)?;
    rows.filter_map(Result::transpose).collect::<Result<_, _>>().map_err(classify)
}

fn as_text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
    }
}
