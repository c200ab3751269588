//! The relay of one node: claims messages that wait in the outbox, sends them, marks them.
//!
//! The loop claims ahead, a lane decides how much and how fast, callers send one message after the other, the completer writes
//! down how it went: nobody who sends waits for the database. Every destination has a lane of its own, so a slow one
//! delays nobody else. Whoever dies between a call and its mark has the message sent again under the same key: at least
//! once, and one key.

mod attempt;
mod caller;
mod completer;
mod destination;
mod dispatch;
mod lane;
mod metric;
mod observed;
mod request;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use completer::Completer;
pub use destination::DestinationSpec;
use dispatch::Dispatch;
pub use observed::Spared;

use crate::clock::Clock;
use crate::lane::background::Running;
use crate::lane::begun::Beginnings;
use crate::limits::MARKS_MAX;
use crate::store::{NodeEntry, Store};
use crate::wake::Wake;

/// What a relay is made of.
#[derive(Debug)]
pub struct Parts {
    /// The database.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// Who wakes it.
    pub wake: Wake,
    /// Which process this is, as its workers have it.
    pub node: NodeEntry,
}

/// The running relay of one node.
#[derive(Debug)]
pub struct Relay {
    destinations: watch::Sender<Arc<[Arc<DestinationSpec>]>>,
    running: Running,
    spared: Spared,
}

impl Relay {
    /// Starts it. A database that is away is waited for.
    pub fn start(parts: Parts, destinations: Vec<DestinationSpec>) -> Self {
        let (destinations, changes) = watch::channel(shared(destinations));
        let (ended, closing) = mpsc::channel(MARKS_MAX);
        let completer = Completer { store: parts.store.clone(), clock: parts.clock.clone(), wake: parts.wake.clone() };
        let mut tasks = JoinSet::new();
        tasks.spawn(completer.run(closing));
        let spared = Spared::default();
        let (begun, beginning) = Beginnings::new(parts.store.clone(), parts.node.node);
        tasks.spawn(beginning);
        let dispatch = Dispatch::new(parts, ended, begun, spared.clone());
        let running = Running::start(tasks, |stopping, grace| dispatch.run(changes, stopping, grace));
        Self { destinations, running, spared }
    }

    /// Takes a changed config. Messages to a destination that is gone stay where they are until it returns.
    pub fn set_destinations(&self, destinations: Vec<DestinationSpec>) {
        self.destinations.send_replace(shared(destinations));
    }

    /// Which destinations are spared, now and later.
    pub fn spared(&self) -> Spared {
        self.spared.clone()
    }

    /// Waits until the loop broke, which nothing but a mistake of ours can do: whoever runs it should start anew.
    pub async fn failed(&self) {
        self.running.failed().await;
    }

    /// Stops claiming, lets calls under way go on for `grace`, and puts the rest back without using an attempt.
    pub async fn stop(self, grace: Duration) {
        self.running.stop(grace).await;
    }
}

fn shared(destinations: Vec<DestinationSpec>) -> Arc<[Arc<DestinationSpec>]> {
    destinations.into_iter().map(Arc::new).collect()
}
