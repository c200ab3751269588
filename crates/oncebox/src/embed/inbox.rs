//! Handlers inside an application: deliveries are claimed over its own pool, handled in its own transactions.
//!
//! The effect and the mark commit together, so an effect in the database is there exactly once. Any number of nodes may
//! run the same handler; every write after a claim is fenced by its token, and whoever loses the lease rolls back. The
//! events come from a gateway with a `pull` handler of the same name, or from the ingest path in this process.

mod attempt;
mod context;
mod lane;
mod steps;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

pub use context::Context;
pub use steps::StepKey;

use lane::Lane;

use crate::clock::Clock;
use crate::database::steady::Steady;
use crate::database::verb::deliveries;
use crate::database::verb::steady::PoolTimes;
use crate::database::{At, Pool, StoreError, commit_or_fail};
use crate::delivery::handler_error::HandlerError;
use crate::delivery::retry::RetryPolicy;
use crate::limits::LEASES_EVERY;
use crate::shutdown::Shutdown;

/// Work that is under way.
pub type Working<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Code that reacts to the events of one handler name.
pub trait Handler<P: Pool>: Send + Sync + 'static {
    /// Handles one event: steps first, then writes into [`Context::tx`]. They are committed together with the mark when
    /// it returns `Ok`, and rolled back otherwise.
    fn handle(&self, context: &mut Context<P>) -> impl Future<Output = Result<(), HandlerError>> + Send;
}

/// How a handler is run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long a silent worker keeps a delivery before others may have it; a living one extends it by itself.
    pub lease: Duration,
    /// How long an attempt may take before it is cut off and counts as failed.
    pub deadline: Duration,
    /// When to try again and when to give up.
    pub retry: RetryPolicy,
    /// Deliveries at once; never more than the pool has connections to spare.
    pub concurrency: usize,
    /// How often to look for work that nobody announced.
    pub poll: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(60),
            deadline: Duration::from_secs(300),
            retry: RetryPolicy::default(),
            concurrency: 4,
            poll: crate::limits::POLL_EVERY,
        }
    }
}

/// The handlers of an application over its own pool.
///
/// ```
/// use oncebox::Clock;
/// use oncebox::database::{Pool, StoreError, Transaction};
/// use oncebox::inbox::{Inbox, Options, Running};
///
/// async fn start<P: Pool>(pool: P) -> Result<Running, StoreError> {
///     let billing = Options { concurrency: 8, ..Options::default() };
///     Inbox::new(pool, Clock::system())
///         .on("billing", billing, |context| {
///             Box::pin(async move {
///                 let (event, tx) = context.event_and_tx().await?;
///                 tx.execute("insert into orders (event) values ($1)", vec![event.id.as_str().into()]).await?;
///                 Ok(())
///             })
///         })
///         .start()
///         .await
/// }
/// ```
pub struct Inbox<P: Pool> {
    shared: Shared<P>,
    handlers: BTreeMap<Arc<str>, Registered<P>>,
}

/// What every part of an inbox needs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shared<P> {
    pub(crate) pool: P,
    pub(crate) clock: Clock,
    steady: Steady,
    wake: Arc<Notify>,
}

impl<P> Shared<P> {
    fn at(&self) -> At {
        At { wall: self.clock.now(), steady: self.steady.now() }
    }
}

#[derive(Clone)]
struct Registered<P: Pool> {
    handler: Arc<Erased<P>>,
    options: Options,
}

/// A handler whose type is forgotten.
type Erased<P> = dyn for<'a> Fn(&'a mut Context<P>) -> Working<'a, Result<(), HandlerError>> + Send + Sync;

/// A running inbox; dropping it stops at once, and leases bring back what was under way.
#[derive(Debug)]
pub struct Running {
    stopping: Shutdown,
    grace: watch::Sender<Duration>,
    wake: Arc<Notify>,
    tasks: JoinSet<()>,
}

impl<P: Pool> Inbox<P> {
    /// An inbox without handlers.
    pub fn new(pool: P, clock: Clock) -> Self {
        let shared = Shared { pool, clock, steady: Steady::default(), wake: Arc::default() };
        Self { shared, handlers: BTreeMap::new() }
    }

    /// Adds a handler under its name, with options of its own; the last one of a name counts.
    #[must_use]
    pub fn with(self, name: &str, options: Options, handler: impl Handler<P>) -> Self {
        let handler = Arc::new(handler);
        self.on(name, options, move |context| {
            let handler = handler.clone();
            Box::pin(async move { handler.handle(context).await })
        })
    }

    /// Adds a closure as a handler: `inbox.on("billing", options, |context| Box::pin(async move { … }))`.
    #[must_use]
    pub fn on<F>(mut self, name: &str, options: Options, handler: F) -> Self
    where
        F: for<'a> Fn(&'a mut Context<P>) -> Working<'a, Result<(), HandlerError>> + Send + Sync + 'static,
    {
        self.handlers.insert(name.into(), Registered { handler: Arc::new(handler), options });
        self
    }

    /// Tells the database about the handlers and starts them.
    pub async fn start(self) -> Result<Running, StoreError> {
        self.shared.steady.begin(&PoolTimes(&self.shared.pool), &self.shared.clock).await?;
        for (name, registered) in &self.handlers {
            let Options { retry, lease, .. } = &registered.options;
            deliveries::register(&self.shared.pool, name, retry, *lease).await?;
        }
        // No later than a lease after its end, however short leases are.
        let every = self.handlers.values().map(|one| one.options.lease).min().unwrap_or(LEASES_EVERY).min(LEASES_EVERY);
        let (stopping, mut tasks) = (Shutdown::new(), JoinSet::new());
        let (grace, grace_seen) = watch::channel(Duration::ZERO);
        for (name, registered) in self.handlers {
            let lane = Lane { shared: self.shared.clone(), name, registered };
            tasks.spawn(lane.run(stopping.clone(), grace_seen.clone()));
        }
        let wake = self.shared.wake.clone();
        tasks.spawn(expire_leases(self.shared, every, stopping.clone()));
        Ok(Running { stopping, grace, wake, tasks })
    }
}

impl Running {
    /// Looks for work at once: something was stored, and polling would find it later.
    pub fn wake(&self) {
        self.wake.notify_waiters();
    }

    /// Stops claiming, lets running attempts go on for `grace`, and puts the rest back without using an attempt.
    pub async fn stop(mut self, grace: Duration) {
        self.grace.send_replace(grace);
        self.stopping.request();
        while self.tasks.join_next().await.is_some() {}
    }
}

impl<P: Pool> std::fmt::Debug for Inbox<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").field("handlers", &self.handlers.keys()).finish_non_exhaustive()
    }
}

/// Every node does this, whoever the leases belong to.
async fn expire_leases<P: Pool>(shared: Shared<P>, every: Duration, stopping: Shutdown) {
    while !stopping.requested() {
        if let Err(error) = shared.steady.compare(&PoolTimes(&shared.pool), None).await {
            tracing::warn!("comparing clocks failed, retrying: {}", error.chain());
        }
        let expired = async {
            let mut tx = shared.pool.begin().await?;
            let expired = deliveries::expire(&mut tx, shared.at()).await?;
            commit_or_fail::<P>(tx).await.map(|()| expired.len())
        };
        match expired.await {
            Ok(0) => {}
            Ok(count) => {
                tracing::warn!("{count} deliveries were taken back from workers that went silent");
                shared.wake.notify_waiters();
            }
            Err(error) => tracing::warn!("checking for expired leases failed, retrying: {}", error.chain()),
        }
        tokio::select! {
            () = stopping.wait() => {}
            () = tokio::time::sleep(every) => {}
        }
    }
}
