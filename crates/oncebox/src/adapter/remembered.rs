//! What `once` remembers, written and read inside the caller's transaction.

use super::{StoreError, Transaction, Value, execute, query, sql};
use crate::event::EventKey;
use crate::once::Once;

/// Claims a mark. The unique key decides: a second caller waits for the first one's end.
pub(crate) async fn remember<T: Transaction>(tx: &mut T, mark: EventKey) -> Result<Once, StoreError> {
    let rows = execute(tx, &sql::REMEMBER, vec![mark.into(), Value::Null]).await?;
    Ok(if rows == 0 { Once::Duplicate } else { Once::Fresh })
}

/// True when the transaction still holds the mark: an aborted one answers COMMIT with a quiet ROLLBACK.
pub(crate) async fn is_remembered<T: Transaction>(tx: &mut T, mark: EventKey) -> Result<bool, StoreError> {
    Ok(!query(tx, &sql::IS_REMEMBERED, vec![mark.into()]).await?.is_empty())
}
