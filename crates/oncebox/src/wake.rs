//! Wake-up hints: the ingest path tells the workers, after a commit, which handlers have something to do; the
//! workers tell the relay which destinations have.
//!
//! Only a hint, within one process and never lost work: the workers look for themselves several times in two seconds,
//! for both.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Connects who writes with who works. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Wake(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    handlers: Names,
    destinations: Names,
    /// The destinations that the relay of this process serves.
    served: Mutex<Arc<[Arc<str>]>>,
}

impl Wake {
    /// Says that these handlers have something to do.
    pub fn handlers<'a>(&self, names: impl IntoIterator<Item = &'a Arc<str>>) {
        self.0.handlers.add(names);
    }

    /// Waits until a handler has something to do, and says which.
    pub async fn wait(&self) -> BTreeSet<Arc<str>> {
        self.0.handlers.wait().await
    }

    /// Says that messages wait for these destinations.
    pub fn destinations<'a>(&self, names: impl IntoIterator<Item = &'a Arc<str>>) {
        self.0.destinations.add(names);
    }

    /// Says that somebody committed who may have written messages, to whichever destination.
    pub fn written(&self) {
        let served = self.0.served.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.destinations(served.iter());
    }

    /// Waits until messages wait for a destination, and says for which.
    pub async fn wait_for_messages(&self) -> BTreeSet<Arc<str>> {
        self.0.destinations.wait().await
    }

    /// Notes which destinations the relay of this process serves.
    pub fn serve(&self, destinations: impl IntoIterator<Item = Arc<str>>) {
        *self.0.served.lock().unwrap_or_else(PoisonError::into_inner) = destinations.into_iter().collect();
    }
}

/// Names that gather until somebody looks.
#[derive(Debug, Default)]
struct Names {
    notify: Notify,
    names: Mutex<BTreeSet<Arc<str>>>,
}

impl Names {
    fn add<'a>(&self, names: impl IntoIterator<Item = &'a Arc<str>>) {
        let woken = {
            let mut waiting = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            for name in names {
                // Looked for first: a name that is there already costs no count of its owners.
                if !waiting.contains(name) {
                    waiting.insert(name.clone());
                }
            }
            !waiting.is_empty()
        };
        if woken {
            self.notify.notify_one();
        }
    }

    async fn wait(&self) -> BTreeSet<Arc<str>> {
        loop {
            let names = std::mem::take(&mut *self.names.lock().unwrap_or_else(PoisonError::into_inner));
            if !names.is_empty() {
                return names;
            }
            self.notify.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_gather_until_somebody_looks() {
        let wake = Wake::default();
        let [billing, mail] = ["billing", "mail"].map(Arc::<str>::from);
        wake.handlers([&billing, &mail]);
        wake.handlers([&mail]);
        assert_eq!(wake.wait().await, BTreeSet::from([billing, mail.clone()]));
        let (waiting, ()) = tokio::join!(wake.wait(), async { wake.handlers([&mail]) });
        assert_eq!(waiting, BTreeSet::from([mail]));
    }

    #[tokio::test]
    async fn whoever_may_have_written_wakes_every_destination() {
        let wake = Wake::default();
        wake.written();
        wake.serve(["crm", "mail"].map(Arc::from));
        wake.written();
        assert_eq!(wake.wait_for_messages().await, BTreeSet::from(["crm", "mail"].map(Arc::from)));
    }
}
