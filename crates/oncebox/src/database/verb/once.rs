//! The primitive: claim an id inside the transaction that does the work.
//!
//! The claim commits or rolls back with the work, so neither can be there without the other. The unique key is the
//! referee, not a look-up: whoever comes second waits for the first one's end, and is fresh if that was a rollback.

use crate::database::{Dialect, StoreError, Transaction, Value, execute, first, query, sql};
use crate::event::{EventKey, Mark, once_mark};
use oncebox_verify::Identity;

/// Whether an id was seen before in its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the work may only be done when the id is fresh"]
pub enum Once {
    /// The first time; remembered if this transaction commits.
    Fresh,
    /// It was here before.
    Duplicate,
}

/// Claims an id within a scope, in your own open transaction: do the work in the same one if it is fresh, and answer
/// after its commit. An empty scope or id is refused. The SQL function `oncebox.once` makes the same marks.
///
/// ```
/// use oncebox::database::{StoreError, Transaction};
/// use oncebox::{Once, once};
///
/// async fn deliver<T: Transaction>(tx: &mut T) -> Result<(), StoreError> {
///     if once(tx, "stripe", "evt_1").await? == Once::Fresh {
///         // Your writes, in the same transaction.
///     }
///     // Then commit, and only then answer.
///     Ok(())
/// }
/// ```
pub async fn once<T: Transaction>(tx: &mut T, scope: &str, id: &str) -> Result<Once, StoreError> {
    remember(tx, mark(scope, id)?).await
}

/// The mark of an id that is one: an empty id stands for all that were not found, and would make them duplicates.
pub(crate) fn mark(scope: &str, id: &str) -> Result<Mark, StoreError> {
    match scope.is_empty() || id.is_empty() {
        true => Err(StoreError::Refused("a scope and an id have at least one character".into())),
        false => Ok(once_mark(scope, id)),
    }
}

/// Claims a mark. The unique key decides: a second caller waits for the first one's end.
pub(crate) async fn remember<T: Transaction>(tx: &mut T, mark: Mark) -> Result<Once, StoreError> {
    let rows = execute(tx, &sql::REMEMBER, vec![mark.into(), Value::Null]).await?;
    if rows > 0 {
        return Ok(Once::Fresh);
    }
    if tx.dialect() == Dialect::Postgres {
        tx.query(sql::CONFIRM, Vec::new()).await?;
    }
    Ok(Once::Duplicate)
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
    Ok(first(&rows)? > Some(0_i64))
}
