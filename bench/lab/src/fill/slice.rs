//! A slice of events that look as if they had come and been handled: one transaction, past the referee.
//!
//! Its identities are new, or the slice was written before. So a filler that was killed goes on where it stopped.

use std::sync::Arc;

use bytes::Bytes;
use oncebox::gateway::clock::UnixMillis;
use oncebox::gateway::event::EventKey;
use oncebox_verify::{Digest, Identity};

use super::{postgres, sqlite};
use crate::database::Connection;

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

/// Writes a slice with a finished delivery of each event to this handler, in one transaction. Where its first and its
/// last event are there already, so is the slice.
pub async fn write(connection: &mut Connection, events: Vec<PastEvent>, handler: &str) -> anyhow::Result<Filled> {
    let (Some(first), Some(last)) = (events.first(), events.last()) else { return Ok(Filled::Known) };
    match (is_known(connection, first.identity()).await?, is_known(connection, last.identity()).await?) {
        (false, false) => {}
        (true, true) => return Ok(Filled::Known),
        _ => return Ok(Filled::Partly),
    }
    let slice = Slice::new(events, handler);
    match connection {
        Connection::Sqlite(connection) => tokio::task::block_in_place(|| sqlite::write(connection, &slice))?,
        Connection::Postgres(client) => postgres::write(client, &slice).await?,
    }
    Ok(Filled::Written)
}

/// Whether the ledger has this identity.
pub async fn is_known(connection: &Connection, identity: Identity) -> anyhow::Result<bool> {
    match connection {
        Connection::Sqlite(connection) => sqlite::is_known(connection, identity).map_err(Into::into),
        Connection::Postgres(client) => postgres::is_known(client, identity).await.map_err(Into::into),
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
