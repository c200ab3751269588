//! `POST /api/v1/sources/{name}/arm`: lets the next handshake of a source bring its secret; `?wait=SECONDS` answers
//! only once it came.

use std::time::Duration;

use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use http::header::CACHE_CONTROL;
use serde::Deserialize;

use crate::admin::Admin;
use crate::admin::api::{Answer, ApiError, Named, Params};
use crate::admin::openapi::Refusals;
use crate::admin::submitted::Teller;
use crate::arming::{ArmingView, WAIT_MAX, arrival};
use crate::http::problem::Problem;
use crate::query::actions::asked_by;

/// What an operator may ask for.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wish {
    /// Seconds to wait for the secret; without it the answer comes at once.
    wait: Option<u64>,
}

/// Lets the next handshake of a source bring its secret.
#[utoipa::path(post, path = "/api/v1/sources/{name}/arm", tag = "sources",
    params(("name" = String, Path, description = "Its name."), Wish),
    responses((status = 200, description = "Armed, or the secret came.", body = ArmingView), Refusals))]
pub(crate) async fn arm(
    admin: Admin,
    Extension(teller): Extension<Teller>,
    Named(name): Named,
    Params(wish): Params<Wish>,
) -> Result<Response, ApiError> {
    let sender = admin.sender(&name)?;
    if sender.as_ref().is_some_and(|sender| !sender.brings_secret()) {
        return Err(Problem::bad_request("this source's secret does not arrive by a handshake").into());
    }
    if sender.is_some() && !admin.arrived.can_keep() {
        let detail = "the config has no store.secret_key to keep the secret with, or a weak one; `openssl rand -base64 32` \
                      makes one";
        return Err(Problem::bad_request(detail).into());
    }
    let asked = asked_by(teller.says(None), &admin.clock);
    admin.store.arm_secret_as(&asked, &name).await?;
    tracing::info!(source = name, who = asked.who, "an operator armed a source");
    admin.arrived.poll().await;
    let view = match wish.wait {
        None => ArmingView::armed(&name),
        Some(seconds) => {
            let shows = sender.is_some_and(|sender| sender.shows_secret());
            waited(&admin, &name, Duration::from_secs(seconds), shows).await?
        }
    };
    Ok(([(CACHE_CONTROL, "no-store")], Json(view)).into_response())
}

/// Takes an arming back; it ends by itself after ten minutes.
#[utoipa::path(post, path = "/api/v1/sources/{name}/disarm", tag = "sources",
    params(("name" = String, Path, description = "Its name.")),
    responses((status = 200, description = "No handshake's secret is taken.", body = ArmingView), Refusals))]
pub(crate) async fn disarm(
    admin: Admin,
    Extension(teller): Extension<Teller>,
    Named(name): Named,
) -> Answer<ArmingView> {
    admin.sender(&name)?;
    let asked = asked_by(teller.says(None), &admin.clock);
    if admin.store.disarm_secret_as(&asked, &name).await? {
        tracing::info!(source = name, who = asked.who, "an operator disarmed a source");
    }
    admin.arrived.poll().await;
    Ok(Json(ArmingView { source: name, armed: false, secret: None }))
}

async fn waited(admin: &Admin, name: &str, patience: Duration, shows: bool) -> Result<ArmingView, ApiError> {
    let came = arrival(&admin.store, name, patience.min(WAIT_MAX), || admin.draining.requested()).await;
    let Some(sealed) = came? else { return Ok(ArmingView::armed(name)) };
    // Another node may have taken it; whoever is told that it came may send at once.
    admin.arrived.poll().await;
    let shown = if shows { admin.arrived.open(name, &sealed) } else { None };
    Ok(ArmingView::arrived(name, shown.as_ref()))
}
