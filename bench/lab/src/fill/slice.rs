//! Filling a database with events that look as if they had come and been handled over the past days: for benchmarks and
//! for trying out what a large inbox feels like.
//!
//! A slice is one transaction and goes past the referee: its identities are new, or the slice was written before. So a
//! filler that was killed goes on where it stopped.

use std::sync::Arc;

use bytes::Bytes;

use super::{Database, Store, StoreError, TxInner};
use crate::clock::UnixMillis;
use crate::event::{Digest, EventKey, Identity};

/// An event of the past: accepted, and done by its handler.
#[derive(Clone, Debug)]
pub struct PastEvent {
    /// Our key for it.
    pub key: EventKey,
    /// The source's name.
    pub source: Arc<str>,
    /// The sender's id; with the source it is the identity.
    pub event_id: String,
    /// The sender's type.
    pub event_type: Arc<str>,
    /// SHA-256 of its body.
    pub body_sha256: Digest,
    /// When it came.
    pub received_at: UnixMillis,
    /// Its bytes; none where they are gone already.
    pub payload: Option<Bytes>,
}

/// What became of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// It is written.
    Written,
    /// It was there.
    Known,
    /// Some of it was there, so that it is another slice; nothing was written.
    Partly,
}

impl PastEvent {
    /// What makes it one event.
    pub fn identity(&self) -> Identity {
        Identity::of_id(&self.source, self.event_id.as_bytes())
    }
}

impl Store {
    /// Writes a slice with a finished delivery of each event to this handler, in one transaction. Where its first and its
    /// last event are there already, so is the slice.
    pub async fn fill(&self, events: Vec<PastEvent>, handler: &str) -> Result<Filled, StoreError> {
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return Ok(Filled::Known) };
        let ends = self.ledger_keys(&[first.identity(), last.identity()]).await?;
        match (ends[0], ends[1]) {
            (None, None) => {}
            (Some(_), Some(_)) => return Ok(Filled::Known),
            _ => return Ok(Filled::Partly),
        }
        let mut tx = self.begin().await?;
        self.faults.at("fill.slice").await?;
        let slice = Slice::new(events, handler);
        match &mut tx.inner {
            #[cfg(feature = "sqlite")]
            TxInner::Sqlite(tx) => tx.fill(slice).await?,
            #[cfg(feature = "postgres")]
            TxInner::Postgres(tx) => tx.fill(&slice).await?,
        }
        tx.commit_or_fail().await?;
        Ok(Filled::Written)
    }

    /// The keys that the ledger has for these identities, in their order.
    pub async fn ledger_keys(&self, identities: &[Identity]) -> Result<Vec<Option<EventKey>>, StoreError> {
        match &self.database {
            #[cfg(feature = "sqlite")]
            Database::Sqlite(database) => database.ledger_keys(identities.to_vec()).await,
            #[cfg(feature = "postgres")]
            Database::Postgres(database) => database.ledger_keys(identities).await,
        }
    }
}

/// The rows of a slice, each table's in the order of its index.
pub(super) struct Slice {
    pub(super) events: Vec<PastEvent>,
    pub(super) ledger: Vec<(Identity, EventKey)>,
    pub(super) handler: String,
}

impl Slice {
    fn new(mut events: Vec<PastEvent>, handler: &str) -> Self {
        events.sort_unstable_by_key(|event| event.key);
        let mut ledger: Vec<_> = events.iter().map(|event| (event.identity(), event.key)).collect();
        ledger.sort_unstable();
        Self { events, ledger, handler: handler.to_owned() }
    }
}

/// The headers and the remote address of every made-up event.
pub(super) const HEADERS: &[u8] = b"content-type: application/json\nuser-agent: filler\n";
pub(super) const REMOTE: &str = "192.0.2.1:443";
