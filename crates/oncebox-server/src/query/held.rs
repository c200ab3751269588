//! What waits for a person: why, and what a release would do.

use oncebox::Clock;
use oncebox::gateway::store::Store;
use serde::{Deserialize, Serialize};

use super::{EventsQuery, QueryError, Result, filter, page_limit};
use crate::observe::diagnosis;
use crate::query::view::{HeldView, Items};

/// Filters as a person writes them: those of events, as far as they make sense for what waits.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeldQuery {
    /// Exactly this source.
    pub(crate) source: Option<String>,
    /// A type glob.
    pub(crate) r#type: Option<String>,
    /// Exactly this state.
    pub(crate) state: Option<String>,
    /// A time, or an age such as `2h`.
    pub(crate) since: Option<String>,
    /// An age, a time or a date.
    pub(crate) until: Option<String>,
    /// A part of the id or the type.
    pub(crate) text: Option<String>,
    /// Where the page before ended.
    pub(crate) cursor: Option<String>,
    /// Rows of a page.
    pub(crate) limit: Option<usize>,
}

impl From<HeldQuery> for EventsQuery {
    fn from(query: HeldQuery) -> Self {
        let HeldQuery { source, r#type, state, since, until, text, cursor, limit } = query;
        Self { source, r#type, state, since, until, text, cursor, limit, ..Self::default() }
    }
}

/// A page of it, newest first.
pub(crate) async fn held(store: &Store, clock: &Clock, query: EventsQuery) -> Result<Items<HeldView>> {
    let limit = page_limit(query.limit)?;
    if query.body.is_some() || query.id.is_some() || query.delivery_state.is_some() || query.handler.is_some() {
        return Err(QueryError::Bad("what is held is not searched by id, body, handler or delivery_state".into()));
    }
    let page = store.held(&filter(query, clock.now())?, limit).await?;
    Ok(Items::mapped(page, |event| HeldView {
        why: diagnosis::of_held(event.reason.as_deref()).to_owned(),
        release_does: diagnosis::of_release(event.reason.as_deref()).to_owned(),
        event: event.into(),
    }))
}
