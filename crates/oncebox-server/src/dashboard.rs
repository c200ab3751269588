//! The dashboard: pages for people on the admin listener, rendered here, readable without a script.
//!
//! One file per screen holds what the screen shows and how it is found; `templates/` holds the markup, and `assets/` the
//! one stylesheet and the one script. Whatever a sender wrote reaches a page only through the templates' escaping, and
//! the policy of every page forbids what is not ours in case that should fail.

mod actions;
mod audit;
mod dead_letters;
mod deliveries;
mod event;
mod events;
mod handlers;
mod held;
mod login;
mod outbox;
mod overview;
mod rejections;
mod render;
mod retention;
mod sources;
mod tail;

use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use http::header::ACCEPT;
use http::{HeaderMap, Uri};

use crate::admin::{Admin, guard};
use crate::http::problem::Problem;
use render::PageError;

/// Every page. Those that show something are behind the login; the assets and the login itself are not.
pub(crate) fn routes() -> Router<Admin> {
    let pages = Router::new()
        .route("/", get(overview::show))
        .route("/tail", get(tail::show))
        .route("/find", get(events::find))
        .route("/events", get(events::show))
        .route("/events/{key}", get(event::show))
        .route("/dead-letters", get(dead_letters::show))
        .route("/held", get(held::show))
        .route("/rejections", get(rejections::show))
        .route("/sources", get(sources::list))
        .route("/sources/{name}", get(sources::one))
        .route("/handlers", get(handlers::show))
        .route("/destinations", get(outbox::destinations))
        .route("/outbox", get(outbox::list))
        .route("/outbox/{id}", get(outbox::one))
        .route("/retention", get(retention::show))
        .route("/audit", get(audit::list))
        .route("/audit/{id}", get(audit::one))
        .route("/act/{kind}", get(actions::ask).post(actions::act))
        .layer(middleware::from_fn(guard::need_login));
    pages
        .route("/login", get(login::ask).post(login::log_in))
        .route("/logout", post(login::log_out))
        .merge(render::assets::routes())
        .fallback(nothing)
}

/// The answer where nothing is: a page for a browser, a problem for a program.
async fn nothing(uri: Uri, headers: HeaderMap) -> Response {
    let accepts = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/html") && !uri.path().starts_with("/api/") {
        return PageError::not_found().into_response();
    }
    Problem::not_found().into_response().map(axum::body::Body::new)
}
