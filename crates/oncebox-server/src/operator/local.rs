//! The admin API over a database, within this process: what a command asks where no server runs.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::Router;
use oncebox::Clock;
use oncebox::gateway::relay::Spared;
use oncebox::gateway::retention::Progress;
use oncebox::gateway::shutdown::Shutdown;
use oncebox::gateway::store::Store;

use super::{name_of_caller, refuse};
use crate::admin::guard::{Access, Guard};
use crate::admin::retention::Remover;
use crate::admin::{Admin, AdminParts, Offline};
use crate::arming::arrived_secrets::ArrivedSecrets;
use crate::config::Reach;
use crate::observe::gauges::Gauges;
use crate::observe::rejections::Rejections;
use crate::observe::traffic::Traffic;
use crate::query::context::PublicPlace;
use crate::query::destinations::Destinations;
use crate::serve;

/// The routes, with what the config says where one is at hand. Whoever can open the database needs no token.
pub(super) async fn router(store: Store, reach: Option<Reach>) -> anyhow::Result<Router> {
    let configured = reach.as_ref().map(|reach| &reach.configured);
    let destinations = Destinations::of_database(&store, configured).await.map_err(|error| refuse(&error))?;
    let secret_key = reach.as_ref().and_then(|reach| reach.store.as_ref().ok()?.secret_key.as_ref());
    let (clock, setup) = (Clock::system(), Arc::new(ArcSwap::default()));
    let admin = Admin::new(AdminParts {
        arrived: ArrivedSecrets::new(store.clone(), secret_key, clock.clone(), setup.clone()),
        guard: Arc::new(Guard::new(Access::default(), SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?),
        retention: Remover::Command(serve::retention::parts(&store, &clock), Progress::default()),
        rejections: Rejections::new(clock.clone()),
        traffic: Traffic::new(clock.clone()),
        public: PublicPlace::unknown(),
        offline: Some(Offline { reach, destinations }),
        trusted_proxies: 0,
        metrics: None,
        spared: Spared::default(),
        gauges: Gauges::default(),
        draining: Shutdown::new(),
        store,
        clock,
        setup,
    });
    Ok(admin.local_router(name_of_caller()))
}
