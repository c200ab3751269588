//! The steady time over an application's own pool.

use crate::clock::UnixMillis;
use crate::database::steady::{Jump, Times, Told};
use crate::database::{Pool, StoreError, Transaction, commit_or_fail, execute, query, sql};
use crate::event::NodeKey;

/// Where an application keeps it.
pub(crate) struct PoolTimes<'p, P>(pub(crate) &'p P);

impl<P: Pool> Times for PoolTimes<'_, P> {
    async fn told(&self, wall: UnixMillis) -> Result<Told, StoreError> {
        let mut tx = self.0.begin().await?;
        let rows = query(&mut tx, &sql::STEADY_CLOCK, vec![wall.into()]).await?;
        let dialect = tx.dialect();
        commit_or_fail::<P>(tx).await?;
        Told::read(&rows, dialect)
    }

    async fn settle(&self, jump: Jump, node: Option<NodeKey>) -> Result<bool, StoreError> {
        let mut tx = self.0.begin().await?;
        let rows = execute(&mut tx, &sql::SETTLE_STEADY_CLOCK, jump.values(node)).await?;
        commit_or_fail::<P>(tx).await?;
        Ok(rows == 1)
    }
}
