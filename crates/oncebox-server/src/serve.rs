//! The running server: opens the database and the sockets, wires the parts, stops them in order.
//!
//! Stopping: no new connections, running requests finish, then the batcher stores what was submitted, then the admin
//! listener goes. Reloading replaces sources and routes in one step, or not at all.

pub(crate) mod handler_sql;
pub(crate) mod http_target;
pub(crate) mod processing;
pub(crate) mod reload;
pub(crate) mod retention;
pub(crate) mod signals;
pub(crate) mod targets;
pub(crate) mod vendors;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use hyper::service::{Service as _, service_fn};
use hyper_util::service::TowerToHyperService;
use metrics_exporter_prometheus::PrometheusHandle;
use oncebox::Clock;
use oncebox::gateway::delivery::routing::Routes;
use oncebox::gateway::event::KeyMaker;
use oncebox::gateway::fault::Faults;
use oncebox::gateway::ingest::{Batcher, Ingest, SenderClock, Settings};
use oncebox::gateway::retention::{Retention, Settings as Keeping};
use oncebox::gateway::shutdown::Shutdown;
use oncebox::gateway::store::{Access, Store};
use oncebox::gateway::wake::Wake;
use oncebox_verify::{Secret, Source};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::admin::guard::{self, Guard};
use crate::admin::retention::Remover;
use crate::admin::{Admin, AdminParts};
use crate::alert::receiver::Receiver;
use crate::alert::watch::Alerts;
use crate::arming::arrived_secrets::ArrivedSecrets;
use crate::config::Config;
use crate::config::at_start::AtStart;
use crate::config::handler::HandlerKind;
use crate::config::server::ServerConfig;
use crate::config::source::SourceConfig;
use crate::http::listener::{self, Peer, ResponseFuture};
use crate::observe::gauges::Gauges;
use crate::observe::rejections::Rejections;
use crate::observe::series;
use crate::observe::traffic::Traffic;
use crate::public::{Caps, Public};
use crate::query::context::PublicPlace;
use crate::serve::processing::{Prepared, Processing};
use crate::serve::signals::{Asked, Signals};
use crate::setup::Setup;
use crate::{alert, dashboard, database};

/// How long the last commit may take once every connection is closed: longer than the store's own deadline.
const LAST_COMMIT: Duration = Duration::from_secs(12);

const KEYS_EVERY: Duration = Duration::from_secs(30);

/// A server with its sockets bound and its schema up to date.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) store: Store,
    public: TcpListener,
    admin: TcpListener,
    setup: Arc<ArcSwap<Setup>>,
    secret_key: Option<Secret>,
    settings: Settings,
    config: ServerConfig,
    access: guard::Access,
    at_start: AtStart,
    clock: Clock,
    handlers: Prepared,
    keeping: Keeping,
    alerts: Vec<Receiver>,
}

impl Server {
    /// Opens everything; fails before anything is served.
    pub(crate) async fn open(config: &Config, faults: Faults) -> anyhow::Result<Self> {
        let setup = build_setup(config);
        let alerts = Receiver::all(&config.alerts)?;
        let store = database::open(&config.store, Access::Server).await?.with_faults(faults);
        let steps = store.migrate().await.context("cannot bring the schema up to date")?;
        if steps > 0 {
            tracing::info!(steps, "migrations applied");
        }
        if let Some(danger) = store.unsafe_because() {
            tracing::warn!("unsafe database accepted: {danger}");
        }
        if let Some(risk) = store.failover_risk() {
            tracing::warn!("{risk}; see store.survive");
        }
        let clock = Clock::system();
        store.begin_time(&clock).await.context("cannot read the time of the leases")?;
        retention::prepare(&store, &clock, config).await;
        let handlers = Prepared::new(&store, config, &clock).await?;
        handler_sql::warn(&store, &config.handlers).await;
        Ok(Self {
            store,
            public: bind(config.server.listen).await?,
            admin: bind(config.server.admin_listen).await?,
            setup: Arc::new(ArcSwap::from_pointee(setup)),
            secret_key: config.store.secret_key.clone(),
            settings: Settings { batch: config.store.batch, writers: config.store.writers },
            config: config.server.clone(),
            access: guard::Access::new(&config.server, &config.handlers),
            at_start: AtStart::of(config),
            clock,
            handlers,
            keeping: retention::settings(config),
            alerts,
        })
    }

    pub(crate) fn public_address(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.public.local_addr()?)
    }

    pub(crate) fn admin_address(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.admin.local_addr()?)
    }

    /// Serves until SIGTERM or SIGINT. `reload` reads the config again on SIGHUP.
    pub(crate) async fn run(
        self,
        mut signals: Signals,
        metrics: PrometheusHandle,
        reload: impl Fn() -> anyhow::Result<Config>,
    ) -> anyhow::Result<()> {
        let (draining, stopped) = (Shutdown::new(), Shutdown::new());
        let clock = self.clock;
        let (rejections, traffic) = (Rejections::new(clock.clone()), Traffic::new(clock.clone()));
        let (wake, keys) = (Wake::default(), Arc::new(KeyMaker::default()));
        let (ingest, mut batcher) =
            Batcher::start_waking(self.store.clone(), self.settings, clock.clone(), keys, wake.clone());
        let processing = self.handlers.start(wake);
        let retention = Retention::start(retention::parts(&self.store, &clock), self.keeping);
        series::begin(self.store.kind(), &self.setup.load());
        let senders = ingest.sender_clock();
        let watched = watched(&self.store, &clock, &metrics, &senders, &self.config);
        let alerts = Alerts::start(watched, self.alerts, draining.clone());
        let ingest = ingest.with_vendor_client(Arc::new(vendors::calls(clock.clone())?));
        let refreshing = tokio::spawn(refresh_keys(ingest.clone(), self.setup.clone(), draining.clone()));
        let arrived =
            ArrivedSecrets::new(self.store.clone(), self.secret_key.as_ref(), clock.clone(), self.setup.clone());
        arrived.poll().await;
        tokio::spawn(arrived.clone().run(draining.clone()));
        let guard = Arc::new(Guard::new(self.access, self.admin.local_addr()?)?);
        let admin = Admin::new(AdminParts {
            store: self.store.clone(),
            clock,
            setup: self.setup.clone(),
            rejections: rejections.clone(),
            traffic: traffic.clone(),
            public: PublicPlace::of(&self.config, self.public.local_addr()?),
            arrived: arrived.clone(),
            guard: guard.clone(),
            trusted_proxies: self.config.trusted_proxies,
            metrics: Some(metrics),
            spared: processing.spared(),
            gauges: Gauges::new(senders),
            retention: Remover::Server(retention.handle()),
            offline: None,
            draining: draining.clone(),
        });
        let admin = tokio::spawn(serve_admin(self.admin, admin, &self.config, stopped.clone()));
        let (parts, seen) = ((self.store.clone(), self.setup.clone()), (rejections, traffic));
        let public = Public::new(parts, ingest, caps(&self.config), seen, arrived.clone(), draining.clone());
        let public = tokio::spawn(serve_public(self.public, public, &self.config, draining.clone()));
        let changing = Changing {
            setup: &self.setup,
            guard: &guard,
            arrived: &arrived,
            processing: &processing,
            alerts: &alerts,
            retention: &retention,
            at_start: &self.at_start,
        };
        let broken = tokio::select! {
            stopped = changing.until_stop(&mut signals, reload) => stopped.err(),
            reason = failed(&self.store, &mut batcher) => Some(reason),
        };
        if let Some(reason) = broken {
            return Err(answer_waiting(&draining, public, &self.store, reason).await);
        }
        tracing::info!("stopping: no new connections and no new attempts, those under way finish");
        draining.request();
        refreshing.await.context("the refreshing of keys failed")?;
        let (public, (), ()) = tokio::join!(public, processing.stop(self.config.grace), retention.stop());
        public.context("the public listener failed")?;
        finish(batcher).await;
        stopped.request();
        admin.await.context("the admin listener failed")?;
        close(&self.store).await;
        tracing::info!("stopped");
        Ok(())
    }
}

/// Waits until nothing can be kept any more, and says why. Started anew, the server goes on with what is on the disk.
async fn failed(store: &Store, batcher: &mut Batcher) -> anyhow::Error {
    tokio::select! {
        () = store.failed() => anyhow::anyhow!("the database file cannot be written to any more"),
        () = batcher.failed() => anyhow::anyhow!("the ingest path ended by a fault of its own"),
    }
}

/// Whoever waits for an answer still hears 503 before the server goes, and a log that was removed is put back with the end of
/// the writing thread; nothing else is waited for.
async fn answer_waiting(
    draining: &Shutdown,
    public: JoinHandle<()>,
    store: &Store,
    reason: anyhow::Error,
) -> anyhow::Error {
    draining.request();
    let _ = tokio::time::timeout(LAST_COMMIT, public).await;
    let _ = tokio::time::timeout(LAST_COMMIT, store.close()).await;
    reason
}

/// No request holds an ingest any more, so this ends with the commit that is under way.
async fn finish(batcher: Batcher) {
    if tokio::time::timeout(LAST_COMMIT, batcher.finish()).await.is_err() {
        tracing::warn!("stopping before the last commit was answered; the senders will retry");
    }
}

async fn close(store: &Store) {
    if tokio::time::timeout(LAST_COMMIT, store.close()).await.is_err() {
        tracing::warn!("stopping while a statement still runs; it is rolled back");
    }
}

/// Keeps fetched keys fresh, so that requests need not wait for them.
async fn refresh_keys(ingest: Ingest, setup: Arc<ArcSwap<Setup>>, draining: Shutdown) {
    while tokio::time::timeout(KEYS_EVERY, draining.wait()).await.is_err() {
        let sources: Vec<Arc<Source>> = setup.load().sources.values().cloned().collect();
        tokio::select! {
            () = ingest.refresh_keys(sources) => {}
            () = draining.wait() => {}
        }
    }
}

fn watched(
    store: &Store,
    clock: &Clock,
    metrics: &PrometheusHandle,
    senders: &SenderClock,
    config: &ServerConfig,
) -> alert::watch::Parts {
    alert::watch::Parts {
        store: store.clone(),
        clock: clock.clone(),
        metrics: metrics.clone(),
        senders: senders.clone(),
        node: processing::node_name(config.listen),
    }
}

fn serve_public(
    listener: TcpListener,
    public: Public,
    config: &ServerConfig,
    draining: Shutdown,
) -> impl Future<Output = ()> + use<> {
    let refusals = Some(public.rejections());
    let service = move |peer| public.for_peer(peer);
    let terms = listener::Terms { connections: config.connections, grace: config.grace, refusals };
    listener::serve(listener, terms, service, draining)
}

fn serve_admin(
    listener: TcpListener,
    admin: Admin,
    config: &ServerConfig,
    stopped: Shutdown,
) -> impl Future<Output = ()> + use<> {
    let router = admin.router(dashboard::routes());
    let service = move |peer: Peer| {
        let router = TowerToHyperService::new(router.clone().layer(axum::Extension(peer.address)));
        service_fn(move |request| -> ResponseFuture<axum::body::Body> { Box::pin(router.call(request)) })
    };
    let terms = listener::Terms { connections: config.connections, grace: Duration::from_secs(1), refusals: None };
    listener::serve(listener, terms, service, stopped)
}

/// What a reload changes while the server runs.
struct Changing<'a> {
    setup: &'a ArcSwap<Setup>,
    guard: &'a Guard,
    arrived: &'a ArrivedSecrets,
    processing: &'a Processing,
    alerts: &'a Alerts,
    retention: &'a Retention,
    at_start: &'a AtStart,
}

impl Changing<'_> {
    /// Waits until asked to stop, and reloads on the way.
    async fn until_stop(
        &self,
        signals: &mut Signals,
        reload: impl Fn() -> anyhow::Result<Config>,
    ) -> anyhow::Result<()> {
        loop {
            let asked = tokio::select! {
                asked = signals.next() => asked,
                // Nothing would be handled any more; started anew, it goes on where it was.
                () = self.processing.failed() => anyhow::bail!("the workers ended by a fault of their own"),
            };
            match asked {
                Asked::Stop => return Ok(()),
                Asked::Reload => match reload() {
                    Ok(config) => self.take_over(&config).await,
                    Err(problems) => refuse_reload(&problems),
                },
            }
        }
    }

    /// Takes a changed config, all of it or nothing.
    async fn take_over(&self, config: &Config) {
        let access = guard::Access::new(&config.server, &config.handlers);
        if self.guard.would_be_open(&access) {
            return refuse_reload(&anyhow::anyhow!(
                "the admin listener is reachable from other machines and needs a token"
            ));
        }
        let read = || Ok((self.processing.read(config)?, Receiver::all(&config.alerts)?));
        let (handlers, receivers) = match read() {
            Ok(read) => read,
            Err(problems) => return refuse_reload(&problems),
        };
        let (old, new) = (self.setup.load_full(), build_setup(config));
        let told = [
            reload::summary("source", old.configured.keys(), new.configured.keys()),
            reload::summary("handler", old.routes.handlers(), new.routes.handlers()),
            reload::summary("destination", &old.destinations, &new.destinations),
        ];
        for (name, source) in &new.sources {
            // What was fetched stays: a reload while the vendor is out of reach must cost nothing.
            if let Some(earlier) = old.sources.get(name) {
                source.inherit_keys(earlier);
            }
        }
        // The workers first: whatever is stored for a new handler finds it there.
        self.processing.change(handlers).await;
        series::show(&new);
        self.setup.store(Arc::new(new));
        self.guard.replace(access);
        self.alerts.change(receivers);
        self.retention.set(retention::settings(config));
        self.arrived.poll().await;
        tracing::info!("reloaded: {}", told.join(", "));
        let left = self.at_start.changed(&AtStart::of(config));
        if !left.is_empty() {
            tracing::warn!("a reload leaves {} as it was; restart to change it", left.join(", "));
        }
        // A database that is slow to answer must not keep a signal to stop waiting.
        let (store, handlers) = (self.processing.store.clone(), config.handlers.clone());
        tokio::spawn(async move { handler_sql::warn(&store, &handlers).await });
    }
}

fn refuse_reload(problems: &anyhow::Error) {
    tracing::error!("reload refused, the old config keeps running:\n{problems}");
}

fn build_setup(config: &Config) -> Setup {
    let by_name = |source: &SourceConfig| (source.spec().name.clone(), source.source.clone());
    let sources: HashMap<String, Arc<Source>> = config.sources.iter().map(by_name).collect();
    let bound = config.sources.iter().filter(|source| !source.allow_from.is_empty());
    let run_here = config.handlers.iter().filter(|handler| !matches!(handler.kind, HandlerKind::Pull));
    Setup {
        configured: sources.clone(),
        sources,
        allow_from: bound.map(|source| (source.spec().name.clone(), source.allow_from.clone())).collect(),
        arrived: HashMap::new(),
        routes: Routes::new(config.handlers.iter().map(|handler| handler.route.clone()).collect()),
        run_here: run_here.map(|handler| handler.name().to_owned()).collect(),
        retention_forced: config.retention.force,
        destinations: config.destinations.iter().map(|one| one.name.clone()).collect(),
        body_bytes_max: config.server.body_limit,
    }
}

fn caps(config: &ServerConfig) -> Caps {
    Caps {
        in_flight: config.in_flight,
        in_flight_bytes: config.in_flight_bytes,
        slow_bodies: config.connections.div_ceil(2),
        trusted_proxies: config.trusted_proxies,
    }
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}
