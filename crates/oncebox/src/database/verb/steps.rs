//! Results of a handler's steps: written once, under the claim's token, so that a retry skips what is done.

use crate::clock::UnixMillis;
use crate::database::{Fence, Fenced, StoreError, Transaction, execute, fenced, first, query, sql};
use crate::event::DeliveryKey;

/// The result of a step that is done, as JSON.
pub(crate) async fn step_result<T: Transaction>(
    tx: &mut T,
    delivery: DeliveryKey,
    step: &str,
) -> Result<Option<String>, StoreError> {
    let rows = query(tx, &sql::STEP_RESULT, vec![delivery.into(), step.into()]).await?;
    first(&rows)
}

/// Records a step as done, if the delivery is still ours; whoever lost it must roll back.
pub(crate) async fn record_step<T: Transaction>(
    tx: &mut T,
    fence: Fence,
    step: &str,
    result: &str,
    now: UnixMillis,
) -> Result<Fenced, StoreError> {
    if fenced(execute(tx, &sql::HOLD_CLAIM, fence.values([])).await?) == Fenced::LeaseLost {
        return Ok(Fenced::LeaseLost);
    }
    let values = vec![fence.delivery.into(), step.into(), result.into(), now.into()];
    execute(tx, &sql::RECORD_STEP, values).await?;
    Ok(Fenced::Recorded)
}
