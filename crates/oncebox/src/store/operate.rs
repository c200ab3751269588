//! What operators change: replay, backfill, release, forget, erase; and what alerts remember.

pub(super) mod action_filter;
pub(super) mod actions;
pub(super) mod alerts;
pub(super) mod backfill;
pub(super) mod conflicts;
pub(super) mod erase;
pub(super) mod forget;
pub(super) mod hurry;
pub(super) mod message_actions;

use super::sql::Statement;
use super::{Store, StoreError, Value};

impl Store {
    /// Runs one statement in a transaction of its own, and says how many rows it touched.
    pub(super) async fn write(&self, statement: &Statement, values: Vec<Value>) -> Result<u64, StoreError> {
        let mut tx = self.begin().await?;
        let rows = tx.execute(statement, values).await?;
        tx.commit_or_fail().await.map(|()| rows)
    }
}
