//! What `once` remembers, written inside the caller's transaction.

use super::{StoreError, Transaction, Value, execute, sql};
use crate::event::EventKey;
use crate::once::Once;

/// Claims a mark. The unique key decides: a second caller waits for the first one's end.
pub(crate) async fn remember<T: Transaction>(tx: &mut T, mark: EventKey) -> Result<Once, StoreError> {
    let rows = execute(tx, &sql::REMEMBER, vec![mark.into(), Value::Null]).await?;
    Ok(if rows == 0 { Once::Duplicate } else { Once::Fresh })
}
