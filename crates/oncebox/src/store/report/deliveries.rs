//! Reading deliveries for people and for metrics: pages, dead letters, held ones, attempts, depths.

use crate::clock::UnixMillis;
use crate::database::FromRow;
use crate::event::{DeliveryKey, EventKey, NodeKey, Position};
use crate::store::report::columns;
use crate::store::report::events::{DeliveryRecord, QueueCount, like};
use crate::store::report::key_range::{Page, Range, one_more};
use crate::store::{Row, Store, StoreError, sql};

/// A delivery in a list, with the event it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryLine {
    /// The event's key.
    pub key: EventKey,
    /// The source's name.
    pub source: String,
    /// The sender's id.
    pub event_id: String,
    /// The sender's type.
    pub event_type: String,
    /// The delivery itself.
    pub delivery: DeliveryRecord,
}

/// Which deliveries to list. What is absent does not matter.
#[derive(Clone, Debug, Default)]
pub struct DeliveryFilter {
    /// Exactly this state: `dead` lists the dead letters, `held` what waits for a person.
    pub state: Option<String>,
    /// Exactly this handler.
    pub handler: Option<String>,
    /// Exactly this source.
    pub source: Option<String>,
    /// A type, with `*` for any run of characters.
    pub event_type: Option<String>,
    /// The event was received not before.
    pub since: Option<UnixMillis>,
    /// The event was received before.
    pub until: Option<UnixMillis>,
    /// Exactly this event.
    pub key: Option<EventKey>,
    /// Older than this delivery: the cursor of the page before.
    pub before: Option<Position>,
}

/// An attempt other than the one that the delivery itself tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    /// The delivery.
    pub delivery: DeliveryKey,
    /// The handler's name.
    pub handler: String,
    /// Which attempt, from 1.
    pub attempt: i64,
    /// The process that made it, where it was a worker of ours.
    pub node: Option<NodeKey>,
    /// When it was claimed.
    pub started_at: Option<UnixMillis>,
    /// When it ended.
    pub ended_at: UnixMillis,
    /// `failed`, `dead`, `superseded`, `held` or `lost`; `done` where the delivery was put back in line afterwards.
    pub outcome: String,
    /// The target's answer, where there was one.
    pub status: Option<i64>,
    /// Why.
    pub error: Option<String>,
}

/// How the first attempts of a handler's deliveries went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstTries {
    /// The handler's name.
    pub handler: String,
    /// Deliveries whose first attempt ended.
    pub tried: i64,
    /// How many of those attempts failed.
    pub failed: i64,
}

impl Store {
    /// A page of deliveries, newest first.
    pub async fn deliveries(&self, filter: &DeliveryFilter, limit: usize) -> Result<Page<DeliveryLine>, StoreError> {
        let range = self.deliveries_range(filter).await?;
        let values = vec![
            range.before.into(),
            filter.state.as_deref().into(),
            filter.handler.as_deref().into(),
            filter.source.as_deref().into(),
            filter.event_type.as_deref().map(like).as_deref().into(),
            filter.since.into(),
            filter.until.into(),
            filter.key.into(),
            one_more(limit),
            range.floor.into(),
            range.floor.delivery_range().0.into(),
            range.before.delivery_range().1.into(),
        ];
        let statement = match filter.state.as_deref() {
            Some("dead" | "held") => &sql::STOPPED_PAGE,
            _ => &sql::DELIVERIES_PAGE,
        };
        Ok(range.page(self.list(statement, values).await?, limit, |line: &DeliveryLine| line.delivery.delivery))
    }

    /// Where a page of deliveries looks: those of one event, or so many as may be examined.
    async fn deliveries_range(&self, filter: &DeliveryFilter) -> Result<Range, StoreError> {
        let range = Range::within(filter.before, filter.since, filter.until);
        if let Some(key) = filter.key {
            let (first, last) = key.delivery_range();
            return Ok(Range { before: range.before.min(last.position()), floor: first.position(), more: false });
        }
        let stopped = filter.state.as_deref().filter(|state| matches!(*state, "dead" | "held"));
        let narrow = filter.handler.is_some() || filter.source.is_some() || filter.event_type.is_some();
        let narrow = narrow || (filter.state.is_some() && stopped.is_none());
        let floor = if stopped.is_some() { &sql::STOPPED_FLOOR } else { &sql::DELIVERIES_FLOOR };
        Ok(if narrow { range.cut(self.floor(floor, range.before, stopped).await?) } else { range })
    }

    /// The attempts of an event, by handler, without the one by which a delivery is done now.
    pub async fn attempts(&self, key: EventKey) -> Result<Vec<AttemptRecord>, StoreError> {
        let (first, last) = key.delivery_range();
        self.list(&sql::ATTEMPTS_OF, vec![first.into(), last.into(), key.into()]).await
    }

    /// What waits or is stopped, by handler, with the oldest due time of what is ready: cheap enough to ask often.
    pub async fn queue_depths(&self) -> Result<Vec<QueueCount>, StoreError> {
        self.list(&sql::QUEUE_DEPTHS, Vec::new()).await
    }
}

impl FromRow for DeliveryLine {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        let (key, source, event_id, event_type) = (row.key(8)?, row.text(9)?, row.text(10)?, row.text(11)?);
        Ok(Self { key, source, event_id, event_type, delivery: DeliveryRecord::from_row(row)? })
    }
}

columns!(AttemptRecord: delivery, handler, attempt, node, started_at, ended_at, outcome, status, error);
