//! `/api/v1/session`: a login with the token opens a browser session, a logout ends it.

use std::net::SocketAddr;

use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Form, Json};
use http::header::{ORIGIN, SET_COOKIE};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};

use crate::admin::Admin;
use crate::admin::api::{ApiError, JsonBody};
use crate::admin::guard::{Caller, LoginRefusal, Role};
use crate::admin::openapi::Refusals;
use crate::admin::session::{Channel, Opened, SESSION_LASTS};
use crate::http::client;
use crate::http::problem::Problem;

/// A login.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoginBody {
    /// The operator's or the viewer's token.
    token: String,
}

/// Who is logged in.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct SessionView {
    /// What the caller may do.
    role: Role,
    /// What a session's requests carry in `oncebox-form-token` when they change something.
    form_token: Option<String>,
    /// How long the session lasts, where one was opened now.
    lasts_seconds: Option<u64>,
}

/// Opens a session.
#[utoipa::path(post, path = "/api/v1/session", tag = "session", request_body = LoginBody,
    responses((status = 200, description = "The session; its cookie comes with the answer.", body = SessionView), Refusals))]
pub(crate) async fn log_in(
    admin: Admin,
    Extension(peer): Extension<SocketAddr>,
    headers: HeaderMap,
    JsonBody(body): JsonBody<LoginBody>,
) -> Result<Response, ApiError> {
    let opened = open(&admin, peer, &headers, &body.token)?;
    let lasts_seconds = Some(SESSION_LASTS.as_secs());
    let view = SessionView { role: opened.role, form_token: Some(opened.form_token), lasts_seconds };
    Ok(([(SET_COOKIE, opened.cookie)], Json(view)).into_response())
}

/// Tells who is logged in.
#[utoipa::path(get, path = "/api/v1/session", tag = "session",
    responses((status = 200, description = "What the caller may do.", body = SessionView), Refusals))]
pub(crate) async fn show(Extension(caller): Extension<Caller>) -> Response {
    let form_token = caller.form_token().map(str::to_owned);
    Json(SessionView { role: caller.role, form_token, lasts_seconds: None }).into_response()
}

/// Ends the session.
#[utoipa::path(delete, path = "/api/v1/session", tag = "session",
    responses((status = 204, description = "Ended."), Refusals))]
pub(crate) async fn log_out(admin: Admin, headers: HeaderMap) -> Response {
    (StatusCode::NO_CONTENT, [(SET_COOKIE, admin.guard.log_out(&headers))]).into_response()
}

/// Opens a session for whoever sent this token, from a form or from JSON.
pub(crate) fn open(admin: &Admin, peer: SocketAddr, headers: &HeaderMap, token: &str) -> Result<Opened, Problem> {
    let address = client::client(peer.ip(), headers, admin.trusted_proxies).unwrap_or_else(|| peer.ip());
    admin.guard.log_in(address, token.as_bytes(), channel(headers)).map_err(|refusal| match refusal {
        LoginRefusal::Wrong => Problem::unauthorized(),
        LoginRefusal::TooOften(seconds) => Problem::too_often(seconds),
        LoginRefusal::NotNeeded => Problem::bad_request("no token is configured, so nobody needs to log in"),
        LoginRefusal::NoRandomness => Problem::unavailable("the system has no randomness for a session"),
    })
}

/// A browser names the scheme it talks in the Origin of every login.
fn channel(headers: &HeaderMap) -> Channel {
    let tls = headers.get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
    if tls { Channel::Tls } else { Channel::Plain }
}

/// The fields of a form that one of our pages made for whoever sends it; anything else is refused.
#[derive(Debug)]
pub(crate) struct OwnForm(Vec<(String, String)>);

impl OwnForm {
    /// The first field of this name, unless it was left empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let field = self.0.iter().find(|(one, _)| one == name);
        field.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }
}

impl<S: Send + Sync> FromRequest<S> for OwnForm {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let caller = request.extensions().get::<Caller>().cloned().ok_or_else(Problem::unauthorized)?;
        let form = Form::<Vec<(String, String)>>::from_request(request, state).await;
        let Form(fields) = form.map_err(|rejection| Problem::bad_request(rejection.body_text()))?;
        let given = fields.iter().find(|(name, _)| name == "form_token").map(|(_, value)| value.as_str());
        if !caller.wrote(given) {
            return Err(Problem::forbidden("this form is not one of ours; load the page again").into());
        }
        Ok(Self(fields))
    }
}
