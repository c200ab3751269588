//! The admin listener: readiness, metrics and the API, behind a token unless it is loopback talking to loopback.
//!
//! `guard` decides who may look and who may act; the routes are written down once, here.

pub(crate) mod actions;
pub(crate) mod api;
pub(crate) mod arm;
pub(crate) mod guard;
pub(crate) mod login;
pub(crate) mod login_limit;
pub(crate) mod openapi;
pub(crate) mod pull;
pub(crate) mod retention;
pub(crate) mod session;
pub(crate) mod submitted;
pub(crate) mod tail;

use std::convert::Infallible;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use axum::{Router, middleware};
use http::request::Parts;
use metrics_exporter_prometheus::PrometheusHandle;
use oncebox::Clock;
use oncebox::gateway::relay::Spared;
use oncebox::gateway::shutdown::Shutdown;
use oncebox::gateway::store::{ActionKind, Store};
use oncebox_verify::Description;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::admin::guard::Guard;
use crate::admin::openapi::{Document, Refusals};
use crate::admin::retention::Remover;
use crate::admin::submitted::Teller;
use crate::arming::arrived_secrets::ArrivedSecrets;
use crate::config::Reach;
use crate::http::problem::Problem;
use crate::observe::gauges::Gauges;
use crate::observe::rejections::Rejections;
use crate::observe::traffic::Traffic;
use crate::query::actions::{ActionRequest, Known};
use crate::query::context::{PublicPlace, QueryContext};
use crate::query::destinations::Destinations;
use crate::query::names::{self, Configured};
use crate::query::view::Done;
use crate::query::{self, QueryError};
use crate::setup::Setup;

/// The admin listener's service. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Admin(Arc<AdminParts>);

#[derive(Debug)]
pub(crate) struct AdminParts {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) setup: Arc<ArcSwap<Setup>>,
    pub(crate) rejections: Rejections,
    /// The last hour of this node.
    pub(crate) traffic: Traffic,
    pub(crate) public: PublicPlace,
    pub(crate) metrics: Option<PrometheusHandle>,
    pub(crate) arrived: ArrivedSecrets,
    pub(crate) guard: Arc<Guard>,
    /// Hops of `X-Forwarded-For` to believe, from the right.
    pub(crate) trusted_proxies: usize,
    pub(crate) spared: Spared,
    pub(crate) gauges: Gauges,
    pub(crate) retention: Remover,
    /// What is known where no server runs.
    pub(crate) offline: Option<Offline>,
    pub(crate) draining: Shutdown,
}

/// What a command knows that asks the database itself.
#[derive(Debug)]
pub(crate) struct Offline {
    /// What the config says, where there is one.
    pub(crate) reach: Option<Reach>,
    /// The destinations, as far as config or database tell.
    pub(crate) destinations: Destinations,
}

impl Admin {
    pub(crate) fn new(parts: AdminParts) -> Self {
        Self(Arc::new(parts))
    }

    /// All routes, and the pages for people beside them. Whatever is under `/api` is put in by `routes!`, which takes path and method from the description in
    /// the document, so that neither can be without the other.
    pub(crate) fn router(&self, pages: Router<Self>) -> Router {
        let (open, described) = open().split_for_parts();
        let (looking, looked) = looking().split_for_parts();
        let (acting, acted) = acting().split_for_parts();
        let (pulling, pulled) = pulling().split_for_parts();
        // Whoever logs in is nobody yet.
        let (entering, entered) = OpenApiRouter::new().routes(routes!(login::log_in)).split_for_parts();
        let document = Document::new([described, looked, acted, pulled, entered]);
        let refuse = async |problem: Problem| problem.into_response().map(axum::body::Body::new);
        open.layer(middleware::from_fn_with_state(self.clone(), guard::need_viewer_beyond_loopback))
            .merge(looking.layer(middleware::from_fn(guard::need_viewer)))
            .merge(acting.layer(middleware::from_fn(guard::need_operator)))
            .merge(pulling.layer(middleware::from_fn(guard::need_consumer)))
            .merge(entering)
            .merge(pages)
            .method_not_allowed_fallback(move || refuse(Problem::method(String::new())))
            .layer(axum::Extension(document))
            .layer(middleware::from_fn_with_state(self.clone(), guard::check_site))
            .with_state(self.clone())
    }

    /// The routes of the API for a command that owns the database: nobody is asked for a token.
    pub(crate) fn local_router(&self, who: String) -> Router {
        let (looking, _) = looking().split_for_parts();
        let (acting, _) = acting().split_for_parts();
        looking.merge(acting).layer(axum::Extension(Teller::Owner(who))).with_state(self.clone())
    }

    pub(crate) fn setup(&self) -> Arc<Setup> {
        self.0.setup.load_full()
    }

    /// Refuses a source or a handler that neither the config nor the database knows.
    pub(crate) async fn check_names(&self, source: Option<&str>, handler: Option<&str>) -> Result<(), QueryError> {
        names::check(&self.store, self.configured().as_ref(), source, handler).await
    }

    /// What the config names, where there is one.
    fn configured(&self) -> Option<Configured> {
        if let Some(offline) = &self.offline {
            return offline.reach.as_ref().map(|reach| reach.configured.clone());
        }
        let setup = self.setup();
        Some(Configured {
            sources: setup.sources.keys().cloned().collect(),
            handlers: setup.routes.handlers().map(str::to_owned).collect(),
            destinations: setup.destinations.clone(),
            routes: Some(setup.routes.clone()),
        })
    }

    /// How the sender of a source behaves; none where no config tells.
    pub(crate) fn sender(&self, source: &str) -> Result<Option<Description>, Problem> {
        let sender = match &self.offline {
            Some(Offline { reach: None, .. }) => return Ok(None),
            Some(Offline { reach: Some(reach), .. }) => reach.senders.get(source).cloned(),
            None => self.setup().sources.get(source).map(|source| source.description().clone()),
        };
        sender.map(Some).ok_or_else(Problem::not_found)
    }

    /// Counts or acts, with what the config knows. A filter that names nobody is refused.
    pub(crate) async fn act(&self, kind: ActionKind, request: ActionRequest) -> Result<Done, QueryError> {
        self.check_names(request.filter.source.as_deref(), request.filter.handler.as_deref()).await?;
        let configured = self.configured();
        let routes = configured.as_ref().and_then(|names| names.routes.as_ref());
        let known = Known { routes, destinations: &self.destinations() };
        query::actions::act(&self.store, &self.clock, known, kind, request).await
    }

    pub(crate) fn context(&self) -> QueryContext {
        QueryContext {
            store: self.store.clone(),
            clock: self.clock.clone(),
            setup: self.setup(),
            traffic: self.traffic.clone(),
            rejections: self.rejections.clone(),
            public: self.public.clone(),
        }
    }

    pub(crate) fn destinations(&self) -> Destinations {
        if let Some(offline) = &self.offline {
            return offline.destinations.clone();
        }
        Destinations::of_server(&self.setup().destinations, &self.spared)
    }

    /// True when the server begins to stop within this time.
    pub(crate) async fn drains_within(&self, wait: Duration) -> bool {
        tokio::time::timeout(wait, self.draining.wait()).await.is_ok()
    }
}

impl Deref for Admin {
    type Target = AdminParts;

    fn deref(&self) -> &AdminParts {
        &self.0
    }
}

/// Handlers take the listener as it is.
impl FromRequestParts<Self> for Admin {
    type Rejection = Infallible;

    async fn from_request_parts(_parts: &mut Parts, admin: &Self) -> Result<Self, Infallible> {
        Ok(admin.clone())
    }
}

/// For everybody on this machine, and for whoever may look from elsewhere.
fn open() -> OpenApiRouter<Admin> {
    OpenApiRouter::new()
        .routes(routes!(api::ready))
        .routes(routes!(metrics))
        .routes(routes!(openapi::document))
        .routes(routes!(openapi::docs))
}

/// For whoever may look.
fn looking() -> OpenApiRouter<Admin> {
    OpenApiRouter::new()
        .routes(routes!(api::overview))
        .routes(routes!(api::stats))
        .routes(routes!(retention::show))
        .routes(routes!(api::sources))
        .routes(routes!(api::source))
        .routes(routes!(api::handlers))
        .routes(routes!(api::destinations))
        .routes(routes!(api::events))
        .routes(routes!(api::event))
        .routes(routes!(api::payload))
        .routes(routes!(api::deliveries))
        .routes(routes!(api::dead_letters))
        .routes(routes!(api::dead_groups))
        .routes(routes!(api::held))
        .routes(routes!(api::outbox))
        .routes(routes!(api::message))
        .routes(routes!(api::rejections))
        .routes(routes!(actions::log))
        .routes(routes!(actions::one))
        .routes(routes!(tail::tail))
        .routes(routes!(login::show, login::log_out))
}

/// For whoever may act.
fn acting() -> OpenApiRouter<Admin> {
    OpenApiRouter::new()
        .routes(routes!(actions::replay))
        .routes(routes!(actions::backfill))
        .routes(routes!(actions::release))
        .routes(routes!(actions::discard))
        .routes(routes!(actions::forget))
        .routes(routes!(actions::erase))
        .routes(routes!(retention::run))
        .routes(routes!(retention::confirm))
        .routes(routes!(actions::pause))
        .routes(routes!(actions::resume))
        .routes(routes!(arm::arm))
        .routes(routes!(arm::disarm))
}

/// For whoever may act, and for the consumers of a handler.
fn pulling() -> OpenApiRouter<Admin> {
    OpenApiRouter::new()
        .routes(routes!(pull::claim))
        .routes(routes!(pull::finish))
        .routes(routes!(pull::fail))
        .routes(routes!(pull::extend))
}

/// The metrics in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "numbers",
    responses((status = 200, description = "The metrics.", body = String, content_type = "text/plain"), Refusals))]
async fn metrics(admin: Admin) -> Response {
    admin.gauges.count(&admin.store, &admin.clock, &admin.setup(), &admin.spared).await;
    let text = admin.metrics.as_ref().map(PrometheusHandle::render).unwrap_or_default();
    ([(http::header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}
