//! Steps: work that leaves the database, done before the transaction and remembered, so that a retry skips it.
//!
//! A step runs with no transaction open; its result is then written in a short one, fenced by the claim's token. A crash
//! between the two makes it run again, under the same key: give that key to whoever you call. A step that only writes to
//! this database is exactly once with [`Context::step_in`]. Undoing earlier steps when a later one fails for good is the
//! handler's own business: call it from the arm that rejects, as a step of its own.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::Context;
use crate::database::{ENDED, Fenced, Pool, commit_or_fail, is_open, record_step, step_result};
use crate::delivery::handler_error::HandlerError;
use crate::event::{EventKey, Mark};

const NAME_MAX: usize = 64;

/// The names that an attempt has used: one name for two things would give the second the first one's result.
#[derive(Debug, Default)]
pub(super) struct StepsDone(BTreeSet<String>);

/// What a step tells those it calls: the same for every attempt, after every restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepKey(Mark);

impl StepKey {
    fn new(event: EventKey, handler: &str, step: &str) -> Self {
        let parts: [&[u8]; 3] = [event.as_bytes(), handler.as_bytes(), step.as_bytes()];
        Self(Mark::of_parts(b"idempotency", &parts))
    }

    /// An id for something that the step makes, told apart by `name` where it makes several: a second run makes the same.
    pub fn id(&self, name: &str) -> Uuid {
        let mut bytes = *Mark::of_parts(b"made", &[self.0.as_bytes(), name.as_bytes()]).as_bytes();
        // Version 8 of the standard: made by rules of our own.
        bytes[6] = (bytes[6] & 0x0f) | 0x80;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Uuid::from_bytes(bytes)
    }
}

impl fmt::Display for StepKey {
    /// The idempotency key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl<P: Pool> Context<P> {
    /// Does a step unless an earlier attempt has, and gives its result either way. Steps come before [`Context::tx`].
    pub async fn step<T, W, F, E>(&mut self, name: &str, work: W) -> Result<T, HandlerError>
    where
        T: Serialize + DeserializeOwned + Send,
        W: FnOnce(StepKey) -> F + Send,
        F: Future<Output = Result<T, E>> + Send,
        E: Into<HandlerError>,
    {
        self.begin_step(name)?;
        let mut tx = self.shared.pool.begin().await?;
        if let Some(done) = step_result(&mut tx, self.fence.delivery, name).await? {
            return read(name, &done);
        }
        // Not open while somebody outside is asked.
        drop(tx);
        let result = work(StepKey::new(self.key, &self.handler, name)).await.map_err(Into::into)?;
        let mut tx = self.shared.pool.begin().await?;
        self.record::<T>(&mut tx, name, &result).await?;
        commit_or_fail::<P>(tx).await?;
        Ok(result)
    }

    /// As [`Context::step`], for a step that writes to this database: its writes and its result commit together.
    pub async fn step_in<T, W>(&mut self, name: &str, work: W) -> Result<T, HandlerError>
    where
        T: Serialize + DeserializeOwned + Send,
        W: for<'a> FnOnce(&'a mut P::Tx, StepKey) -> super::Working<'a, Result<T, HandlerError>> + Send,
    {
        self.begin_step(name)?;
        let mut tx = self.shared.pool.begin_marked().await?;
        if let Some(done) = step_result(&mut tx, self.fence.delivery, name).await? {
            return read(name, &done);
        }
        let worked = work(&mut tx, StepKey::new(self.key, &self.handler, name)).await;
        let result = match (worked, is_open(&mut tx).await) {
            (_, Ok(false)) => return Err(HandlerError::reject(ENDED)),
            (worked, Ok(true)) => worked?,
            (worked, Err(error)) => return Err(worked.err().unwrap_or_else(|| error.into())),
        };
        self.record::<T>(&mut tx, name, &result).await?;
        commit_or_fail::<P>(tx).await?;
        Ok(result)
    }

    /// An id for something that the handler makes: the same in every attempt.
    pub fn id(&self, name: &str) -> Uuid {
        StepKey::new(self.key, &self.handler, "").id(name)
    }

    fn begin_step(&mut self, name: &str) -> Result<(), HandlerError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(plain) {
            return Err(HandlerError::reject("a step's name is 1 to 64 letters, digits, dots, dashes or underscores"));
        }
        if self.has_begun() {
            return Err(HandlerError::reject("steps come before the transaction: it would stay open meanwhile"));
        }
        if !self.steps.0.insert(name.to_owned()) {
            return Err(HandlerError::reject("two steps have the same name, so their results cannot be told apart"));
        }
        Ok(())
    }

    async fn record<T: Serialize>(&mut self, tx: &mut P::Tx, name: &str, result: &T) -> Result<(), HandlerError> {
        let text = serde_json::to_string(result).map_err(HandlerError::reject)?;
        match record_step(tx, self.fence, name, &text, self.shared.clock.now()).await? {
            Fenced::Recorded => Ok(()),
            Fenced::LeaseLost => Err(HandlerError::retry("the lease was lost during a step")),
        }
    }
}

fn read<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, HandlerError> {
    serde_json::from_str(text)
        .map_err(|error| HandlerError::reject(format!("the kept result of step {name} cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(event: u8, handler: &str, step: &str) -> StepKey {
        StepKey::new(EventKey::from_bytes([event; 16]), handler, step)
    }

    #[test]
    fn keys_and_ids_depend_on_event_handler_step_and_name_alone() {
        let first = key(1, "billing", "charge");
        assert_eq!(first, key(1, "billing", "charge"));
        for other in [key(2, "billing", "charge"), key(1, "mail", "charge"), key(1, "billing", "ship")] {
            assert_ne!(first.to_string(), other.to_string());
            assert_ne!(first.id("order"), other.id("order"));
        }
        assert_eq!(first.id("order"), first.id("order"));
        assert_ne!(first.id("order"), first.id("line"));
        assert_eq!(first.id("order").get_version_num(), 8);
        // Written down: a release that derives them otherwise would charge twice.
        assert_eq!(first.to_string(), "541a28e2-7229-b96e-96f7-2e2fd35036c9");
    }
}
