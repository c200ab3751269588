//! Secrets that a handshake brings: takes one when the source is armed, and gives it to the running source on every node.
//!
//! The database is the truth. Each node looks every two seconds, as long as a source waits for such a secret, and builds
//! the source again with what it finds. Nothing here prints or logs a secret; who may see one is told in `arming.rs`.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use oncebox::clock::Clock;
use oncebox::ingest::{Answer, Unavailable};
use oncebox::sealed::Sealer;
use oncebox::secret::Secret;
use oncebox::shutdown::Shutdown;
use oncebox::source::Source;
use oncebox::store::{ArrivedSecret, Kept, Store};
use oncebox::verdict::{Brought, Reason, Rejection, Step};

use crate::http::public::Setup;

const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Takes secrets in and hands them out. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ArrivedSecrets(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    sealer: Option<Sealer>,
    clock: Clock,
    setup: Arc<ArcSwap<Setup>>,
}

impl ArrivedSecrets {
    /// `secret_key` is the config's; without one no secret is taken.
    pub(crate) fn new(store: Store, secret_key: Option<&Secret>, clock: Clock, setup: Arc<ArcSwap<Setup>>) -> Self {
        Self(Arc::new(Inner { store, sealer: secret_key.and_then(Sealer::new), clock, setup }))
    }

    /// True when there is a key to keep secrets with.
    pub(crate) fn can_keep(&self) -> bool {
        self.0.sealer.is_some()
    }

    /// What was sealed, if it was sealed for this source with our key.
    pub(crate) fn open(&self, source: &str, sealed: &[u8]) -> Option<Secret> {
        self.0.sealer.as_ref().and_then(|sealer| sealer.open(source, sealed))
    }

    /// Keeps a secret if the source is armed; else the handshake is refused like any other stranger.
    pub(crate) async fn take(&self, source: &Source, brought: Brought) -> Answer {
        let refused = Rejection { step: Step::Signature, reason: Reason::NotArmed, off_by_seconds: None };
        let Some(sealed) = self.0.sealer.as_ref().and_then(|sealer| sealer.seal(source.name(), &brought.secret)) else {
            tracing::warn!(
                source = source.name(),
                "a handshake brought a secret, and there is no store.secret_key to keep it with"
            );
            return Answer::Rejected(refused);
        };
        match self.0.store.keep_secret(source.name(), sealed, self.0.clock.now()).await {
            Ok(Kept::Kept) => {
                tracing::info!(
                    source = source.name(),
                    "the handshake's secret was taken; the source is no longer armed"
                );
                self.look().await;
                Answer::Handshake(brought.reply)
            }
            Ok(Kept::NotArmed) => Answer::Rejected(refused),
            Err(error) => {
                tracing::warn!(source = source.name(), "a handshake's secret could not be kept: {}", error.chain());
                Answer::Unavailable(Unavailable::StoreFailed)
            }
        }
    }

    /// Looks for secrets that other nodes took, until the server stops.
    pub(crate) async fn run(self, stopping: Shutdown) {
        while !stopping.requested() {
            if self.0.setup.load().sources.values().any(|source| source.awaits_secret()) {
                self.look().await;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Gives the running sources what has arrived.
    pub(crate) async fn look(&self) {
        let found = match self.0.store.arrived_secrets().await {
            Ok(found) => found,
            Err(error) => return tracing::warn!("arrived secrets cannot be read: {}", error.chain()),
        };
        self.0.setup.rcu(|setup| self.completed(setup, &found));
    }

    /// The setup with every arrived secret in its source; the same one when nothing is new.
    fn completed(&self, setup: &Arc<Setup>, found: &[ArrivedSecret]) -> Arc<Setup> {
        let mut changed = None;
        for one in found {
            let Some(sealed) = &one.sealed else { continue };
            if setup.arrived.get(&one.source) == Some(sealed) {
                continue;
            }
            let Some(source) = setup.configured.get(&one.source).filter(|source| source.awaits_secret()) else {
                continue;
            };
            let opened = self.open(&one.source, sealed);
            let Some(built) = opened.and_then(|secret| source.with_secret(secret).ok()) else {
                tracing::warn!(
                    source = one.source,
                    "the secret that arrived cannot be opened; was store.secret_key changed?"
                );
                continue;
            };
            let setup = changed.get_or_insert_with(|| Setup::clone(setup));
            setup.sources.insert(one.source.clone(), Arc::new(built));
            setup.arrived.insert(one.source.clone(), sealed.clone());
        }
        changed.map_or_else(|| setup.clone(), Arc::new)
    }
}
