//! Secrets that a handshake brings: takes one when the source is armed, and gives it to the running source on every node.
//!
//! The database is the truth. Each node looks every two seconds, as long as a source waits for such a secret, and builds
//! the source again with what it finds. Nothing here prints or logs a secret; who may see one is told in `arming.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use oncebox::Clock;
use oncebox::gateway::ingest::{Answer, Unavailable};
use oncebox::gateway::sealed::{Sealer, is_strong};
use oncebox::gateway::shutdown::Shutdown;
use oncebox::gateway::store::{ArrivedSecret, Asked, Kept, Store};
use oncebox_verify::{HandshakeSecret, Reason, Rejection, Secret, Source, Step};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::query::actions::new_id;
use crate::setup::Setup;

const POLL_EVERY: Duration = Duration::from_secs(2);
/// Between two looks because of handshakes: strangers send those, too.
const POLL_PAUSE: Duration = Duration::from_millis(50);

/// Takes secrets in and hands them out. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ArrivedSecrets(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    sealer: Option<Sealer>,
    /// Whether the key is good enough to keep something new with it.
    strong: bool,
    clock: Clock,
    setup: Arc<ArcSwap<Setup>>,
    /// What was armed when we last looked.
    armed: ArcSwap<Vec<ArrivedSecret>>,
    /// When we last looked because of a handshake.
    looked_at: Mutex<Instant>,
    /// Whether somebody was told that there is no key.
    told: AtomicBool,
}

impl ArrivedSecrets {
    /// `secret_key` is the config's; without one no secret is taken.
    pub(crate) fn new(store: Store, secret_key: Option<&Secret>, clock: Clock, setup: Arc<ArcSwap<Setup>>) -> Self {
        let (armed, looked_at, told) = (ArcSwap::default(), Mutex::new(Instant::now()), AtomicBool::new(false));
        let sealer = secret_key.and_then(Sealer::new);
        let strong = secret_key.is_some_and(is_strong);
        Self(Arc::new(Inner { store, sealer, strong, clock, setup, armed, looked_at, told }))
    }

    /// True when there is a key to keep secrets with, and nobody guesses it.
    pub(crate) fn can_keep(&self) -> bool {
        self.0.strong
    }

    /// What was sealed, if it was sealed for this source with our key.
    pub(crate) fn open(&self, source: &str, sealed: &[u8]) -> Option<Secret> {
        self.0.sealer.as_ref().and_then(|sealer| sealer.open(source, sealed))
    }

    /// Keeps a secret if the source is armed; else the handshake is refused like any other stranger, and nothing is
    /// written for it.
    pub(crate) async fn take(&self, source: &Source, brought: HandshakeSecret, remote: &str) -> Answer {
        let refused = Rejection { step: Step::Signature, reason: Reason::NotArmed, off_by_seconds: None };
        let Some(sealer) = self.0.sealer.as_ref().filter(|_| self.0.strong) else {
            if !self.0.told.swap(true, Ordering::Relaxed) {
                let source = source.name();
                tracing::warn!(
                    source,
                    "a handshake brought a secret, and there is no good store.secret_key to keep it with"
                );
            }
            return Answer::Rejected(refused);
        };
        if !self.is_armed(source.name()).await {
            return Answer::Rejected(refused);
        }
        let Some(sealed) = sealer.seal(source.name(), &brought.secret) else { return Answer::Rejected(refused) };
        let who = format!("a handshake from {remote}");
        let asked = Asked { id: new_id(&self.0.clock), who, at: self.0.clock.now() };
        match self.0.store.keep_secret(&asked, source.name(), sealed).await {
            Ok(Kept::Kept) => {
                let source = source.name();
                tracing::info!(source, remote, "the handshake's secret was taken; the source is no longer armed");
                self.poll().await;
                Answer::Handshake(brought.reply)
            }
            Ok(Kept::NotArmed) => Answer::Rejected(refused),
            Err(error) => {
                tracing::warn!(source = source.name(), "a handshake's secret could not be kept: {}", error.chain());
                Answer::Unavailable(Unavailable::StoreFailed)
            }
        }
    }

    /// Whether a source waits for its secret. What we know is two seconds old at most; before somebody is refused the
    /// database is asked again, once for all who wait for that, and by reading alone.
    async fn is_armed(&self, source: &str) -> bool {
        let is_known = || {
            let (armed, now) = (self.0.armed.load(), self.0.clock.now());
            armed.iter().any(|one| one.source == source && one.is_armed_at(now))
        };
        if is_known() {
            return true;
        }
        let asked_at = Instant::now();
        let mut looked_at = self.0.looked_at.lock().await;
        if *looked_at < asked_at {
            tokio::time::sleep_until(*looked_at + POLL_PAUSE).await;
            *looked_at = Instant::now();
            self.poll().await;
        }
        drop(looked_at);
        is_known()
    }

    /// Looks for secrets that other nodes took, until the server stops.
    pub(crate) async fn run(self, stopping: Shutdown) {
        while !stopping.requested() {
            if self.0.setup.load().sources.values().any(|source| source.awaits_secret()) {
                self.poll().await;
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    /// Gives the running sources what has arrived.
    pub(crate) async fn poll(&self) {
        let found = match self.0.store.arrived_secrets().await {
            Ok(found) => found,
            Err(error) => return tracing::warn!("arrived secrets cannot be read: {}", error.chain()),
        };
        self.0.setup.rcu(|setup| self.completed(setup, &found));
        self.0.armed.store(Arc::new(found));
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
