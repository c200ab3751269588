//! The workers and the relay of this server: started, reloaded and stopped with it, or left out where the node only
//! ingests.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use oncebox::Clock;
use oncebox::gateway::event::{KeyMaker, NodeKey};
use oncebox::gateway::fault::Faults;
use oncebox::gateway::relay::{self, DestinationSpec, Relay, Spared};
use oncebox::gateway::shutdown::Shutdown;
use oncebox::gateway::store::{NodeEntry, Store};
use oncebox::gateway::wake::Wake;
use oncebox::gateway::worker::handler::HandlerSpec;
use oncebox::gateway::worker::{Parts, Workers};
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::serve::targets::Builder;

/// How often and how long the last claims are put back.
const GIVE_BACK_TRIES: u32 = 3;
const GIVE_BACK_WAIT: Duration = Duration::from_secs(3);

/// Handlers that were read and are known to the database; nobody works yet.
#[derive(Debug)]
pub(crate) struct Prepared {
    store: Store,
    clock: Clock,
    builder: Builder,
    handlers: Vec<HandlerSpec>,
    destinations: Vec<DestinationSpec>,
    /// What tells this node from others; none when it only ingests.
    node: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Processing {
    pub(crate) store: Store,
    builder: Mutex<Builder>,
    running: Option<Running>,
    /// What keeps the time of leases on a node that only ingests.
    keeping: Option<(Shutdown, JoinHandle<()>)>,
}

#[derive(Debug)]
struct Running {
    workers: Workers,
    relay: Relay,
    node: NodeKey,
    clock: Clock,
}

/// Handlers and destinations that were read and not yet taken.
#[derive(Debug)]
pub(crate) struct Changed(Vec<HandlerSpec>, Vec<DestinationSpec>);

impl Prepared {
    /// Reads the handlers and makes them known to the database.
    pub(crate) async fn new(store: &Store, config: &Config, clock: &Clock) -> anyhow::Result<Self> {
        let mut builder = Builder::new(clock.clone());
        let handlers = builder.handlers(&config.handlers)?;
        let destinations = builder.destinations(&config.destinations)?;
        // Fault points are met by what is served, not by the start.
        let whole = store.clone().with_faults(Faults::none());
        register(&whole, &handlers).await.context("cannot make the handlers known to the database")?;
        let node = config.server.workers.then(|| name_and_place(config.server.listen));
        Ok(Self { store: store.clone(), clock: clock.clone(), builder, handlers, destinations, node })
    }

    pub(crate) fn start(self, wake: Wake) -> Processing {
        let Self { store, clock, builder, handlers, destinations, node } = self;
        let running = node.map(|name| {
            let node = NodeEntry { node: KeyMaker::default().make(clock.now()), name };
            let parts =
                relay::Parts { store: store.clone(), clock: clock.clone(), wake: wake.clone(), node: node.clone() };
            let relay = Relay::start(parts, destinations);
            let (key, parts) = (node.node, Parts { store: store.clone(), clock: clock.clone(), wake, node });
            Running { workers: Workers::start(parts, handlers), relay, node: key, clock }
        });
        // A node with workers keeps the time with them.
        let keeping = running.is_none().then(|| {
            let (store, stopping) = (store.clone(), Shutdown::new());
            let asked = stopping.clone();
            (stopping, tokio::spawn(async move { store.keep_time(&asked).await }))
        });
        Processing { store, builder: Mutex::new(builder), running, keeping }
    }
}

impl Processing {
    /// Reads a changed config without taking it yet.
    pub(crate) fn read(&self, config: &Config) -> anyhow::Result<Changed> {
        let mut builder = self.builder.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Changed(builder.handlers(&config.handlers)?, builder.destinations(&config.destinations)?))
    }

    pub(crate) async fn change(&self, changed: Changed) {
        match &self.running {
            Some(Running { workers, relay, .. }) => {
                relay.set_destinations(changed.1);
                workers.set_handlers(changed.0);
            }
            None => {
                if let Err(error) = register(&self.store, &changed.0).await {
                    tracing::error!("the changed handlers are not known to the database yet: {}", error.chain());
                }
            }
        }
    }

    /// Destinations that the relay spares, now and later; none where this node only ingests.
    pub(crate) fn spared(&self) -> Spared {
        self.running.as_ref().map(|running| running.relay.spared()).unwrap_or_default()
    }

    /// Waits until the workers or the relay broke; for ever where there are none.
    pub(crate) async fn failed(&self) {
        match &self.running {
            Some(Running { workers, relay, .. }) => tokio::select! {
                () = workers.failed() => {}
                () = relay.failed() => {}
            },
            None => std::future::pending().await,
        }
    }

    /// Lets running attempts go on for a while and puts the rest back.
    pub(crate) async fn stop(self, grace: Duration) {
        if let Some((stopping, keeping)) = self.keeping {
            stopping.request();
            let _ = keeping.await;
        }
        let Some(Running { workers, relay, node, clock }) = self.running else { return };
        tokio::join!(workers.stop(grace), relay.stop(grace));
        give_back_all(&self.store, node, &clock).await;
    }
}

async fn register(store: &Store, handlers: &[HandlerSpec]) -> Result<(), oncebox::gateway::store::StoreError> {
    let facts: Vec<_> = handlers.iter().map(HandlerSpec::facts).collect();
    store.register_handlers(&facts).await
}

/// What this node is called, the same over restarts.
pub(crate) fn node_name(listen: SocketAddr) -> String {
    format!("{}/{listen}", host_name())
}

/// The same with a place behind an `@` that no two processes have at once, because one of them could not listen. Clones
/// share no more than the name.
fn name_and_place(listen: SocketAddr) -> String {
    let name = node_name(listen);
    match place().filter(|_| listen.port() != 0) {
        Some(place) => format!("{name}@{place}"),
        None => name,
    }
}

/// This run of this machine and its network, by Linux's own names for them.
fn place() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let network = std::fs::read_link("/proc/self/ns/net").ok()?;
    let number: String = network.to_str()?.chars().filter(char::is_ascii_digit).collect();
    (!number.is_empty()).then(|| format!("{}/{number}", boot.trim()))
}

/// Puts back what nobody here knows of: the database committed a claim and its answer was lost on the way, so that it was
/// never begun. Nothing runs any more, so whatever bears our name is such a claim.
async fn give_back_all(store: &Store, node: NodeKey, clock: &Clock) {
    for nth in 1..=GIVE_BACK_TRIES {
        match tokio::time::timeout(GIVE_BACK_WAIT, store.give_back_all(node, clock.now())).await {
            Ok(Ok(0)) => return,
            Ok(Ok(count)) => return tracing::info!("{count} claims whose answer was lost are ready again"),
            Ok(Err(error)) if nth == GIVE_BACK_TRIES => {
                tracing::warn!(
                    "claims whose answer was lost could not be given back and expire with their lease: {}",
                    error.chain()
                );
            }
            // A connection that broke with the database; the next one is new.
            Ok(Err(_)) => {}
            Err(_) => {
                return tracing::warn!(
                    "claims whose answer was lost could not be given back in time and expire with their lease"
                );
            }
        }
    }
}

/// What tells this machine from others; with the address it tells this process from its predecessors.
fn host_name() -> String {
    let read =
        std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    read.map(|name| name.trim().to_owned()).unwrap_or_default()
}
