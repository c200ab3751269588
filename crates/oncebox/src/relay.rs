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

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub use crate::lane::background::Parts;
pub use destination::DestinationSpec;
use dispatch::Dispatch;
pub use observed::Spared;

use crate::lane::background::{Running, Specs, specs};
use crate::lane::begun::Beginnings;
use crate::lane::completer::run as run_completer;
use crate::limits::MARKS_MAX;

/// The running relay of one node.
#[derive(Debug)]
pub struct Relay {
    running: Running<Specs<DestinationSpec>>,
    spared: Spared,
}

impl Relay {
    /// Starts it. A database that is away is waited for.
    pub fn start(parts: Parts, destinations: Vec<DestinationSpec>) -> Self {
        let (ended, closing) = mpsc::channel(MARKS_MAX);
        let mut tasks = JoinSet::new();
        let wake = parts.wake.clone();
        let report = move |batch: Vec<_>, outcomes: Vec<_>| completer::report(&wake, &batch, &outcomes);
        tasks.spawn(run_completer(parts.store.clone(), parts.clock.clone(), closing, report));
        let spared = Spared::default();
        let (begun, beginning) = Beginnings::new(parts.store.clone(), parts.node.node);
        tasks.spawn(beginning);
        let dispatch = Dispatch::new(parts, ended, begun, spared.clone());
        let running = Running::start(tasks, specs(destinations), |signals| dispatch.run(signals));
        Self { running, spared }
    }

    /// Takes a changed config. Messages to a destination that is gone stay where they are until it returns.
    pub fn set_destinations(&self, destinations: Vec<DestinationSpec>) {
        self.running.set(specs(destinations));
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
