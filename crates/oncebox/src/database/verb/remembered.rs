//! What `once` remembers, written inside the caller's transaction.

use crate::database::verb::once::Once;
use crate::database::{StoreError, Transaction, Value, execute, query, sql};
use crate::event::{EventKey, Mark};
use oncebox_verify::Identity;

/// Claims a mark. The unique key decides: a second caller waits for the first one's end.
pub(crate) async fn remember<T: Transaction>(tx: &mut T, mark: Mark) -> Result<Once, StoreError> {
    let rows = execute(tx, &sql::REMEMBER, vec![mark.into(), Value::Null]).await?;
    Ok(if rows == 0 { Once::Duplicate } else { Once::Fresh })
}

/// True when somebody claimed the mark before.
pub(crate) async fn is_remembered<T: Transaction>(tx: &mut T, mark: Mark) -> Result<bool, StoreError> {
    Ok(!query(tx, &sql::IS_REMEMBERED, vec![mark.into()]).await?.is_empty())
}

/// True when the gateway stored an event of this identity under this key.
pub(crate) async fn has_identity<T: Transaction>(
    tx: &mut T,
    identity: Identity,
    key: EventKey,
) -> Result<bool, StoreError> {
    let identity = EventKey::from_bytes(*identity.as_bytes());
    let rows = query(tx, &sql::HAS_IDENTITY, vec![identity.into(), key.into()]).await?;
    Ok(rows.first().map_or(Ok(0), |row| row.int(0))? > 0)
}
