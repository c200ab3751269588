//! Following what arrives, by asking the database again and again.
//!
//! Keys rise with time, but a commit may be late: what was received first may appear second. So every look goes back a
//! little, and what was shown is remembered for as long.

use std::collections::BTreeSet;
use std::time::Duration;

use oncebox::clock::{Clock, UnixMillis};
use oncebox::event::EventKey;
use oncebox::limits::PAGE_MAX;
use oncebox::store::{EventFilter, Store};
use serde::{Deserialize, Serialize};

use super::{QueryError, check_event_state};
use crate::view::EventView;

/// How long a look goes back: longer than a commit may take.
const LOOK_BACK_MS: UnixMillis = 15_000;
/// The pause between two looks.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Filters of `tail`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct TailQuery {
    /// Exactly this source.
    pub(crate) source: Option<String>,
    /// A type glob.
    pub(crate) r#type: Option<String>,
    /// Exactly this state of events.
    pub(crate) state: Option<String>,
}

/// Somebody who watches.
#[derive(Debug)]
pub(crate) struct Tail {
    store: Store,
    clock: Clock,
    filter: EventFilter,
    /// Everything up to here was looked at for the last time.
    since: EventKey,
    shown: BTreeSet<EventKey>,
}

impl Tail {
    /// Watches what arrives from now on, or after the event that was shown last.
    pub(crate) fn new(
        store: Store,
        clock: Clock,
        query: TailQuery,
        last: Option<EventKey>,
    ) -> Result<Self, QueryError> {
        check_event_state(query.state.as_deref())?;
        let since = last.unwrap_or_else(|| EventKey::at(clock.now()));
        let filter = EventFilter {
            source: query.source,
            event_type: query.r#type,
            state: query.state,
            ..EventFilter::default()
        };
        Ok(Self { store, clock, filter, since, shown: BTreeSet::new() })
    }

    /// What was not shown yet, oldest first; empty when nothing came.
    pub(crate) async fn look(&mut self) -> Result<Vec<EventView>, QueryError> {
        let back = EventKey::at(self.clock.now().saturating_sub(LOOK_BACK_MS));
        let mut after = self.since;
        let mut fresh = Vec::new();
        loop {
            let page = self.store.events_after(after, &self.filter, PAGE_MAX).await?;
            let whole = page.len() == PAGE_MAX;
            after = page.last().map_or(after, |event| event.key);
            fresh.extend(page.into_iter().filter(|event| self.shown.insert(event.key)));
            // A burst is shown in parts, so that memory stays bounded.
            if !whole || fresh.len() >= PAGE_MAX {
                let looked_at = if whole { back.min(after) } else { back };
                self.since = self.since.max(looked_at);
                self.shown = self.shown.split_off(&self.since);
                return Ok(fresh.into_iter().map(Into::into).collect());
            }
        }
    }
}
