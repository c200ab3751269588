//! What both databases of sqlx share: a transaction as the seam wants it. Its own traits name each database apart, so a
//! macro says it once; `bound`, `read_row` and `classify` are the module's own.

macro_rules! transaction {
    ($database:ty, $connection:ty, $dialect:expr) => {
        /// An open transaction that names no lifetime, so that closures over it stay general; use it as the connection it is.
        #[derive(Debug)]
        pub struct Tx(sqlx::Transaction<'static, $database>);

        impl crate::database::sealed::Sealed for sqlx::Transaction<'_, $database> {}

        impl Transaction for sqlx::Transaction<'_, $database> {
            fn dialect(&self) -> Dialect {
                $dialect
            }

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

        crate::database::driver::held_transaction!($connection, $dialect, |tx| &mut tx.0);
    };
}

pub(crate) use transaction;
