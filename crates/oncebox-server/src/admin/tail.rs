//! `GET /api/v1/tail`: what arrives, as server-sent events. Ends when the server stops, and when whoever watches may not
//! look any more: a stream outlives neither its session nor its token.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use http::HeaderMap;

use crate::admin::Admin;
use crate::admin::api::{ApiError, Params};
use crate::admin::openapi::Refusals;
use crate::query::tail::{POLL_EVERY, Tail, TailQuery};
use crate::query::view::EventView;

/// What arrives, as server-sent events named `event`; each has the view of an event as its data.
#[utoipa::path(get, path = "/api/v1/tail", tag = "events", params(TailQuery),
    responses((status = 200, description = "A stream that ends when the server stops, or when the session or token of the caller ends.", body = String, content_type = "text/event-stream"), Refusals))]
pub(crate) async fn tail(
    admin: Admin,
    headers: HeaderMap,
    Params(query): Params<TailQuery>,
) -> Result<Response, ApiError> {
    admin.check_names(query.source.as_deref(), None).await?;
    // A browser that lost the stream says what it saw last.
    let last = headers.get("last-event-id").and_then(|key| key.to_str().ok()?.parse().ok());
    let tail = Tail::new(admin.store.clone(), admin.clock.clone(), query, last)?;
    let watcher = Watcher { admin, headers, tail, waiting: VecDeque::new() };
    let lines = stream::unfold(watcher, async |mut watcher| {
        let event = watcher.next().await?;
        let line = Event::default().event("event").id(event.key.as_str()).json_data(&event);
        // A view of strings and numbers is always JSON; without data the line would be a mere comment.
        Some((Ok::<_, Infallible>(line.unwrap_or_default()), watcher))
    });
    Ok(Sse::new(lines).keep_alive(KeepAlive::default()).into_response())
}

struct Watcher {
    admin: Admin,
    /// What the request came with, to be judged anew.
    headers: HeaderMap,
    tail: Tail,
    waiting: VecDeque<EventView>,
}

impl Watcher {
    /// The next event; none when the server stops, or when the watcher may not look any more.
    async fn next(&mut self) -> Option<EventView> {
        loop {
            self.admin.guard.caller(&self.headers)?;
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            let pause = match self.tail.poll().await {
                Ok(fresh) => {
                    self.waiting.extend(fresh);
                    if self.tail.is_behind() { Duration::ZERO } else { POLL_EVERY }
                }
                // The next look may find it again; a watcher is not told of every hiccup.
                Err(error) => {
                    tracing::debug!("a look for tail failed: {error}");
                    POLL_EVERY
                }
            };
            if self.waiting.is_empty() && self.admin.drains_within(pause).await {
                return None;
            }
        }
    }
}
