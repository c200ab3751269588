//! The keys of what is stored, and the states of an event.

use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;

use oncebox_verify::key;
use uuid::{ContextV7, Timestamp, Uuid};

use crate::clock::UnixMillis;

/// Our name for an event: a UUIDv7, made by us.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventKey(Uuid);

impl EventKey {
    /// No key is smaller.
    pub const MIN: Self = Self(Uuid::nil());
    /// No key is larger.
    pub const MAX: Self = Self(Uuid::max());

    /// Reads the 16 bytes that the database holds.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// The smallest key of a moment: keys begin with their time, so this finds all that came since.
    pub fn at(moment: UnixMillis) -> Self {
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&moment.max(0).to_be_bytes()[2..]);
        Self::from_bytes(bytes)
    }

    /// The moment that the key begins with.
    pub fn moment(&self) -> UnixMillis {
        let mut millis = [0; 8];
        millis[2..].copy_from_slice(&self.as_bytes()[..6]);
        UnixMillis::from_be_bytes(millis)
    }

    /// The key of this event's delivery to a handler: the same whenever it is made, so one index keeps deliveries both
    /// unique and findable. It begins as the event's key does, so that an event's deliveries lie side by side.
    pub fn of_delivery(&self, handler: &str) -> Self {
        let mut bytes = *self.as_bytes();
        bytes[8..].copy_from_slice(&key(b"delivery", &[self.as_bytes(), handler.as_bytes()])[8..]);
        bytes[8] = (bytes[8] & 0b0011_1111) | 0b1000_0000;
        Self::from_bytes(bytes)
    }

    /// Whether it could be one that we made: time first, and the mark of that kind.
    pub fn is_ours(&self) -> bool {
        let bytes = self.as_bytes();
        bytes[6] >> 4 == 7 && bytes[8] >> 6 == 0b10
    }

    /// The smallest and the largest key that a delivery of this event can have.
    pub fn delivery_range(&self) -> (Self, Self) {
        let (mut first, mut last) = (*self.as_bytes(), *self.as_bytes());
        first[8..].fill(0);
        last[8..].fill(0xff);
        (Self::from_bytes(first), Self::from_bytes(last))
    }

    /// The 16 bytes that the database holds.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// A key of fixed size made from parts of any: equal exactly when kind and parts are.
    pub(crate) fn of_parts(kind: &[u8], parts: &[&[u8]]) -> Self {
        Self::from_bytes(key(kind, parts))
    }
}

impl fmt::Display for EventKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.as_hyphenated(), f)
    }
}

impl fmt::Debug for EventKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for EventKey {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map(Self)
    }
}

/// The mark of an id within a scope, as `once` remembers it; the SQL function of that name makes the same.
pub fn once_mark(scope: &str, id: &str) -> EventKey {
    EventKey::of_parts(b"once", &[scope.as_bytes(), id.as_bytes()])
}

/// Makes keys that rise in the order they are made, so that index pages fill from one end.
#[derive(Debug)]
pub struct KeyMaker(Mutex<ContextV7>);

impl Default for KeyMaker {
    fn default() -> Self {
        Self(Mutex::new(ContextV7::new()))
    }
}

impl KeyMaker {
    /// A key for something that happens now.
    pub fn make(&self, now: UnixMillis) -> EventKey {
        let millis = now.max(0).unsigned_abs();
        let nanos = u32::try_from(millis % 1000).unwrap_or(0) * 1_000_000;
        let context = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        EventKey(Uuid::new_v7(Timestamp::from_unix(&*context, millis / 1000, nanos)))
    }
}

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
