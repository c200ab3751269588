//! A query of the business on Postgres: in a read-only transaction, on a connection that is closed afterwards.

use std::collections::HashSet;

use tokio_postgres::Error;

use crate::store::StoreError;
use crate::store::postgres::{Database, classify};

/// Read-only, and with more time than a step of ours has: the table may be large and without an index.
const BEGIN: &str = "BEGIN READ ONLY; SET LOCAL statement_timeout = '10min'";

impl Database {
    pub(in crate::store) async fn first_column(&self, query: &str) -> Result<HashSet<String>, StoreError> {
        let client = self.lone_reader().await?;
        client.batch_execute(BEGIN).await.map_err(classify)?;
        // As a subquery it can be nothing but a select, and the database writes any type as text. The line break ends
        // a comment at the query's end.
        let wrapped = format!("SELECT CAST(q.oncebox_id AS text) FROM (\n{query}\n) AS q(oncebox_id)");
        let rows = client.query(&wrapped, &[]).await.map_err(refused)?;
        rows.iter().filter_map(|row| row.try_get(0).transpose()).collect::<Result<_, _>>().map_err(classify)
    }
}

/// The query is wrong, not the database: what the server said about it must reach the person who wrote it.
fn refused(error: Error) -> StoreError {
    if error.code().is_some() { StoreError::Refused(error.into()) } else { classify(error) }
}
