//! A loop in the background and the tasks that serve it: how it is watched and how it is stopped.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::shutdown::Shutdown;

/// What is under way.
#[derive(Debug)]
pub(crate) struct Running {
    stopping: Shutdown,
    grace: watch::Sender<Duration>,
    /// Ends with the loop.
    living: watch::Receiver<()>,
    tasks: JoinSet<()>,
}

impl Running {
    /// Starts a loop beside its helpers. It is handed what asks it to stop, and how long it may then go on.
    pub(crate) fn start<L>(mut tasks: JoinSet<()>, start: impl FnOnce(Shutdown, watch::Receiver<Duration>) -> L) -> Self
    where
        L: Future<Output = ()> + Send + 'static,
    {
        let (grace, grace_seen) = watch::channel(Duration::ZERO);
        let (alive, living) = watch::channel(());
        let stopping = Shutdown::new();
        let running = start(stopping.clone(), grace_seen);
        tasks.spawn(async move {
            let _alive = alive;
            running.await;
        });
        Self { stopping, grace, living, tasks }
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
