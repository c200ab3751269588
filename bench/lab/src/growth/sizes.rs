//! How much room the tables take, and how much the database has written: for the benchmark of growth.

use crate::store::{Database, Store, StoreError, sql};

/// The room that one table takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSize {
    /// Its name, without our prefix.
    pub table: String,
    /// Bytes of its rows.
    pub rows_bytes: i64,
    /// Bytes of its indexes.
    pub index_bytes: i64,
}

/// Rows of the tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierRows {
    /// Identities.
    pub ledger: i64,
    /// Event records.
    pub events: i64,
    /// Payloads.
    pub payloads: i64,
    /// Deliveries.
    pub deliveries: i64,
}

impl Store {
    /// The room that each table of ours takes; on SQLite this reads the whole file.
    pub async fn table_sizes(&self) -> Result<Vec<TableSize>, StoreError> {
        let rows = self.query(&sql::TABLE_SIZES, Vec::new()).await?;
        let read = |row: &crate::store::Row| {
            Ok(TableSize { table: row.text(0)?, rows_bytes: row.int(1)?, index_bytes: row.int(2)? })
        };
        rows.iter().map(read).collect()
    }

    /// Counts the rows of the tiers, one by one.
    pub async fn tier_rows(&self) -> Result<TierRows, StoreError> {
        let mut counts = [0; 4];
        let statements = [&sql::COUNT_LEDGER, &sql::EVENT_ROWS, &sql::PAYLOAD_ROWS, &sql::DELIVERY_ROWS];
        for (count, statement) in counts.iter_mut().zip(statements) {
            *count = crate::store::operate::actions::first_int(&self.query(statement, Vec::new()).await?)?;
        }
        let [ledger, events, payloads, deliveries] = counts;
        Ok(TierRows { ledger, events, payloads, deliveries })
    }

    /// Where the write-ahead log of the whole server stands, in bytes; SQLite does not say.
    pub async fn log_position(&self) -> Result<Option<i64>, StoreError> {
        match &self.database {
            #[cfg(feature = "sqlite")]
            Database::Sqlite(_) => Ok(None),
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => self.query(&sql::LOG_POSITION, Vec::new()).await?[0].int(0).map(Some),
        }
    }
}
