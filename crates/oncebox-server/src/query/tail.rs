//! Following what arrives, by asking the database again and again.
//!
//! Keys rise with time, but a commit may be late: what was received first may appear second. So every look goes back a
//! little, and what was shown is remembered for as long.

use std::collections::BTreeSet;
use std::time::Duration;

use oncebox::gateway::clock::{Clock, UnixMillis};
use oncebox::gateway::event::Position;
use oncebox::gateway::limits::{PAGE_EXAMINED_MAX, PAGE_MAX};
use oncebox::gateway::store::{EventFilter, Store};
use serde::{Deserialize, Serialize};

use super::{Result, check_event_state, not_our_cursor};
use crate::query::view::EventView;

/// How long a look goes back: longer than a commit may take.
const LOOK_BACK_MS: UnixMillis = 15_000;
/// The pause between two looks.
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(500);

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
    /// Begin after this key; without it, with what arrives from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Tail {
    store: Store,
    clock: Clock,
    filter: EventFilter,
    /// Everything up to here was looked at for the last time.
    since: Position,
    shown: BTreeSet<Position>,
    sweep: Option<Sweep>,
}

/// A way from `since` to the newest event, in as many looks as it takes.
#[derive(Clone, Copy, Debug)]
struct Sweep {
    /// Where the next look goes on.
    at: Position,
    /// What is older than this when the sweep began needs no other.
    back: Position,
}

/// The key from which on a list made at this moment may miss events: what was received before and is committed after.
pub(crate) fn after_list(now: UnixMillis) -> Position {
    Position::at(now.saturating_sub(LOOK_BACK_MS))
}

impl Tail {
    /// Watches what arrives after the event that was shown last, else after the key that the query names, else from now
    /// on.
    pub(crate) fn new(store: Store, clock: Clock, query: TailQuery, last: Option<Position>) -> Result<Self> {
        check_event_state(query.state.as_deref())?;
        // The first key of a moment is no row's, and a page without rows begins its stream there.
        let after = query.after.as_deref().map(str::parse).transpose().map_err(|_forged| not_our_cursor())?;
        let since = last.or(after).unwrap_or_else(|| Position::at(clock.now()));
        let filter = EventFilter {
            source: query.source,
            event_type: query.r#type,
            state: query.state,
            ..EventFilter::default()
        };
        Ok(Self { store, clock, filter, since, shown: BTreeSet::new(), sweep: None })
    }

    /// What was not shown yet, oldest first; empty when nothing came. A look examines a bounded number of rows, however
    /// rare the wanted ones are: [`Tail::is_behind`] says whether the next one should follow at once.
    pub(crate) async fn poll(&mut self) -> Result<Vec<EventView>> {
        let begun = Sweep { at: self.since, back: after_list(self.clock.now()) };
        let sweep = self.sweep.unwrap_or(begun);
        let page = self.store.events_after(sweep.at, &self.filter, PAGE_MAX, PAGE_EXAMINED_MAX).await?;
        self.sweep = page.next.map(|at| Sweep { at, ..sweep });
        let fresh: Vec<_> = page.items.into_iter().filter(|event| self.shown.insert(event.key.position())).collect();
        let done = page.next.map_or(sweep.back, |at| at.min(sweep.back));
        self.since = self.since.max(done);
        self.shown = self.shown.split_off(&self.since);
        Ok(fresh.into_iter().map(Into::into).collect())
    }

    /// True where the last look did not reach the newest event.
    pub(crate) fn is_behind(&self) -> bool {
        self.sweep.is_some()
    }
}
