//! `/handlers`: what reacts to events, how much waits for each, and the switch that pauses it.

use askama::Template;
use oncebox::gateway::clock::UnixMillis;
use serde::Deserialize;

use super::render::format::{grouped, percent, span};
use super::render::{Link, Params, Shown, Visit, page};
use crate::admin::Admin;
use crate::query::queues;
use crate::query::view::{DepthView, HandlerView, millis};

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

#[derive(Clone, Debug)]
pub(super) struct HandlerRow {
    pub(super) view: HandlerView,
    /// How long the oldest ready one has been due.
    pub(super) oldest: Option<String>,
    pub(super) error_rate: Option<String>,
    pub(super) policy: Option<String>,
}

impl HandlerRow {
    pub(super) fn new(view: &HandlerView, now: UnixMillis) -> Self {
        let due = view.oldest_due_at.as_deref().and_then(millis);
        let rate = (view.first_tries > 0).then(|| view.first_tries_failed as f64 / view.first_tries as f64);
        let policy = view.attempts.zip(view.lease_seconds);
        Self {
            view: view.clone(),
            oldest: due.map(|due| now - due).filter(|age| *age > 0).map(span),
            error_rate: rate.map(percent),
            policy: policy.map(|(attempts, lease)| format!("{attempts} attempts, lease {lease} s")),
        }
    }

    fn switch(&self) -> Link {
        Link::to(if self.view.paused { "/act/resume" } else { "/act/pause" }).with("handler", &self.view.handler)
    }

    fn try_now(&self) -> Link {
        Link::to("/act/replay").with("handler", &self.view.handler).with("waiting", "true")
    }
}

/// Every handler that any server ever had.
pub(super) async fn show(admin: Admin, visit: Visit, Params(Changed { changed }): Params<Changed>) -> Shown {
    let handlers = queues::handlers(&admin.context()).await?;
    let rows: Vec<HandlerRow> = handlers.iter().map(|one| HandlerRow::new(one, visit.now)).collect();
    page(&HandlersPage {
        changed: changed.filter(|name| rows.iter().any(|row| row.view.handler == *name)),
        rows,
        visit,
    })
}

impl DepthView {
    /// A count that may have been cut.
    pub(super) fn shown(self) -> String {
        format!("{}{}", grouped(self.count), if self.more { "+" } else { "" })
    }
}
