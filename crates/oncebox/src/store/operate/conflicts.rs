//! Settling a conflict: its other body runs as an intended second effect, or nobody is told of it any more.
//!
//! Either way its row stays, accepted and with what was decided as its reason, and a copy of it is a duplicate from then
//! on. The original is left alone. Conflicts are meant only by who names one by its key, or says so by the state: what is
//! said about held events never runs a conflict.

use crate::clock::UnixMillis;
use crate::database::first;
use crate::delivery::routing::Routes;
use crate::event::{EventKey, Position};
use crate::store::operate::actions::{Action, ActionError, ActionKind, Progress, Slice};
use crate::store::{ActionFilter, Row, Store, StoreError, Tx, sql};

/// Why a conflict that was released is accepted.
pub const CONFLICT_RELEASED: &str = "conflict_released";
/// Why a conflict that was discarded is told of no more.
pub const CONFLICT_DISCARDED: &str = "conflict_discarded";

impl Store {
    pub(in crate::store) async fn count_conflicts(
        &self,
        kind: ActionKind,
        filter: &ActionFilter,
    ) -> Result<i64, StoreError> {
        if conflict_phase(kind, filter).is_none() {
            return Ok(0);
        }
        let mut values = filter.of_events(Position::MIN, self.dialect());
        values.push("conflict".into());
        self.number(&sql::WAITING_ACTION_COUNT, values).await
    }

    /// Nobody who does not know the handlers may say that the other body ran.
    pub(in crate::store) async fn check_routed(
        &self,
        action: &Action,
        routes: Option<&Routes>,
    ) -> Result<(), ActionError> {
        let unknown = action.kind == ActionKind::Release && routes.is_none();
        match unknown && self.count_conflicts(action.kind, &action.filter).await? > 0 {
            true => Err(ActionError::Unrouted),
            false => Ok(()),
        }
    }
}

impl Tx {
    pub(in crate::store) async fn conflict_slice(
        &mut self,
        action: &Action,
        routes: Option<&Routes>,
        at: &Progress,
        now: UnixMillis,
    ) -> Result<Slice, StoreError> {
        let (rows, reached) = self.events_slice(&action.filter, Some("conflict"), at).await?;
        let mut slice = Slice { acted: 0, reached };
        for row in &rows {
            let settled = match (action.kind, routes) {
                (ActionKind::Discard, _) => self.settle_conflict(row.key(0)?, CONFLICT_DISCARDED).await?,
                (_, Some(routes)) => self.release_conflict(row, routes, now).await?,
                (_, None) => false,
            };
            slice.acted += i64::from(settled);
        }
        Ok(slice)
    }

    async fn release_conflict(&mut self, row: &Row, routes: &Routes, now: UnixMillis) -> Result<bool, StoreError> {
        let key = row.key(0)?;
        let Some(body) = self.kept_body(key).await? else {
            tracing::warn!(%key, "a conflict cannot run: its payload is no longer kept; discard it");
            return Ok(false);
        };
        if !self.settle_conflict(key, CONFLICT_RELEASED).await? {
            return Ok(false);
        }
        for new in routes.deliveries_for(&row.text(1)?, &row.text(3)?, &body) {
            self.add_delivery(key, &new, now).await?;
        }
        Ok(true)
    }

    /// False where somebody else settled it before.
    async fn settle_conflict(&mut self, key: EventKey, decided: &str) -> Result<bool, StoreError> {
        Ok(self.execute(&sql::SETTLE_CONFLICT, vec![key.into(), decided.into()]).await? > 0)
    }

    /// Whether a person has decided about what was a conflict.
    pub(in crate::store) async fn is_settled(&mut self, key: EventKey) -> Result<bool, StoreError> {
        Ok(first(&self.query(&sql::IS_SETTLED, vec![key.into()]).await?)? > Some(0_i64))
    }
}

/// The phase of an action in which conflicts are settled, if it is about any: alone, or behind what is held of the one
/// event that is named.
pub(in crate::store) fn conflict_phase(kind: ActionKind, filter: &ActionFilter) -> Option<i64> {
    let settles = matches!(kind, ActionKind::Release | ActionKind::Discard) && !filter.is_about_messages();
    match filter.state.as_deref() {
        Some("conflict") if settles => Some(0),
        None if settles && filter.key.is_some() && filter.handler.is_none() => Some(2),
        _ => None,
    }
}
