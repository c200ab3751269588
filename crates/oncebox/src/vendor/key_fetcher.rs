//! Brings keys that a request needs: one fetch at a time per address, everybody else waits for its outcome.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::Clock;
use crate::vendor::client::{Errands, Nobody};
use oncebox_verify::{KeyWanted, Source, Visit};

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
        // Whoever comes later starts a flight of their own, should the key still be missing; also when this one is dropped.
        let _landing = Landing { desk: self, name: &name, flight: &flight };
        let fetched = self.fetch(source, wanted, clock).await;
        *outcome = Some(fetched);
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
        if !source.may_fetch_key(wanted, clock.now()) {
            return Err(OutOfReach);
        }
        let cause = match self.errands.fetch(wanted).await {
            Ok(fetched) if source.learn(wanted, &fetched.text, fetched.max_age, clock.now()) => return Ok(()),
            Ok(_) => "what its address answered holds no key".to_owned(),
            Err(error) => error.to_string(),
        };
        source.key_failed(wanted, clock.now());
        tracing::warn!(source = source.name(), "a key could not be fetched: {cause}");
        Err(OutOfReach)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Flight>>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the flight off the list, however it ends.
struct Landing<'a> {
    desk: &'a VendorDesk,
    name: &'a str,
    flight: &'a Arc<Flight>,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        let mut flights = self.desk.lock();
        if flights.get(self.name).is_some_and(|listed| Arc::ptr_eq(listed, self.flight)) {
            flights.remove(self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::pin::pin;
    use std::task::Poll;

    use super::*;
    use crate::vendor::client::{Errand, Fetched};
    use oncebox_verify::NamedBy;
    use oncebox_verify::SourceSpec;

    /// Somebody who never comes back.
    #[derive(Debug)]
    struct Lost;

    impl Errands for Lost {
        fn fetch<'a>(&'a self, _wanted: &'a KeyWanted) -> Errand<'a, Fetched> {
            Box::pin(pending())
        }

        fn visit<'a>(&'a self, _visit: &'a Visit) -> Errand<'a, ()> {
            Box::pin(pending())
        }
    }

    #[tokio::test]
    async fn a_caller_that_is_dropped_leaves_no_flight() {
        let mut spec = SourceSpec::named("sns", "aws-sns").unwrap();
        spec.settings.insert("topic_arn".to_owned(), oncebox_verify::Secret::new(testkit::vendor::TOPIC));
        let source = Source::build(spec).unwrap();
        let desk = VendorDesk::new(Arc::new(Lost));
        let wanted = KeyWanted { url: "https://a.example/".to_owned(), named_by: NamedBy::Request, proof: None };
        let clock = Clock::manual(0);
        {
            let mut fetch = pin!(desk.bring_key(&source, &wanted, &clock));
            poll_fn(|context| {
                assert!(fetch.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            assert_eq!(desk.lock().len(), 1);
        }
        assert_eq!(desk.lock().len(), 0);
    }
}
