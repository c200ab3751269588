//! Which events are marked done although the business does not know them, and putting those back in line.

use std::collections::BTreeSet;

use oncebox::clock::Clock;
use oncebox::store::{Action, ActionFilter, ActionKind, DoneDelivery, DoneFilter, Store, StoreError};

use super::QueryError;

/// What the comparison found.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// Deliveries marked done that were compared.
    pub(crate) compared: usize,
    /// Ids that the query returned.
    pub(crate) known: usize,
    /// Those of them whose id the query did not return, oldest first.
    pub(crate) missing: Vec<DoneDelivery>,
}

/// What putting back in line came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requeued {
    /// How many deliveries.
    pub(crate) count: i64,
    /// True where it was done before under this id, so that nothing happened now.
    pub(crate) repeated: bool,
}

/// Compares. The marks are read before the query runs, so that what is done meanwhile is never taken for missing.
pub(crate) async fn compare(store: &Store, filter: &DoneFilter, against: &str) -> Result<Comparison, QueryError> {
    let mut done = store.done_deliveries(filter).await?;
    let known = store.business_ids(against).await.map_err(|error| match error {
        StoreError::Refused(_) => QueryError::Bad(format!("--against: {}", error.chain())),
        other => QueryError::Store(other),
    })?;
    let compared = done.len();
    done.retain(|one| !known.contains(&one.event_id) && !known.contains(&one.key.to_string()));
    Ok(Comparison { compared, known: known.len(), missing: done })
}

/// Puts what is missing back in line, under an action id. One handler's effect says nothing about another's.
pub(crate) async fn requeue(
    store: &Store,
    clock: &Clock,
    source: &str,
    missing: &[DoneDelivery],
    (id, who): (String, String),
) -> Result<Requeued, QueryError> {
    let handlers: BTreeSet<&str> = missing.iter().map(|one| one.handler.as_str()).collect();
    let handler = match handlers.iter().collect::<Vec<_>>().as_slice() {
        [] => return Ok(Requeued { count: 0, repeated: false }),
        [handler] => (**handler).to_owned(),
        several => {
            let names = several.iter().map(|name| **name).collect::<Vec<_>>().join(", ");
            return Err(QueryError::Bad(format!(
                "several handlers are done with these events ({names}); say with --handler whose effect the query shows"
            )));
        }
    };
    let keys: Vec<_> = missing.iter().map(|one| one.key).collect();
    let filter = ActionFilter { source: Some(source.to_owned()), handler: Some(handler), ..ActionFilter::default() };
    let action = Action { id, kind: ActionKind::Requeue, filter, who };
    let repeated = store.action(&action.id).await?.is_some_and(|known| known.finished_at.is_some());
    let count = store.requeue(&action, &keys, clock.now()).await?;
    Ok(Requeued { count, repeated })
}
