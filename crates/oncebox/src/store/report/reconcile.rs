//! What `reconcile` compares: the events marked done, and the ids that a query of the business returns.
//!
//! Read the marks first. An effect commits with its mark, so a query that begins later sees the effect of every mark
//! that was read, unless somebody took it away.

use std::collections::HashSet;

use crate::clock::UnixMillis;
use crate::database::FromRow as _;
use crate::event::{EventKey, Position};
use crate::store::report::columns;
use crate::store::{Database, Store, StoreError, sql};

const PAGE: i64 = 1000;

/// A delivery that is marked done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoneDelivery {
    /// The event's key.
    pub key: EventKey,
    /// The sender's id.
    pub event_id: String,
    /// The sender's type.
    pub event_type: String,
    /// The handler's name.
    pub handler: String,
    /// When it was done.
    pub finished_at: Option<UnixMillis>,
}

/// Which marks to read.
#[derive(Clone, Debug, Default)]
pub struct DoneFilter {
    /// Exactly this source.
    pub source: String,
    /// Exactly this handler.
    pub handler: Option<String>,
    /// The event was received not before.
    pub since: Option<UnixMillis>,
    /// The event was received before.
    pub until: Option<UnixMillis>,
}

impl Store {
    /// Every delivery that is marked done and fits, in the order of the keys.
    pub async fn done_deliveries(&self, filter: &DoneFilter) -> Result<Vec<DoneDelivery>, StoreError> {
        let mut reached = Position::MIN;
        let mut done = Vec::new();
        loop {
            let values = vec![
                reached.into(),
                filter.source.as_str().into(),
                filter.handler.as_deref().into(),
                filter.since.into(),
                filter.until.into(),
                PAGE.into(),
            ];
            let rows = self.query(&sql::DONE_DELIVERIES, values).await?;
            let Some(last) = rows.last() else { return Ok(done) };
            reached = last.key(5)?;
            done.extend(rows.iter().map(DoneDelivery::from_row).collect::<Result<Vec<_>, _>>()?);
        }
    }

    /// The first column of a query that is not ours, as text. It can change nothing.
    pub async fn business_ids(&self, query: &str) -> Result<HashSet<String>, StoreError> {
        let query = query.trim().trim_end_matches(';');
        by_database!(Database, &self.database, database => database.first_column(query).await)
    }
}

columns!(DoneDelivery: key, event_id, event_type, handler, finished_at);
