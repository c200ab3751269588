//! Trying now what waits for its next attempt: after an outage nobody wants to wait for the longest pause.
//!
//! Only the time moves: the budget of attempts stays, what waits for a prerequisite goes on waiting for it, and order is
//! kept by the claim as always.

use crate::clock::UnixMillis;
use crate::database::Transaction as _;
use crate::event::Position;
use crate::store::operate::actions::{Progress, SLICE, Slice, count, first_int};
use crate::store::{Action, ActionError, ActionFilter, ActionKind, Store, StoreError, Tx, Value, sql};

impl Store {
    /// How many wait for their next attempt.
    pub async fn count_hurry(&self, filter: &ActionFilter, now: UnixMillis) -> Result<i64, ActionError> {
        filter.check(ActionKind::Replay)?;
        let rows = if filter.is_about_messages() {
            let mut values = filter.message_values(Position::MIN);
            values.push(now.into());
            self.query(&sql::WAITING_ATTEMPTS_OF_MESSAGES, values).await?
        } else {
            let mut values = filter.of_deliveries(Position::MIN, self.dialect());
            values.extend([filter.handler.as_deref().into(), filter.key.into(), now.into()]);
            self.query(&sql::WAITING_ATTEMPTS, values).await?
        };
        Ok(first_int(&rows)?)
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
        let rows = if filter.is_about_messages() {
            let mut values = filter.message_values(at.reached);
            values.extend([now.into(), Value::from(SLICE)]);
            self.query(&sql::HURRY_MESSAGES, values).await?
        } else {
            let mut values = filter.of_deliveries(at.reached, self.dialect());
            values.extend([filter.handler.as_deref().into(), filter.key.into(), now.into(), SLICE.into()]);
            self.query(&sql::HURRY, values).await?
        };
        let mut last = None;
        for row in &rows {
            last = last.max(Some(row.key(0)?));
        }
        Ok(Slice { acted: count(rows.len()), reached: last })
    }
}
