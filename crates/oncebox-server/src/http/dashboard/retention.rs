//! `/retention`: how long things are remembered, how much there is, and how fast it grows.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::super::admin::Admin;
use super::pages::{PageError, Visit, page};
use super::words::{grouped, signed};
use crate::query;

#[derive(Template)]
#[template(path = "retention.html")]
struct RetentionPage {
    visit: Visit,
    ledger_rows: String,
    daily_change: String,
}

/// The ledger and its growth.
pub(super) async fn show(State(admin): State<Admin>, visit: Visit) -> Result<Response, PageError> {
    let stats = query::stats(admin.store(), admin.clock(), Vec::new()).await?;
    page(&RetentionPage {
        ledger_rows: grouped(stats.ledger_rows),
        daily_change: signed(stats.ledger_rows_daily_change),
        visit,
    })
}
