//! `/audit`: what people did, newest first; `/audit/{id}`: what came of one action.

use askama::Template;
use axum::extract::Path;
use serde::Deserialize;

use super::render::{Link, PageError, Params, Shown, Visit, When, page};
use crate::admin::Admin;
use crate::query::view::ActionView;
use crate::query::{PageQuery, actions};

const ROWS: usize = 200;

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    visit: Visit,
    rows: Vec<ActionRow>,
    is_first: bool,
    older: Option<Link>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    cursor: Option<String>,
}

#[derive(Template)]
#[template(path = "action.html")]
struct ActionPage {
    visit: Visit,
    row: ActionRow,
}

struct ActionRow {
    action: ActionView,
    started: When,
    finished: Option<When>,
    about: Vec<(String, String)>,
}

pub(super) async fn list(admin: Admin, visit: Visit, Params(asked): Params<Asked>) -> Shown {
    let query = PageQuery { limit: Some(ROWS), cursor: asked.cursor };
    let found = actions::actions(&admin.store, &query).await?;
    let rows = found.items.into_iter().map(|action| ActionRow::new(action, &visit)).collect();
    let older = found.next_cursor.map(|cursor| Link::to("/audit").with("cursor", &cursor));
    page(&AuditPage { rows, is_first: query.cursor.is_none(), older, visit })
}

pub(super) async fn one(admin: Admin, visit: Visit, Path(id): Path<String>) -> Shown {
    let action = actions::action(&admin.store, &id).await?.ok_or_else(PageError::not_found)?;
    page(&ActionPage { row: ActionRow::new(action, &visit), visit })
}

impl ActionRow {
    fn new(action: ActionView, visit: &Visit) -> Self {
        Self {
            started: When::read(&action.started_at, visit.now),
            finished: When::maybe(action.finished_at.as_deref(), visit.now),
            about: action.about(),
            action,
        }
    }

    fn link(&self) -> Link {
        Link::below("/audit", &self.action.action_id)
    }

    /// The event that a single action was about.
    fn event(&self) -> Option<&str> {
        self.about.iter().find(|(name, _)| name == "key").map(|(_, value)| value.as_str())
    }
}
