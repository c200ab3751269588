//! Giving a handler the stored events that it never had, because it came later: in the same slices and under the same ids
//! as every action.

use std::collections::HashSet;

use crate::clock::UnixMillis;
use crate::delivery::routing::{NewDelivery, Route};
use crate::event::{EventKey, EventKind, Position};
use crate::store::operate::actions::{Progress, SLICE, Slice};
use crate::store::{
    Action, ActionError, ActionFilter, ActionKind, CONFLICT_DISCARDED, Row, Store, StoreError, Tx, sql,
};

impl Store {
    /// How many deliveries a backfill with this route would create.
    pub async fn count_backfill(&self, filter: &ActionFilter, route: &Route) -> Result<i64, ActionError> {
        filter.check(ActionKind::Backfill)?;
        let mut reached = Position::MIN;
        let mut missing = 0;
        loop {
            let mut values = filter.of_events(reached, self.dialect());
            values.extend([Some("accepted").into(), SLICE.into()]);
            let rows = self.query(&sql::ACTION_EVENTS, values).await?;
            let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(missing) };
            reached = last.key(0)?;
            let (from, to) = (first.key::<EventKind>(0)?.delivery_range().0, reached.delivery_range().1);
            let values = vec![from.into(), to.into(), (&*route.handler).into()];
            let present: HashSet<EventKey> = self.list(&sql::DELIVERIES_BETWEEN, values).await?.into_iter().collect();
            for row in &rows {
                missing += i64::from(wants(route, row)? && !present.contains(&row.key(0)?));
            }
        }
    }
}

impl Tx {
    pub(in crate::store) async fn backfill_slice(
        &mut self,
        action: &Action,
        route: &Route,
        at: &Progress,
        now: UnixMillis,
    ) -> Result<Slice, StoreError> {
        let (rows, reached) = self.events_slice(&action.filter, Some("accepted"), at).await?;
        let mut slice = Slice { acted: 0, reached };
        for row in &rows {
            let key = row.key(0)?;
            if wants(route, row)?
                && let Some(body) = self.kept_body(key).await?
            {
                slice.acted += self.add_delivery(key, &route.new_delivery(&body), now).await?;
            }
        }
        Ok(slice)
    }

    /// Gives a handler an event that it never had; 0 where it had it.
    pub(in crate::store) async fn add_delivery(
        &mut self,
        key: EventKey,
        new: &NewDelivery,
        now: UnixMillis,
    ) -> Result<i64, StoreError> {
        let delivery = key.of_delivery(&new.handler);
        let values = vec![delivery.into(), key.into(), (&*new.handler).into(), new.order_key.into(), now.into()];
        Ok(i64::try_from(self.execute(&sql::ADD_DELIVERY, values).await?).unwrap_or(0))
    }
}

/// A conflict that was discarded is accepted, and no handler may have it.
fn wants(route: &Route, row: &Row) -> Result<bool, StoreError> {
    let is_discarded = row.optional_text(7)?.is_some_and(|reason| reason == CONFLICT_DISCARDED);
    Ok(!is_discarded && route.wants(&row.text(1)?, &row.text(3)?))
}
