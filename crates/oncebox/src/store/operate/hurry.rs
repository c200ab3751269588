//! Trying now what waits for its next attempt: after an outage nobody wants to wait for the longest pause.
//!
//! Only the time moves: the budget of attempts stays, what waits for a prerequisite goes on waiting for it, and order is
//! kept by the claim as always.

use crate::clock::UnixMillis;
use crate::database::Transaction as _;
use crate::event::Position;
use crate::store::operate::actions::{Progress, SLICE, Slice};
use crate::store::{Action, ActionError, ActionFilter, ActionKind, Dialect, Store, StoreError, Tx, Value, sql};

impl Store {
    /// How many wait for their next attempt.
    pub async fn count_hurry(&self, filter: &ActionFilter, now: UnixMillis) -> Result<i64, ActionError> {
        filter.check(ActionKind::Replay)?;
        let values = filter.hurry_values(Position::MIN, self.dialect(), now);
        let of_messages = filter.is_about_messages();
        let statement = if of_messages { &sql::WAITING_ATTEMPTS_OF_MESSAGES } else { &sql::WAITING_ATTEMPTS };
        Ok(self.number(statement, values).await?)
    }
}

impl Tx {
    pub(in crate::store) async fn hurry_slice(
        &mut self,
        action: &Action,
        at: &Progress,
        now: UnixMillis,
    ) -> Result<Slice, StoreError> {
        let filter = &action.filter;
        let mut values = filter.hurry_values(at.reached, self.dialect(), now);
        values.push(SLICE.into());
        let statement = if filter.is_about_messages() { &sql::HURRY_MESSAGES } else { &sql::HURRY };
        Slice::of(&self.query(statement, values).await?)
    }
}

impl ActionFilter {
    fn hurry_values(&self, after: Position, dialect: Dialect, now: UnixMillis) -> Vec<Value> {
        if self.is_about_messages() {
            return [self.message_values(after), vec![now.into()]].concat();
        }
        let rest = vec![self.handler.as_deref().into(), self.key.into(), now.into()];
        [self.of_deliveries(after, dialect), rest].concat()
    }
}
