//! What operators do to stopped messages: replay and discard, in the same slices and under the same ids as for
//! deliveries. Stopped are the dead ones, and those that wait for a destination that nobody serves.

use crate::clock::UnixMillis;
use crate::event::{MessageKey, Position};
use crate::store::operate::action_filter::just_below;
use crate::store::operate::actions::{Progress, SLICE, Slice};
use crate::store::{Action, ActionError, ActionFilter, ActionKind, Store, StoreError, Tx, Value, sql};

impl ActionFilter {
    /// True when it names messages and not deliveries or events.
    pub fn is_about_messages(&self) -> bool {
        self.destination.is_some() || self.message.is_some()
    }

    /// Only stopped messages can be acted on, and nothing about events tells them apart.
    pub(in crate::store) fn check_messages(&self, kind: ActionKind) -> Result<(), ActionError> {
        let by_event = self.source.is_some() || self.event_type.is_some() || self.key.is_some();
        let acts = matches!(kind, ActionKind::Replay | ActionKind::Discard);
        let state = if kind == ActionKind::Replay && self.waiting { "ready" } else { "dead" };
        let fits = self.state.as_deref().is_none_or(|asked| asked == state);
        if acts && fits && !by_event { Ok(()) } else { Err(ActionError::Messages) }
    }

    pub(in crate::store) fn message_values(&self, after: Position) -> Vec<Value> {
        // An id that is named bounds the ids, so that an action on one message reads that one.
        let first = self.message.unwrap_or(MessageKey::MIN);
        vec![
            just_below(first.position()).max(after).into(),
            self.destination.as_deref().into(),
            self.handler.as_deref().into(),
            self.since.into(),
            self.until.into(),
            self.message.unwrap_or(MessageKey::MAX).into(),
        ]
    }
}

impl Store {
    pub(in crate::store) async fn count_messages(&self, filter: &ActionFilter) -> Result<i64, ActionError> {
        let values = filter.message_values(Position::MIN);
        let dead = self.number(&sql::MESSAGE_ACTION_COUNT, values.clone()).await?;
        if !filter.waiting {
            return Ok(dead);
        }
        let waiting = if filter.message.is_some() { &sql::WAITING_MESSAGE_COUNT } else { &sql::WAITING_MESSAGES_COUNT };
        Ok(dead + self.number(waiting, values).await?)
    }
}

impl Tx {
    pub(in crate::store) async fn message_slice(
        &mut self,
        action: &Action,
        at: &Progress,
        now: UnixMillis,
    ) -> Result<Slice, StoreError> {
        let state = if action.kind == ActionKind::Discard { "discarded" } else { "ready" };
        let mut values = action.filter.message_values(at.reached);
        values.extend([state.into(), now.into(), SLICE.into()]);
        let statement = match (at.phase, action.filter.message) {
            (0, _) => &sql::MESSAGE_ACTION_SLICE,
            (_, Some(_)) => &sql::WAITING_MESSAGE_SLICE,
            (_, None) => &sql::WAITING_MESSAGES_SLICE,
        };
        Slice::of(&self.query(statement, values).await?)
    }
}
