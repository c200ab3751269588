//! Brings keys that a request needs: one fetch at a time per address, everybody else waits for its outcome.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::Clock;
use crate::vendor::client::{NoVendorClient, VendorClient};
use oncebox_verify::{KeyWanted, Source, Visit};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfReach;

#[derive(Debug)]
pub(crate) struct KeyFetcher {
    vendor_client: Arc<dyn VendorClient>,
    in_flight: Mutex<HashMap<String, Arc<Fetch>>>,
}

/// What became of the fetch that is under way, for those who wait for it.
type Fetch = tokio::sync::Mutex<Option<Result<(), OutOfReach>>>;

impl Default for KeyFetcher {
    fn default() -> Self {
        Self::new(Arc::new(NoVendorClient))
    }
}

impl KeyFetcher {
    pub(crate) fn new(vendor_client: Arc<dyn VendorClient>) -> Self {
        Self { vendor_client, in_flight: Mutex::default() }
    }

    /// Fetches a key into the source's ring, or waits for whoever is fetching it.
    pub(crate) async fn fetch_key(&self, source: &Source, wanted: &KeyWanted, clock: &Clock) -> Result<(), OutOfReach> {
        // The ring is the source's own, and so is the fetch.
        let name = format!("{} {}", source.name(), wanted.url);
        let fetch_state = self.lock().entry(name.clone()).or_default().clone();
        let mut outcome = fetch_state.lock().await;
        if let Some(outcome) = *outcome {
            return outcome;
        }
        // Somebody else's fetch ended after our request was judged.
        let is_there = source.has_just_fetched(wanted, clock.now());
        // Whoever comes later starts a fetch of their own, should the key still be missing; also when this one is dropped.
        let _finished = Finished { fetcher: self, name: &name, fetch_state: &fetch_state };
        let fetched = if is_there { Ok(()) } else { self.fetch(source, wanted, clock).await };
        *outcome = Some(fetched);
        fetched
    }

    pub(crate) async fn refresh(&self, source: &Source, clock: &Clock) {
        for wanted in source.keys_due(clock.now()) {
            // The old key is still good, and the next round tries again.
            let _ = self.fetch_key(source, &wanted, clock).await;
        }
    }

    pub(crate) async fn visit(&self, visit: &Visit) -> Result<(), OutOfReach> {
        self.vendor_client.visit(visit).await.map_err(|error| {
            tracing::warn!("a vendor's confirmation URL could not be fetched: {error}");
            OutOfReach
        })
    }

    async fn fetch(&self, source: &Source, wanted: &KeyWanted, clock: &Clock) -> Result<(), OutOfReach> {
        if !source.may_fetch_key(wanted, clock.now()) {
            return Err(OutOfReach);
        }
        let cause = match self.vendor_client.fetch(wanted).await {
            Ok(fetched) if source.learn(wanted, &fetched.text, fetched.max_age, clock.now()) => return Ok(()),
            Ok(_) => "what its address answered holds no key".to_owned(),
            Err(error) => error.to_string(),
        };
        source.key_failed(wanted, clock.now());
        tracing::warn!(source = source.name(), "a key could not be fetched: {cause}");
        Err(OutOfReach)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Fetch>>> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the fetch off the list, however it ends.
struct Finished<'a> {
    fetcher: &'a KeyFetcher,
    name: &'a str,
    fetch_state: &'a Arc<Fetch>,
}

impl Drop for Finished<'_> {
    fn drop(&mut self) {
        let mut in_flight = self.fetcher.lock();
        if in_flight.get(self.name).is_some_and(|listed| Arc::ptr_eq(listed, self.fetch_state)) {
            in_flight.remove(self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::pin::pin;
    use std::task::Poll;

    use super::*;
    use crate::vendor::client::{Fetched, VendorFuture};
    use oncebox_verify::NamedBy;
    use oncebox_verify::SourceSpec;

    /// Somebody who never comes back.
    #[derive(Debug)]
    struct Lost;

    impl VendorClient for Lost {
        fn fetch<'a>(&'a self, _wanted: &'a KeyWanted) -> VendorFuture<'a, Fetched> {
            Box::pin(pending())
        }

        fn visit<'a>(&'a self, _visit: &'a Visit) -> VendorFuture<'a, ()> {
            Box::pin(pending())
        }
    }

    #[tokio::test]
    async fn a_caller_that_is_dropped_leaves_no_flight() {
        let mut spec = SourceSpec::named("sns", "aws-sns").unwrap();
        spec.settings.insert("topic_arn".to_owned(), oncebox_verify::Secret::new(testkit::vendor::TOPIC));
        let source = Source::build(spec).unwrap();
        let fetcher = KeyFetcher::new(Arc::new(Lost));
        let wanted = KeyWanted { url: "https://a.example/".to_owned(), named_by: NamedBy::Request, proof: None };
        let clock = Clock::manual(0);
        {
            let mut fetch = pin!(fetcher.fetch_key(&source, &wanted, &clock));
            poll_fn(|context| {
                assert!(fetch.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            assert_eq!(fetcher.lock().len(), 1);
        }
        assert_eq!(fetcher.lock().len(), 0);
    }
}
