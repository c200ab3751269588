//! An open Postgres session, for tests that hold a transaction open while something else happens.

use tokio_postgres::error::DbError;
use tokio_postgres::{Client, NoTls};

use crate::database::row_as_text;

/// A session that an application might have.
pub struct Session {
    client: Client,
}

/// What Postgres refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its five letters.
    pub sqlstate: String,
    /// Its words.
    pub message: String,
    /// What it adds, which may quote a row.
    pub detail: String,
}

impl Session {
    /// Opens a session; it ends when dropped, and an open transaction with it.
    pub async fn open(url: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("Postgres answers");
        tokio::spawn(connection);
        Self { client }
    }

    /// Runs one or more statements; rows come as text, NULL as nothing.
    pub async fn query(&self, sql: &str) -> Result<Vec<Vec<String>>, Refused> {
        let messages = self.client.simple_query(sql).await.map_err(|error| Refused {
            sqlstate: error.code().map(|code| code.code().to_owned()).unwrap_or_default(),
            message: error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned()),
            detail: error.as_db_error().and_then(DbError::detail).unwrap_or_default().to_owned(),
        })?;
        Ok(messages.iter().filter_map(row_as_text).collect())
    }

    /// Runs what must succeed and gives the first value.
    pub async fn value(&self, sql: &str) -> String {
        let rows = self.query(sql).await.unwrap_or_else(|refused| panic!("{refused:?} in: {sql}"));
        rows.first().and_then(|row| row.first()).cloned().unwrap_or_default()
    }
}
