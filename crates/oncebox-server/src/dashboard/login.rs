//! `/login` and `/logout`: a token opens a session, which lasts until somebody ends it or it grows old.

use std::net::SocketAddr;

use askama::Template;
use axum::response::{IntoResponse, Redirect, Response};
use axum::{Extension, Form};
use http::header::{RETRY_AFTER, SET_COOKIE};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;

use super::render::{Params, Shown, page, page_with};
use crate::admin::Admin;
use crate::admin::guard::Caller;
use crate::admin::login::{self, OwnForm};

/// Where a login leads.
#[derive(Debug, Default, Deserialize)]
pub(super) struct LoginQuery {
    next: Option<String>,
}

/// What the form sends. Never printed: it holds the token.
#[derive(Deserialize)]
pub(super) struct LoginForm {
    token: String,
    next: Option<String>,
}

#[derive(Debug, Template)]
#[template(path = "login.html")]
struct LoginPage {
    next: String,
    refusal: &'static str,
}

/// The form; whoever is let in already goes on.
pub(super) async fn ask(caller: Option<Extension<Caller>>, Params(query): Params<LoginQuery>) -> Shown {
    let next = own_page(query.next);
    if caller.is_some() {
        return Ok(Redirect::to(&next).into_response());
    }
    page(&LoginPage { next, refusal: "" })
}

/// Opens a session, or says why not and nothing more.
pub(super) async fn log_in(
    admin: Admin,
    Extension(peer): Extension<SocketAddr>,
    headers: HeaderMap,
    Form(form): Form<LoginForm>,
) -> Shown {
    let next = own_page(form.next);
    match login::open(&admin, peer, &headers, form.token.trim()) {
        Ok(opened) => Ok(([(SET_COOKIE, opened.cookie)], Redirect::to(&next)).into_response()),
        Err(problem) => {
            let status = problem.status();
            let refusal = match status {
                StatusCode::UNAUTHORIZED => "This token opens nothing.",
                StatusCode::TOO_MANY_REQUESTS => "Too many wrong tokens came from your address. Wait a minute.",
                StatusCode::BAD_REQUEST => "No token is configured, so nobody needs to log in.",
                _ => "The server cannot open a session now.",
            };
            let mut page = page_with(status, &LoginPage { next, refusal })?;
            if let Some(seconds) = problem.retry_after() {
                page.headers_mut().insert(RETRY_AFTER, seconds.into());
            }
            Ok(page)
        }
    }
}

pub(super) async fn log_out(admin: Admin, headers: HeaderMap, _form: OwnForm) -> Response {
    ([(SET_COOKIE, admin.guard.log_out(&headers))], Redirect::to("/login")).into_response()
}

/// A path on this server: anything else would send somebody who just logged in to a stranger.
fn own_page(next: Option<String>) -> String {
    let is_own = |next: &String| {
        let plain = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
        plain && next.starts_with('/') && !next.starts_with("//") && !next.starts_with("/login")
    };
    next.filter(is_own).unwrap_or_else(|| "/".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_to_our_own_pages_only() {
        for (next, expected) in [
            ("/events?source=stripe", "/events?source=stripe"),
            ("//evil.example", "/"),
            ("/\\evil.example", "/"),
            ("https://evil.example", "/"),
            ("javascript:alert(1)", "/"),
            ("/a\r\nset-cookie: x", "/"),
            ("/login?next=/login", "/"),
            ("", "/"),
        ] {
            assert_eq!(own_page(Some(next.to_owned())), expected, "{next}");
        }
    }
}
