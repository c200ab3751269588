//! The keys of what is stored: one type each, so that no two can be mixed up.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Mutex;

use oncebox_verify::key;
use uuid::{ContextV7, Timestamp, Uuid};

use crate::clock::UnixMillis;

/// A key of 16 bytes for one kind of thing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key<K>(Uuid, PhantomData<K>);

/// Names a kind of key and the thing it stands for.
macro_rules! kinds {
    ($($(#[$doc:meta])* $key:ident of $kind:ident,)*) => {$(
        #[doc = concat!("The kind of [`", stringify!($key), "`].")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $kind {}
        $(#[$doc])*
        pub type $key = Key<$kind>;
    )*};
}

kinds! {
    /// Our name for an event: a UUIDv7, made by us.
    EventKey of EventKind,
    /// One event's delivery to one handler.
    DeliveryKey of DeliveryKind,
    /// Proves that a claim is still ours: made anew by every claim.
    LeaseToken of LeaseKind,
    /// A message of the outbox.
    MessageKey of MessageKind,
    /// A running process.
    NodeKey of NodeKind,
    /// What was seen before, or what must stay in order: equal exactly when the parts it is made from are.
    Mark of MarkKind,
    /// A place in the order of keys, whichever kind they are: where a page or a slice begins and ends.
    Position of PositionKind,
}

impl<K> Key<K> {
    /// No key is smaller.
    pub const MIN: Self = Self(Uuid::nil(), PhantomData);
    /// No key is larger.
    pub const MAX: Self = Self(Uuid::max(), PhantomData);

    /// Reads the 16 bytes that the database holds.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes), PhantomData)
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

    /// Whether it could be one that we made: time first, and the mark of that kind.
    pub fn is_ours(&self) -> bool {
        let bytes = self.as_bytes();
        bytes[6] >> 4 == 7 && bytes[8] >> 6 == 0b10
    }

    /// Its place among others.
    pub fn position(&self) -> Position {
        Key::from_bytes(*self.as_bytes())
    }

    /// The smallest and the largest key that a delivery of the event at this place can have.
    pub fn delivery_range(&self) -> (DeliveryKey, DeliveryKey) {
        let (mut first, mut last) = (*self.as_bytes(), *self.as_bytes());
        first[8..].fill(0);
        last[8..].fill(0xff);
        (Key::from_bytes(first), Key::from_bytes(last))
    }

    /// The 16 bytes that the database holds.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl EventKey {
    /// The key of this event's delivery to a handler: the same whenever it is made, so one index keeps deliveries both
    /// unique and findable. It begins as the event's key does, so that an event's deliveries lie side by side.
    pub fn of_delivery(&self, handler: &str) -> DeliveryKey {
        let mut bytes = *self.as_bytes();
        bytes[8..].copy_from_slice(&key(b"delivery", &[self.as_bytes(), handler.as_bytes()])[8..]);
        bytes[8] = (bytes[8] & 0b0011_1111) | 0b1000_0000;
        Key::from_bytes(bytes)
    }
}

impl Mark {
    /// Made from a kind and parts of any size.
    pub(crate) fn of_parts(kind: &[u8], parts: &[&[u8]]) -> Self {
        Self::from_bytes(key(kind, parts))
    }
}

impl<K> fmt::Display for Key<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.as_hyphenated(), f)
    }
}

impl<K> fmt::Debug for Key<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<K> FromStr for Key<K> {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map(|key| Self(key, PhantomData))
    }
}

/// The mark of an id within a scope, as `once` remembers it; the SQL function of that name makes the same.
pub fn once_mark(scope: &str, id: &str) -> Mark {
    Mark::of_parts(b"once", &[scope.as_bytes(), id.as_bytes()])
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
    pub fn make<K>(&self, now: UnixMillis) -> Key<K> {
        let millis = now.max(0).unsigned_abs();
        let nanos = u32::try_from(millis % 1000).unwrap_or(0) * 1_000_000;
        let context = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Key(Uuid::new_v7(Timestamp::from_unix(&*context, millis / 1000, nanos)), PhantomData)
    }
}
