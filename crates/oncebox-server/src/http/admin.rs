//! The admin listener: readiness, metrics and the API, behind a token unless it is loopback talking to loopback.
//!
//! `guard` decides who may look and who may act; the routes are written down once, here.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Router;
use axum::extract::State;
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper::body::Incoming;
use hyper_util::service::TowerToHyperService;
use metrics_exporter_prometheus::PrometheusHandle;
use oncebox::clock::Clock;
use oncebox::shutdown::Shutdown;
use oncebox::store::Store;

use super::guard::{self, Guard};
use super::listener::{Answering, Peer};
use super::problem::Problem;
use super::public::Setup;
use super::{actions, api, arm, login, pull, tail};
use crate::arrived_secrets::ArrivedSecrets;
use crate::gauges::Gauges;
use crate::query::QueryError;
use crate::query::desk::Desk;
use crate::query::names::{self, Configured};
use crate::rejections::Rejections;
use crate::traffic::Traffic;

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
    /// The last hour of this node.
    pub(crate) traffic: Traffic,
    /// How senders reach the public listener, without a slash at the end.
    pub(crate) public_url: Option<String>,
    /// Renders the metrics.
    pub(crate) metrics: Option<PrometheusHandle>,
    /// Secrets that a handshake brings.
    pub(crate) arrived: ArrivedSecrets,
    /// Who may use it.
    pub(crate) guard: Arc<Guard>,
    /// Hops of `X-Forwarded-For` to believe, from the right.
    pub(crate) trusted_proxies: usize,
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
        let looking = Router::new()
            .route("/api/v1/overview", get(api::overview))
            .route("/api/v1/sources", get(api::sources))
            .route("/api/v1/sources/{name}", get(api::source))
            .route("/api/v1/handlers", get(api::handlers))
            .route("/api/v1/destinations", get(api::destinations))
            .route("/api/v1/dead-letters/groups", get(api::dead_groups))
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
            .route("/api/v1/session", get(login::show).delete(login::log_out));
        let acting = Router::new()
            .route("/api/v1/sources/{name}/arm", post(arm::arm))
            .route("/api/v1/handlers/{name}/claim", post(pull::claim))
            .route("/api/v1/deliveries/{delivery}/finish", post(pull::finish))
            .route("/api/v1/deliveries/{delivery}/fail", post(pull::fail))
            .route("/api/v1/deliveries/{delivery}/extend", post(pull::extend))
            .merge(actions::routes());
        open.layer(middleware::from_fn(guard::need_viewer_beyond_loopback))
            .merge(looking.layer(middleware::from_fn(guard::need_viewer)))
            .merge(acting.layer(middleware::from_fn(guard::need_operator)))
            .route("/api/v1/session", post(login::log_in))
            .fallback(async || Problem::not_found().into_response().map(axum::body::Body::new))
            .layer(middleware::from_fn_with_state(self.clone(), guard::check_site))
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
        };
        names::check(self.store(), Some(&configured), source, handler).await
    }

    /// All that the screens are made from.
    pub(super) fn desk(&self) -> Desk {
        Desk {
            store: self.0.store.clone(),
            clock: self.0.clock.clone(),
            setup: self.setup(),
            traffic: self.0.traffic.clone(),
            rejections: self.0.rejections.clone(),
            public_url: self.0.public_url.clone(),
        }
    }

    pub(super) fn arrived(&self) -> &ArrivedSecrets {
        &self.0.arrived
    }

    pub(super) fn guard(&self) -> &Guard {
        &self.0.guard
    }

    pub(super) fn trusted_proxies(&self) -> usize {
        self.0.trusted_proxies
    }

    pub(super) fn is_draining(&self) -> bool {
        self.0.draining.requested()
    }

    /// True when the server begins to stop within this time.
    pub(super) async fn drains_within(&self, wait: Duration) -> bool {
        tokio::time::timeout(wait, self.0.draining.wait()).await.is_ok()
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
    admin.0.gauges.count(admin.store(), admin.clock(), &admin.setup()).await;
    let text = admin.0.metrics.as_ref().map(PrometheusHandle::render).unwrap_or_default();
    ([(http::header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}
