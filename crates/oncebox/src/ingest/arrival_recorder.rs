//! Writes down what became of each event: a log line, and arrivals after the first.
//!
//! Beside the path of the acknowledgement: the writers hand over what was settled and go on with the next commit, and
//! counts are written by a task of their own, so that a slow database delays nobody. A storm of duplicates costs one
//! small write twice a second.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::arrivals::Arrivals;
use super::metric;
use crate::clock::UnixMillis;
use crate::limits::ARRIVALS_EVERY;
use crate::store::{ArrivalCount, Inserted, NewEvent, Store};

/// An event that was committed, without its bytes.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) source: Arc<str>,
    pub(super) event_id: String,
    pub(super) event_type: String,
    pub(super) remote: Arc<str>,
    pub(super) received_at: UnixMillis,
    pub(super) inserted: Inserted,
}

impl Entry {
    pub(super) fn new(new: &NewEvent, inserted: Inserted) -> Self {
        Self {
            source: new.source.clone(),
            event_id: new.event.event_id.clone(),
            event_type: new.event.event_type.clone(),
            remote: new.remote.clone(),
            received_at: new.received_at,
            inserted,
        }
    }
}

/// Records until the last writer is gone.
pub(super) async fn run(store: Store, mut settled: mpsc::Receiver<Vec<Entry>>) {
    let mut arrivals = Arrivals::default();
    let mut writing = JoinSet::new();
    let mut ticks = tokio::time::interval(ARRIVALS_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            entries = settled.recv() => match entries {
                Some(entries) => entries.iter().for_each(|entry| keep(entry, &mut arrivals)),
                None => break,
            },
            _ = ticks.tick(), if writing.is_empty() && !arrivals.is_empty() => {
                writing.spawn(write(store.clone(), arrivals.take()));
            }
            Some(unwritten) = writing.join_next() => arrivals.put_back(unwritten.unwrap_or_default()),
        }
    }
    while let Some(unwritten) = writing.join_next().await {
        arrivals.put_back(unwritten.unwrap_or_default());
    }
    if !arrivals.is_empty() {
        write(store, arrivals.take()).await;
    }
}

/// Writes counts; what could not be written comes back.
async fn write(store: Store, counts: Vec<ArrivalCount>) -> Vec<ArrivalCount> {
    match store.add_arrivals(&counts).await {
        Ok(()) => Vec::new(),
        Err(error) => {
            tracing::warn!("{} arrival counts could not be written, retrying: {}", counts.len(), error.chain());
            counts
        }
    }
}

fn keep(entry: &Entry, arrivals: &mut Arrivals) {
    metric::log(entry);
    if entry.inserted.is_arrival_only() {
        arrivals.count(entry.inserted.key(), entry.received_at, &entry.remote);
    }
}
