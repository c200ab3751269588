//! One measured round: warm up, measure, stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::task::JoinSet;

use super::figures::{Counts, Figures};
use super::process;
use super::script::Script;
use super::wire::{Connection, Said};

const WARM_UP: Duration = Duration::from_secs(1);

/// Whose processor time to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    /// The server.
    pub(super) id: u32,
    /// Whether a Postgres on this machine works for it.
    pub(super) with_postgres: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) address: SocketAddr,
    pub(super) connections: u64,
    pub(super) seconds: u64,
    pub(super) process: Option<Process>,
}

/// What the connections are to do.
const WARMING: u8 = 0;
const MEASURING: u8 = 1;
const STOPPING: u8 = 2;

impl Load {
    pub(super) async fn run(&self, script: &Arc<Script>) -> anyhow::Result<Figures> {
        let phase = Arc::new(AtomicU8::new(WARMING));
        let mut connections = JoinSet::new();
        for number in 0..self.connections {
            let (address, script, phase) = (self.address, script.clone(), phase.clone());
            connections.spawn(async move { run_connection(address, &script, number, &phase).await });
        }
        let phases = async {
            tokio::time::sleep(WARM_UP).await;
            let (before, started) = (self.times(), Instant::now());
            phase.store(MEASURING, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(self.seconds)).await;
            phase.store(STOPPING, Ordering::Relaxed);
            let (after, elapsed) = (self.times(), started.elapsed());
            (before, after, elapsed)
        };
        let collected = async {
            let mut counts = Counts::default();
            while let Some(one) = connections.join_next().await {
                counts.merge(one.context("a connection's task failed")??);
            }
            anyhow::Ok(counts)
        };
        // A connection that fails ends the round at once.
        let ((before, after, elapsed), counts) = tokio::try_join!(async { anyhow::Ok(phases.await) }, collected)?;
        let spent = before.zip(after).map(|(before, after)| after.since(before));
        let resident = self.process.and_then(|process| process::resident_kib(process.id));
        Ok(Figures::new(counts, elapsed, spent, resident))
    }

    fn times(&self) -> Option<process::Times> {
        self.process.and_then(|process| process::Times::read(process.id, process.with_postgres))
    }
}

async fn run_connection(address: SocketAddr, script: &Script, number: u64, phase: &AtomicU8) -> anyhow::Result<Counts> {
    let mut connection = Connection::open(address).await?;
    let mut lines = script.lines(number)?;
    let mut counts = Counts::default();
    loop {
        let request = lines.next()?;
        let started = Instant::now();
        let begun_in = phase.load(Ordering::Relaxed);
        let said = connection.exchange(request).await?;
        let elapsed = started.elapsed();
        // The one that is under way at the end counts: to leave it out would leave out the slowest.
        if begun_in == MEASURING {
            counts.add(said, elapsed);
        }
        if phase.load(Ordering::Relaxed) == STOPPING {
            return Ok(counts);
        }
        if matches!(said, Said::Failed(_)) {
            // A server that says no at full speed would be asked at full speed.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
