//! The admin listener: readiness, metrics and the API, behind a token unless it is loopback talking to loopback.
//!
//! Host is checked, so that a page in a browser cannot reach a loopback port by renaming itself.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::{AUTHORIZATION, CONTENT_SECURITY_POLICY, HOST, ORIGIN, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue};
use hyper::body::Incoming;
use hyper_util::service::TowerToHyperService;
use metrics_exporter_prometheus::PrometheusHandle;
use oncebox::clock::Clock;
use oncebox::relay::Spared;
use oncebox::secret::Secret;
use oncebox::shutdown::Shutdown;
use oncebox::store::Store;
use subtle::ConstantTimeEq;

use super::listener::{Answering, Peer};
use super::problem::Problem;
use super::public::Setup;
use super::{actions, api, arm, pull, tail};
use crate::arrived_secrets::ArrivedSecrets;
use crate::gauges::Gauges;
use crate::query::QueryError;
use crate::query::destinations::Destinations;
use crate::query::names::{self, Configured};
use crate::rejections::Rejections;

/// The admin listener's service. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Admin(Arc<AdminParts>);

/// What the admin listener shows.
#[derive(Debug)]
pub(crate) struct AdminParts {
    /// The database.
    pub(crate) store: Store,
    /// The time.
    pub(crate) clock: Clock,
    /// Sources and routes.
    pub(crate) setup: Arc<ArcSwap<Setup>>,
    /// The last rejections.
    pub(crate) rejections: Rejections,
    /// Renders the metrics.
    pub(crate) metrics: Option<PrometheusHandle>,
    /// Secrets that a handshake brings.
    pub(crate) arrived: ArrivedSecrets,
    /// The operator's token: whoever changes something needs it where there are tokens.
    pub(crate) operator: Option<Secret>,
    /// Tokens that open it; none means loopback only.
    pub(crate) tokens: Vec<Secret>,
    /// Destinations that the relay spares.
    pub(crate) spared: Spared,
    /// What is counted when somebody looks.
    pub(crate) gauges: Gauges,
    /// Set while the server stops.
    pub(crate) draining: Shutdown,
}

impl Admin {
    /// Builds the service.
    pub(crate) fn new(parts: AdminParts) -> Self {
        Self(Arc::new(parts))
    }

    /// The service of one connection.
    pub(crate) fn for_peer(&self, router: &Router, peer: &Peer) -> AdminConnection {
        let router = router.clone().layer(axum::Extension(peer.address));
        AdminConnection(TowerToHyperService::new(router))
    }

    /// All routes.
    pub(crate) fn router(&self) -> Router {
        let open = Router::new().route("/readyz", get(api::ready)).route("/metrics", get(metrics));
        let guarded = Router::new()
            .route("/api/v1/sources", get(api::sources))
            .route("/api/v1/events", get(api::events))
            .route("/api/v1/events/{key}", get(api::event))
            .route("/api/v1/events/{key}/payload", get(api::payload))
            .route("/api/v1/deliveries", get(api::deliveries))
            .route("/api/v1/dead-letters", get(api::dead_letters))
            .route("/api/v1/held", get(api::held))
            .route("/api/v1/outbox", get(api::outbox))
            .route("/api/v1/outbox/{id}", get(api::message))
            .route("/api/v1/actions", get(actions::log))
            .route("/api/v1/actions/{id}", get(actions::one))
            .route("/api/v1/tail", get(tail::tail))
            .route("/api/v1/rejections", get(api::rejections))
            .route("/api/v1/stats", get(api::stats))
            .route("/api/v1/sources/{name}/arm", post(arm::arm))
            .layer(middleware::from_fn_with_state(self.clone(), need_token));
        let acting = Router::new()
            .route("/api/v1/handlers/{name}/claim", post(pull::claim))
            .route("/api/v1/deliveries/{delivery}/finish", post(pull::finish))
            .route("/api/v1/deliveries/{delivery}/fail", post(pull::fail))
            .route("/api/v1/deliveries/{delivery}/extend", post(pull::extend))
            .merge(actions::routes())
            .layer(middleware::from_fn_with_state(self.clone(), need_operator));
        open.layer(middleware::from_fn_with_state(self.clone(), need_token_beyond_loopback))
            .merge(guarded)
            .merge(acting)
            .fallback(async || Problem::not_found().into_response().map(axum::body::Body::new))
            .layer(middleware::from_fn_with_state(self.clone(), need_host))
            .with_state(self.clone())
    }

    pub(super) fn store(&self) -> &Store {
        &self.0.store
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    pub(super) fn setup(&self) -> Arc<Setup> {
        self.0.setup.load_full()
    }

    /// Refuses a source or a handler that neither the config nor the database knows.
    pub(super) async fn check_names(&self, source: Option<&str>, handler: Option<&str>) -> Result<(), QueryError> {
        let setup = self.setup();
        let configured = Configured {
            sources: setup.sources.keys().cloned().collect(),
            handlers: setup.routes.handlers().map(str::to_owned).collect(),
            destinations: setup.destinations.clone(),
        };
        names::check(self.store(), Some(&configured), source, handler).await
    }

    /// The destinations as this server sees them now.
    pub(super) fn destinations(&self) -> Destinations {
        Destinations::of_server(&self.setup().destinations, &self.0.spared)
    }

    pub(super) fn rejections(&self) -> &Rejections {
        &self.0.rejections
    }

    pub(super) fn arrived(&self) -> &ArrivedSecrets {
        &self.0.arrived
    }

    /// True for whoever may change something: the operator, or anybody where there are no tokens at all.
    pub(super) fn is_operator(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        let fits = |token: &Secret| given.is_some_and(|given| bool::from(token.expose().ct_eq(given)));
        !self.has_tokens() || self.0.operator.as_ref().filter(|token| !token.is_blank()).is_some_and(fits)
    }

    pub(super) fn is_draining(&self) -> bool {
        self.0.draining.requested()
    }

    /// True when the server begins to stop within this time.
    pub(super) async fn drains_within(&self, wait: Duration) -> bool {
        tokio::time::timeout(wait, self.0.draining.wait()).await.is_ok()
    }

    /// A blank token counts as none, so it never opens anything.
    fn opens(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        let Some(given) = given else { return false };
        let mut opens = subtle::Choice::from(0);
        for token in self.0.tokens.iter().filter(|token| !token.is_blank()) {
            opens |= token.expose().ct_eq(given);
        }
        opens.into()
    }

    fn has_tokens(&self) -> bool {
        self.0.tokens.iter().any(|token| !token.is_blank())
    }
}

/// One connection's service.
#[derive(Clone, Debug)]
pub(crate) struct AdminConnection(TowerToHyperService<Router>);

impl hyper::service::Service<http::Request<Incoming>> for AdminConnection {
    type Response = Response;
    type Error = std::convert::Infallible;
    type Future = Answering<axum::body::Body>;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        Box::pin(self.0.call(request))
    }
}

async fn metrics(State(admin): State<Admin>) -> Response {
    admin.0.gauges.count(admin.store(), admin.clock(), &admin.setup(), &admin.0.spared).await;
    let text = admin.0.metrics.as_ref().map(PrometheusHandle::render).unwrap_or_default();
    ([(http::header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

async fn need_token(State(admin): State<Admin>, request: Request, next: Next) -> Response {
    if admin.has_tokens() && !admin.opens(request.headers()) {
        return refuse(Problem::unauthorized());
    }
    next.run(request).await
}

async fn need_operator(State(admin): State<Admin>, request: Request, next: Next) -> Response {
    if admin.is_operator(request.headers()) {
        return next.run(request).await;
    }
    if admin.opens(request.headers()) {
        return refuse(Problem::forbidden("this token may look and not act"));
    }
    refuse(Problem::unauthorized())
}

async fn need_token_beyond_loopback(State(admin): State<Admin>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<SocketAddr>().map(SocketAddr::ip);
    if peer.is_some_and(|ip| ip.is_loopback()) || !admin.has_tokens() || admin.opens(request.headers()) {
        return next.run(request).await;
    }
    refuse(Problem::unauthorized())
}

/// A name that is not ours, and no token, is a page in somebody's browser.
async fn need_host(State(admin): State<Admin>, request: Request, next: Next) -> Response {
    if !admin.opens(request.headers()) && !is_house_name(request.headers()) {
        return refuse(Problem::forbidden("this Host is not one of ours"));
    }
    if !is_own_origin(request.headers()) {
        return refuse(Problem::forbidden("this Origin is not ours"));
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
    response
}

/// `localhost` or a plain address: what cannot be rebound.
fn is_house_name(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else { return false };
    let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|c| c.is_ascii_digit())).map_or(host, |x| x.0);
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || address.parse::<IpAddr>().is_ok()
}

/// A page that calls us must be our own.
fn is_own_origin(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return true };
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let host = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    host.is_some() && host == text(HOST)
}

fn refuse(problem: Problem) -> Response {
    problem.into_response().map(axum::body::Body::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for (host, expected) in [
            ("localhost:8081", true),
            ("127.0.0.1:8081", true),
            ("[::1]:8081", true),
            ("127.0.0.1", true),
            ("evil.example:8081", false),
            ("localhost.evil.example", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            assert_eq!(is_house_name(&headers), expected, "{host}");
        }
    }
}
