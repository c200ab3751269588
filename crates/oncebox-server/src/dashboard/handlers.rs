//! `/handlers`: what reacts to events, how much waits for each, and the switch that pauses it.

use askama::Template;
use oncebox::gateway::clock::UnixMillis;
use serde::Deserialize;

use super::render::format::{grouped, percent, span};
use super::render::link::Link;
use super::render::page::{Params, Shown, Visit, page};
use crate::admin::Admin;
use crate::query::queues;
use crate::query::view::millis;
use crate::query::view::overview::{DepthView, HandlerView};

/// Who was just paused or resumed.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Changed {
    changed: Option<String>,
}

#[derive(Template)]
#[template(path = "handlers.html")]
struct HandlersPage {
    visit: Visit,
    rows: Vec<HandlerRow>,
    changed: Option<String>,
}

/// One handler and where its deliveries stand.
#[derive(Clone, Debug)]
pub(super) struct HandlerRow {
    pub(super) name: String,
    pub(super) configured: bool,
    pub(super) paused: bool,
    pub(super) ready: String,
    pub(super) has_ready: bool,
    pub(super) claimed: String,
    pub(super) dead: String,
    pub(super) has_dead: bool,
    pub(super) held: String,
    /// How long the oldest ready one has been due.
    pub(super) oldest: Option<String>,
    pub(super) done: i64,
    pub(super) error_rate: Option<String>,
    pub(super) policy: Option<String>,
}

impl HandlerRow {
    pub(super) fn new(view: &HandlerView, now: UnixMillis) -> Self {
        let due = view.oldest_due_at.as_deref().and_then(millis);
        #[expect(clippy::cast_precision_loss, reason = "a rate is shown with two digits")]
        let rate = (view.first_tries > 0).then(|| view.first_tries_failed as f64 / view.first_tries as f64);
        let policy = view.attempts.zip(view.lease_seconds);
        Self {
            name: view.handler.clone(),
            configured: view.configured,
            paused: view.paused,
            ready: depth(view.ready),
            has_ready: view.ready.count > 0,
            claimed: depth(view.claimed),
            dead: depth(view.dead),
            has_dead: view.dead.count > 0,
            held: depth(view.held),
            oldest: due.map(|due| now - due).filter(|age| *age > 0).map(span),
            done: view.done,
            error_rate: rate.map(percent),
            policy: policy.map(|(attempts, lease)| format!("{attempts} attempts, lease {lease} s")),
        }
    }

    fn switch(&self) -> Link {
        Link::to(if self.paused { "/act/resume" } else { "/act/pause" }).with("handler", &self.name)
    }

    fn try_now(&self) -> Link {
        Link::to("/act/replay").with("handler", &self.name).with("waiting", "true")
    }
}

/// Every handler that any server ever had.
pub(super) async fn show(admin: Admin, visit: Visit, Params(Changed { changed }): Params<Changed>) -> Shown {
    let handlers = queues::handlers(&admin.context()).await?;
    let rows: Vec<HandlerRow> = handlers.iter().map(|one| HandlerRow::new(one, visit.now)).collect();
    page(&HandlersPage { changed: changed.filter(|name| rows.iter().any(|row| row.name == *name)), rows, visit })
}

/// A count that may have been cut.
pub(super) fn depth(depth: DepthView) -> String {
    format!("{}{}", grouped(depth.count), if depth.more { "+" } else { "" })
}
