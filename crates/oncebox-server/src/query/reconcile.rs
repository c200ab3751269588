//! Which events are marked done although the business does not know them, and putting those back in line.

use std::collections::{BTreeSet, HashSet};

use oncebox::gateway::clock::{Clock, UnixMillis};
use oncebox::gateway::store::{Action, ActionFilter, ActionKind, DoneDelivery, DoneFilter, Store, StoreError};

use super::{QueryError, Result};

/// Where the ids come from that the business knows.
#[derive(Debug)]
pub(crate) enum Known {
    /// A query on the same database.
    Query(String),
    /// A list, and when it was made at the latest: what was done later cannot be on it.
    List(HashSet<String>, UnixMillis),
}

#[derive(Debug)]
pub(crate) struct Comparison {
    /// Deliveries marked done that were compared.
    pub(crate) compared: usize,
    /// Ids that the query returned, or the list has.
    pub(crate) known: usize,
    /// Those of them whose id is not known, oldest first.
    pub(crate) missing: Vec<DoneDelivery>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Requeued {
    /// How many deliveries, under this action id.
    pub(crate) count: i64,
    /// How many of the missing ones were not put back now: done before under this id, or their payload is gone.
    pub(crate) left: i64,
    /// True where it was done before under this id, so that nothing happened now.
    pub(crate) repeated: bool,
}

/// Compares. The marks are read before the query runs, so that what is done meanwhile is never taken for missing.
pub(crate) async fn compare(store: &Store, filter: &DoneFilter, known: Known) -> Result<Comparison> {
    let mut done = store.done_deliveries(filter).await?;
    let known = match known {
        Known::Query(query) => store.business_ids(&query).await.map_err(|error| match error {
            StoreError::Refused(_) => QueryError::Bad(format!("--against: {}", error.chain())),
            other => QueryError::Store(other),
        })?,
        Known::List(ids, made_at) => {
            done.retain(|one| one.finished_at.is_none_or(|at| at < made_at));
            ids
        }
    };
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
) -> Result<Requeued> {
    let handlers: BTreeSet<&str> = missing.iter().map(|one| one.handler.as_str()).collect();
    let handler = match handlers.iter().collect::<Vec<_>>().as_slice() {
        [] => return Ok(Requeued { count: 0, left: 0, repeated: false }),
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
    let before = store.action(&action.id).await?;
    let repeated = before.as_ref().is_some_and(|known| known.finished_at.is_some());
    let count = store.requeue(&action, &keys, clock.now()).await?;
    let now = count - before.map_or(0, |known| known.acted);
    let left = i64::try_from(missing.len()).unwrap_or(i64::MAX) - now;
    Ok(Requeued { count, left, repeated })
}
