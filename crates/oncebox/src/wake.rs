//! A tap on the shoulder: the ingest path tells the workers, after a commit, which handlers have something to do.
//!
//! Only a hint, within one process and never lost work: the workers look for themselves several times in two seconds.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Connects who stores with who works. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Wake(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    notify: Notify,
    names: Mutex<BTreeSet<Arc<str>>>,
}

impl Wake {
    /// Says that these handlers have something to do.
    pub fn handlers<'a>(&self, names: impl IntoIterator<Item = &'a Arc<str>>) {
        let woken = {
            let mut waiting = self.0.names.lock().unwrap_or_else(PoisonError::into_inner);
            for name in names {
                // Looked for first: a name that is there already costs no count of its owners.
                if !waiting.contains(name) {
                    waiting.insert(name.clone());
                }
            }
            !waiting.is_empty()
        };
        if woken {
            self.0.notify.notify_one();
        }
    }

    /// Waits until a handler has something to do, and says which.
    pub async fn wait(&self) -> BTreeSet<Arc<str>> {
        loop {
            let names = std::mem::take(&mut *self.0.names.lock().unwrap_or_else(PoisonError::into_inner));
            if !names.is_empty() {
                return names;
            }
            self.0.notify.notified().await;
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
}
