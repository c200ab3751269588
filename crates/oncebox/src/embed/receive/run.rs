//! One transaction for a request: claim, work, commit, answer, in this order and no other.

use super::{Answer, Event, Outcome, Verified};
use crate::database::verb::once::Once;
use crate::database::{ENDED, Pool, StoreError, Transaction, commit_or_fail, is_open};
use crate::delivery::handler_error::HandlerError;

impl Verified {
    /// Runs `work` for every fresh event inside one transaction, commits it, and only then says what to answer.
    ///
    /// Duplicates are acknowledged without running; one that arrives while the original is under way waits for its end.
    /// [`HandlerError::Retry`] and any trouble of the database roll everything back and ask the sender to come again
    /// (503); [`HandlerError::Reject`] rolls back and refuses (422). Call nobody outside from `work`: it would be called
    /// again after a rollback. That is what the outbox is for.
    pub async fn once<P, W>(self, pool: &P, work: W) -> Answer
    where
        P: Pool,
        W: AsyncFnMut(&mut P::Tx, &Event) -> Result<(), HandlerError>,
    {
        let source =
            self.events.first().or(self.held.first().map(|(event, _)| event)).map(|event| event.source.clone());
        let source = source.as_deref().unwrap_or_default();
        for (event, reason) in &self.held {
            let reason = reason.as_str();
            tracing::warn!(source, event_id = event.id, reason, "an event without a usable id was refused");
        }
        match run(pool, &self.events, work).await {
            // The sender comes again with all of them, and those that were done are duplicates then.
            Ok(_) if !self.held.is_empty() => Answer::unprocessable(),
            Ok(outcome) => Answer::committed(outcome, self.reply),
            Err(error @ HandlerError::Retry(_)) => {
                tracing::warn!(source, "event deferred; the sender was asked to retry: {}", error.chain());
                Answer::unavailable()
            }
            Err(error @ HandlerError::Reject(_)) => {
                tracing::warn!(source, "an event was rejected: {}", error.chain());
                Answer::unprocessable()
            }
        }
    }
}

async fn run<P, W>(pool: &P, events: &[Event], mut work: W) -> Result<Outcome, HandlerError>
where
    P: Pool,
    W: AsyncFnMut(&mut P::Tx, &Event) -> Result<(), HandlerError>,
{
    let mut tx = pool.begin_marked().await?;
    let fresh = claim(&mut tx, events).await?;
    for event in events.iter().zip(&fresh).filter(|(_, once)| **once == Once::Fresh).map(|(event, _)| event) {
        if let Err(error) = work(&mut tx, event).await {
            // What it committed stays, with its mark: the sender's retry will be a duplicate, so somebody must be told.
            let ended = matches!(is_open(&mut tx).await, Ok(false));
            return Err(if ended {
                HandlerError::retry(format!("{ENDED}; it failed, too: {}", error.chain()))
            } else {
                error
            });
        }
    }
    if !fresh.contains(&Once::Fresh) {
        for event in events {
            tracing::info!(source = &*event.source, event_id = event.id, "a duplicate");
        }
        return Ok(Outcome::Duplicate);
    }
    // Fails, too, where the work swallowed an error: Postgres would answer COMMIT with a quiet ROLLBACK.
    if !is_open(&mut tx).await? {
        return Err(HandlerError::retry(ENDED));
    }
    commit_or_fail::<P>(tx).await?;
    Ok(Outcome::Fresh)
}

/// Claims all identities before any work, in the order of their marks: two batches that overlap never wait for each
/// other in a circle.
async fn claim<T: Transaction>(tx: &mut T, events: &[Event]) -> Result<Vec<Once>, StoreError> {
    let mut order: Vec<usize> = (0..events.len()).collect();
    order.sort_by_key(|index| (events[*index].marks.first(), *index));
    let mut claimed = vec![Once::Duplicate; events.len()];
    for index in order {
        claimed[index] = events[index].once(tx).await?;
    }
    Ok(claimed)
}
