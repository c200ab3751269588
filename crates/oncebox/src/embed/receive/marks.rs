//! What must be fresh for an event to run.
//!
//! An id of one part has the mark that `once` makes of it, so that the SQL function agrees. The parts of a longer id
//! are shown with colons between them, and two events may show the same: those are marked by their identity.

use crate::database::verb::once::Once;
use crate::database::{StoreError, Transaction, has_identity, is_remembered, remember};
use crate::event::{EventKey, Mark, once_mark};
use oncebox_verify::{
    Fingerprint, Fingerprints, Identified, Identity, IdentityKind, OnRepeat, Topic, joined_id, sha256,
};

#[derive(Clone, Debug)]
pub(super) enum Marks {
    /// Of one that a request brought.
    Sent(Sent),
    /// Of one that the gateway stored under this key.
    Stored(EventKey),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Sent {
    /// All of them must be fresh: the identity, and the bytes where a repeat of them must not run.
    all: Vec<Mark>,
    /// What its identity was marked with by versions that joined the parts of an id.
    before: Option<Mark>,
}

impl Marks {
    pub(super) fn of(source: &str, event: &Identified) -> Self {
        let plain = once_mark(source, &event.event_id);
        let (identity, before) = match event.identity_kind {
            IdentityKind::Arrival => return Self::Sent(Sent::default()),
            IdentityKind::Body => (plain, None),
            IdentityKind::IdAndBody => (by_id_and_body(event.identity), None),
            IdentityKind::Id if event.identity == Identity::of_id(source, event.event_id.as_bytes()) => (plain, None),
            IdentityKind::Id => {
                let is_clear = event.identity == of_clear_parts(source, &event.event_id);
                (by_id(event.identity), is_clear.then_some(plain))
            }
        };
        let mark = |print: Fingerprint| Mark::of_parts(b"once+repeat", &[print.as_bytes()]);
        let all = match event.fingerprint.filter(|_| event.on_repeat != OnRepeat::Run) {
            None => vec![identity],
            Some(Fingerprints::Bytes(print) | Fingerprints::Topic(Topic { pair: print, .. })) => {
                vec![identity, mark(print)]
            }
            // First, so that a duplicate uses it up as well.
            Some(Fingerprints::Delivery(print)) => vec![mark(print), identity],
        };
        Self::Sent(Sent { all, before })
    }

    /// The mark that is claimed first, where it is known before the database is asked.
    pub(super) fn first(&self) -> Option<Mark> {
        match self {
            Self::Sent(sent) => sent.all.first().copied(),
            Self::Stored(_) => None,
        }
    }

    pub(super) async fn claim<T: Transaction>(
        &self,
        tx: &mut T,
        event: (&str, &str, &[u8]),
    ) -> Result<Once, StoreError> {
        match self {
            Self::Sent(sent) => sent.claim(tx).await,
            Self::Stored(key) => of_stored(tx, event, *key).await?.claim(tx).await,
        }
    }
}

impl Sent {
    async fn claim<T: Transaction>(&self, tx: &mut T) -> Result<Once, StoreError> {
        for mark in &self.all {
            if remember(tx, *mark).await? == Once::Duplicate {
                return Ok(Once::Duplicate);
            }
        }
        match self.before {
            Some(before) if is_remembered(tx, before).await? => Ok(Once::Duplicate),
            _ => Ok(Once::Fresh),
        }
    }
}

fn by_id(identity: Identity) -> Mark {
    Mark::of_parts(b"once+id", &[identity.as_bytes()])
}

fn by_id_and_body(identity: Identity) -> Mark {
    Mark::of_parts(b"once+body", &[identity.as_bytes()])
}

/// The identity of an id whose text tells the parts: none of them holds a colon or is empty.
fn of_clear_parts(source: &str, id: &str) -> Identity {
    Identity::of_id(source, &joined_id(id.split(':')))
}

/// The ledger knows which of these the event's identity is, so that the mark is that of the same event in a request.
/// Where it is none of them, our own key is the mark.
async fn of_stored<T: Transaction>(
    tx: &mut T,
    (source, id, body): (&str, &str, &[u8]),
    key: EventKey,
) -> Result<Sent, StoreError> {
    let (plain, digest) = (once_mark(source, id), sha256(body));
    let parts = of_clear_parts(source, id);
    let with_body = Identity::of_id_and_body(source, id.as_bytes(), &digest);
    for (identity, mark, before) in [
        (Identity::of_id(source, id.as_bytes()), plain, None),
        (parts, by_id(parts), Some(plain)),
        (with_body, by_id_and_body(with_body), None),
        (Identity::of_body(source, &digest), plain, None),
    ] {
        if has_identity(tx, identity, key).await? {
            return Ok(Sent { all: vec![mark], before });
        }
    }
    Ok(Sent { all: vec![Mark::of_parts(b"once+event", &[key.as_bytes()])], before: None })
}
