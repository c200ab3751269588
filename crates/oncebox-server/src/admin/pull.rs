//! Deliveries for consumers outside: claim, then finish, fail or extend with the claim's token.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::FromRequestParts;
use data_encoding::BASE64;
use http::request::Parts;
use oncebox::gateway::clock::UnixMillis;
use oncebox::gateway::delivery::{Failed, Next};
use oncebox::gateway::event::DeliveryKey;
use oncebox::gateway::limits::{CLAIMED_BYTES_MAX, PAGE_MAX};
use oncebox::gateway::store::{Claimed, Fence, Fenced, PulledClaim, PulledFailure, StoreError, Want};
use oncebox::gateway::worker::{Outcome, count_pulled};
use serde::{Deserialize, Serialize};

use crate::admin::Admin;
use crate::admin::api::{Answer, ApiError, JsonBody, Named};
use crate::admin::guard::Consumer;
use crate::admin::openapi::Refusals;
use crate::config::units::parse_duration;
use crate::http::problem::Problem;
use crate::http::token::random;
use crate::query::view::{Items, time, view};

const LEASE_MAX: Duration = Duration::from_secs(86_400);
const MAX_DEFAULT: usize = 10;

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimBody {
    /// How many at most; 10 unless said.
    #[schema(minimum = 1, maximum = 1000)]
    max: Option<usize>,
    /// How long they may be kept, such as `60s`; the handler's own lease unless said.
    lease: Option<String>,
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FinishBody {
    /// The claim's token.
    token: String,
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailBody {
    /// The claim's token.
    token: String,
    /// Why, for people.
    reason: Option<String>,
    /// Whether to try again; true unless said.
    retry: Option<bool>,
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtendBody {
    /// The claim's token.
    token: String,
    /// How much longer from now, such as `60s`; the handler's own lease unless said, and then never less than is left.
    lease: Option<String>,
}

view! {
    /// A claimed delivery, with the columns of the SQL function `claim`.
    ClaimView of claim: Claimed {
        /// Its key.
        delivery: String = claim.fence.delivery.to_string(),
        /// What finish, fail and extend want.
        token: String = claim.fence.token.to_string(),
        /// The event's key.
        key: String = claim.key.to_string(),
        /// The source's name.
        source: String = claim.source,
        /// The sender's id.
        event_id: String = claim.event_id,
        /// The sender's type.
        r#type: String = claim.event_type,
        /// The bytes in base64.
        body: String = BASE64.encode(&claim.body),
        /// Which attempt, from 1.
        attempt: u32 = claim.attempt,
        /// When the event came first.
        received_at: String = time(claim.received_at),
        /// Until when the claim is safe.
        lease_until: String = time(claim.lease_until),
    }
}

/// What became of a delivery.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct SettledView {
    /// Its state now.
    state: &'static str,
    /// When it may be claimed next, while it is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<String>,
}

/// A longer lease.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct ExtendedView {
    /// Until when the claim is safe.
    lease_until: String,
}

/// Takes deliveries of a pull handler.
#[utoipa::path(post, path = "/api/v1/handlers/{name}/claim", tag = "pull consumers", request_body = ClaimBody, params(("name" = String, Path, description = "Its name.")),
    responses((status = 200, description = "What was claimed, oldest due first; empty where nothing waits.", body = Items<ClaimView>), Refusals))]
pub(crate) async fn claim(
    by: Puller,
    Named(handler): Named,
    JsonBody(body): JsonBody<ClaimBody>,
) -> Answer<Items<ClaimView>> {
    by.check_own(&handler)?;
    let known = by.admin.store.handlers().await?;
    let known = known.into_iter().find(|known| known.facts.name == handler).ok_or_else(Problem::not_found)?;
    if by.admin.setup().run_here.contains(&handler) {
        return Err(
            Problem::bad_request("this handler's work is done by the server; only `pull = true` is claimed").into()
        );
    }
    let limit = body.max.unwrap_or(MAX_DEFAULT);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(Problem::bad_request(format!("max must be from 1 to {PAGE_MAX}")).into());
    }
    let lease = lease(body.lease.as_deref())?.unwrap_or(known.facts.lease);
    let in_order = by.admin.store.has_order_keys(&handler).await?;
    let wants = [Want { handler, limit, bytes: CLAIMED_BYTES_MAX, lease, in_order, payload: true }];
    // Two claims at one instant may be in each other's way; the second try is alone.
    let claims = match by.admin.store.claim(&wants, None, by.admin.clock.now()).await {
        Err(StoreError::Busy(_)) => by.admin.store.claim(&wants, None, by.admin.clock.now()).await,
        outcome => outcome,
    };
    Ok(Json(Items::whole(claims?.claimed.into_iter().map(Into::into).collect())))
}

/// The work is done.
#[utoipa::path(post, path = "/api/v1/deliveries/{delivery}/finish", tag = "pull consumers", request_body = FinishBody, params(("delivery" = String, Path, description = "The delivery that was claimed.")),
    responses((status = 200, description = "Recorded.", body = SettledView), Refusals))]
pub(crate) async fn finish(by: Puller, Named(id): Named, JsonBody(body): JsonBody<FinishBody>) -> Answer<SettledView> {
    let (fence, now) = (fence(&id, &body.token)?, by.admin.clock.now());
    // Whoever reports twice is counted once: a second report finds no claim.
    let claim = by.own_claim(fence, now).await?;
    match by.admin.store.finish_pulled(fence, now).await? {
        Fenced::Recorded => {
            claim.iter().for_each(|claim| count_pulled(claim, Outcome::Done));
            Ok(settled("done", None))
        }
        Fenced::LeaseLost => Err(Problem::lease_lost().into()),
    }
}

/// The work failed.
#[utoipa::path(post, path = "/api/v1/deliveries/{delivery}/fail", tag = "pull consumers", request_body = FailBody, params(("delivery" = String, Path, description = "The delivery that was claimed.")),
    responses((status = 200, description = "Recorded.", body = SettledView), Refusals))]
pub(crate) async fn fail(by: Puller, Named(id): Named, JsonBody(body): JsonBody<FailBody>) -> Answer<SettledView> {
    let fence = fence(&id, &body.token)?;
    let reason = body.reason.as_deref().unwrap_or("no reason was given");
    let again = body.retry.unwrap_or(true);
    let failed = if again { Failed::Transient { retry_after: None } } else { Failed::Permanent };
    // Without chance the pause is at its longest, which is the safe side.
    let chance = random::<8>().map_or(u64::MAX, u64::from_le_bytes);
    let now = by.admin.clock.now();
    let claim = by.own_claim(fence, now).await?;
    let outcome = by.admin.store.fail_pulled(fence, reason, failed, chance, now).await?;
    if let (Some(claim), PulledFailure::Recorded(next)) = (&claim, outcome) {
        count_pulled(claim, next.into());
    }
    match outcome {
        PulledFailure::Recorded(Next::Retry { after }) => {
            let due = now.saturating_add(i64::try_from(after.as_millis()).unwrap_or(i64::MAX));
            Ok(settled("ready", Some(time(due))))
        }
        PulledFailure::Recorded(Next::Dead) => Ok(settled("dead", None)),
        PulledFailure::Recorded(Next::Held) => Ok(settled("held", None)),
        PulledFailure::LeaseLost => Err(Problem::lease_lost().into()),
    }
}

/// The work takes longer.
#[utoipa::path(post, path = "/api/v1/deliveries/{delivery}/extend", tag = "pull consumers", request_body = ExtendBody, params(("delivery" = String, Path, description = "The delivery that was claimed.")),
    responses((status = 200, description = "The new end of the lease.", body = ExtendedView), Refusals))]
pub(crate) async fn extend(by: Puller, Named(id): Named, JsonBody(body): JsonBody<ExtendBody>) -> Answer<ExtendedView> {
    let fence = fence(&id, &body.token)?;
    let (lease, now) = (lease(body.lease.as_deref())?, by.admin.clock.now());
    by.own_claim(fence, now).await?;
    let extended = match lease {
        Some(lease) => by.admin.store.extend(fence, lease, now).await,
        None => by.admin.store.lengthen(fence, now).await,
    };
    match extended? {
        Some(until) => Ok(Json(ExtendedView { lease_until: time(until) })),
        None => Err(Problem::lease_lost().into()),
    }
}

/// Whoever claims and reports: an operator, or a consumer with the token of its handler.
#[derive(Debug)]
pub(crate) struct Puller {
    admin: Admin,
    consumer: Option<Consumer>,
}

impl FromRequestParts<Admin> for Puller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, admin: &Admin) -> Result<Self, Infallible> {
        Ok(Self { admin: admin.clone(), consumer: parts.extensions.get().cloned() })
    }
}

impl Puller {
    /// A consumer's token is good for one handler.
    fn check_own(&self, handler: &str) -> Result<(), ApiError> {
        match &self.consumer {
            Some(consumer) if consumer.handler != handler => {
                Err(Problem::forbidden(format!("this token is for the handler {} alone", consumer.handler)).into())
            }
            _ => Ok(()),
        }
    }

    /// The claim that a report is about, if it is the current one and the caller's own.
    async fn own_claim(&self, fence: Fence, now: UnixMillis) -> Result<Option<PulledClaim>, ApiError> {
        let claim = self.admin.store.pulled_claim(fence, now).await?;
        claim.iter().try_for_each(|claim| self.check_own(&claim.handler))?;
        Ok(claim)
    }
}

fn settled(state: &'static str, next_attempt_at: Option<String>) -> Json<SettledView> {
    Json(SettledView { state, next_attempt_at })
}

fn fence(delivery: &str, token: &str) -> Result<Fence, ApiError> {
    let delivery: DeliveryKey = delivery.parse().map_err(|_invalid| Problem::not_found())?;
    let token = token.parse().map_err(|_invalid| Problem::bad_request("token is not one that a claim gave"))?;
    Ok(Fence { delivery, token })
}

fn lease(text: Option<&str>) -> Result<Option<Duration>, ApiError> {
    let Some(text) = text else { return Ok(None) };
    let lease = parse_duration(text).filter(|lease| (Duration::from_secs(1)..=LEASE_MAX).contains(lease));
    lease.map(Some).ok_or_else(|| Problem::bad_request("lease must be from 1s to 1d, such as \"60s\"").into())
}
