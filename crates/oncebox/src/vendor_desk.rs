//! Brings keys that a request needs: one fetch at a time per address, everybody else waits for its outcome.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::Clock;
use crate::errands::{Errands, Nobody};
use crate::source::Source;
use crate::verdict::{KeyWanted, Visit};

/// The vendor could not be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfReach;

/// Sends somebody to vendors.
#[derive(Debug)]
pub(crate) struct VendorDesk {
    errands: Arc<dyn Errands>,
    flights: Mutex<HashMap<String, Arc<Flight>>>,
}

/// What became of the fetch that is under way, for those who wait for it.
type Flight = tokio::sync::Mutex<Option<Result<(), OutOfReach>>>;

impl Default for VendorDesk {
    fn default() -> Self {
        Self::new(Arc::new(Nobody))
    }
}

impl VendorDesk {
    pub(crate) fn new(errands: Arc<dyn Errands>) -> Self {
        Self { errands, flights: Mutex::default() }
    }

    /// Fetches a key into the source's ring, or waits for whoever is fetching it.
    pub(crate) async fn bring_key(&self, source: &Source, wanted: &KeyWanted, clock: &Clock) -> Result<(), OutOfReach> {
        // The ring is the source's own, and so is the flight.
        let name = format!("{} {}", source.name(), wanted.url);
        let flight = self.lock().entry(name.clone()).or_default().clone();
        let mut outcome = flight.lock().await;
        if let Some(outcome) = *outcome {
            return outcome;
        }
        let fetched = self.fetch(source, wanted, clock).await;
        *outcome = Some(fetched);
        // Whoever comes later starts a flight of their own, should the key still be missing.
        self.lock().remove(&name);
        fetched
    }

    /// Fetches what is due.
    pub(crate) async fn refresh(&self, source: &Source, clock: &Clock) {
        for wanted in source.keys_due(clock.now()) {
            // The old key is still good, and the next round tries again.
            let _ = self.bring_key(source, &wanted, clock).await;
        }
    }

    /// Visits a URL.
    pub(crate) async fn visit(&self, visit: &Visit) -> Result<(), OutOfReach> {
        self.errands.visit(visit).await.map_err(|error| {
            tracing::warn!("a confirmation could not be visited: {error}");
            OutOfReach
        })
    }

    async fn fetch(&self, source: &Source, wanted: &KeyWanted, clock: &Clock) -> Result<(), OutOfReach> {
        if !source.may_fetch_key(clock.now()) {
            return Err(OutOfReach);
        }
        let fetched = self.errands.fetch(wanted).await.map_err(|error| {
            tracing::warn!(source = source.name(), "a key could not be fetched: {error}");
            OutOfReach
        })?;
        if !source.learn(wanted, &fetched.text, fetched.max_age, clock.now()) {
            tracing::warn!(source = source.name(), "what the address of a key answered holds no key");
            return Err(OutOfReach);
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Flight>>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
