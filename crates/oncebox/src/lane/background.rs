//! A loop in the background and the tasks that serve it: what it is made of, how it is told of a changed config, how it is
//! watched and how it is stopped.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::shutdown::Shutdown;
use crate::store::{NodeEntry, Store};
use crate::wake::Wake;

/// What workers and a relay are made of.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The database.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// Who wakes them.
    pub wake: Wake,
    /// Which process this is: the same for both.
    pub node: NodeEntry,
}

/// What is under way.
#[derive(Debug)]
pub(crate) struct Running<C> {
    config: watch::Sender<C>,
    stopping: Shutdown,
    grace: watch::Sender<Duration>,
    living: watch::Receiver<()>,
    tasks: JoinSet<()>,
}

/// What the loop is told: its config and every change of it, when to stop, and how long it may then go on.
#[derive(Debug)]
pub(crate) struct Signals<C> {
    pub(crate) config: watch::Receiver<C>,
    pub(crate) stopping: Shutdown,
    pub(crate) grace: watch::Receiver<Duration>,
}

impl<C> Running<C> {
    /// Starts a loop beside its helpers. Its config counts as changed at first.
    pub(crate) fn start<L>(mut tasks: JoinSet<()>, config: C, start: impl FnOnce(Signals<C>) -> L) -> Self
    where
        L: Future<Output = ()> + Send + 'static,
    {
        let (config, mut changes) = watch::channel(config);
        changes.mark_changed();
        let (grace, grace_seen) = watch::channel(Duration::ZERO);
        let (alive, living) = watch::channel(());
        let stopping = Shutdown::new();
        let running = start(Signals { config: changes, stopping: stopping.clone(), grace: grace_seen });
        tasks.spawn(async move {
            let _alive = alive;
            running.await;
        });
        Self { config, stopping, grace, living, tasks }
    }

    pub(crate) fn set(&self, config: C) {
        self.config.send_replace(config);
    }

    pub(crate) fn config(&self) -> watch::Receiver<C> {
        self.config.subscribe()
    }

    /// Waits until the loop broke, which nothing but a mistake of ours can do: whoever runs it should start anew.
    pub(crate) async fn failed(&self) {
        let mut living = self.living.clone();
        // Nothing is ever sent; the end of the sender is the message.
        while living.changed().await.is_ok() {}
        if self.stopping.requested() {
            std::future::pending::<()>().await;
        }
    }

    /// Asks the loop to stop within `grace` and waits for everything to end.
    pub(crate) async fn stop(mut self, grace: Duration) {
        self.grace.send_replace(grace);
        self.stopping.request();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// What is configured for each lane.
pub(crate) type Specs<S> = Arc<[Arc<S>]>;

pub(crate) fn specs<S>(specs: Vec<S>) -> Specs<S> {
    specs.into_iter().map(Arc::new).collect()
}
