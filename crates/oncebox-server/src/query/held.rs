//! What waits for a person: why, and what a release would do.

use oncebox::clock::Clock;
use oncebox::store::Store;

use super::{EventsQuery, QueryError};
use crate::diagnosis;
use crate::view::Items;
use crate::view::screens::HeldView;

/// A page of it, newest first.
pub(crate) async fn held(store: &Store, clock: &Clock, query: EventsQuery) -> Result<Items<HeldView>, QueryError> {
    let page = super::held(store, clock, query).await?;
    let view = |event: crate::view::EventView| HeldView {
        why: diagnosis::of_held(event.reason.as_deref()).to_owned(),
        release_does: diagnosis::of_release(event.reason.as_deref()).to_owned(),
        event,
    };
    let items = page.items.into_iter().map(view).collect();
    Ok(Items { items, next_cursor: page.next_cursor, searched_until: page.searched_until })
}
