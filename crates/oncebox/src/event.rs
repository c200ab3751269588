//! Events: their keys and their states.

mod key;

pub use key::{DeliveryKey, EventKey, Key, KeyMaker, LeaseToken, Mark, MessageKey, NodeKey, Position, once_mark};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) use key::{DeliveryKind, LeaseKind, MessageKind};
pub(crate) use key::{EventKind, NodeKind};

/// The state of a stored event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventState {
    /// Its deliveries run.
    Accepted,
    /// Stored, acknowledged, waiting for a person.
    Held,
    /// Another body under a known identity: kept, never run.
    Conflict,
}

impl EventState {
    /// The word kept in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Held => "held",
            Self::Conflict => "conflict",
        }
    }
}
