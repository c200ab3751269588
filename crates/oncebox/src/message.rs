//! Outbox messages: calls that somebody wants made once their transaction has committed. Pure: what a message may
//! hold. SQL makes the key it goes out under, the store moves its state, the relay sends it.

use crate::event::DeliveryKey;

/// Bytes of a body: a message waits in memory while it is sent.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
const NAME_LEN_MAX: usize = 64;
const KEY_LEN_MAX: usize = 200;
const PATH_LEN_MAX: usize = 2048;
const HEADERS_LEN_MAX: usize = 16 * 1024;

/// A call that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The name of a destination of the config.
    pub destination: String,
    /// What makes it this message and no other.
    pub origin: Origin,
    /// The method; POST where nothing is said.
    pub method: Method,
    /// What is added below the destination's URL, with a query or without.
    pub path: String,
    /// Headers beside the destination's own.
    pub headers: Vec<(String, String)>,
    /// The bytes.
    pub body: Vec<u8>,
    /// Messages of one key go out one after the other, where the destination wants that. A delivery's messages have its
    /// order key, or its event's key, where nothing is said.
    pub order_key: Option<String>,
}

/// What makes a message this one and no other: its idempotency key comes from here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// A step of a delivery: the same over attempts, restarts and replays.
    Delivery {
        /// The delivery.
        delivery: DeliveryKey,
        /// Which of its calls.
        step: String,
    },
    /// A key of the writer's own, for its destination.
    Given(String),
    /// Every write is another message.
    Fresh,
}

/// How a call is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// POST.
    #[default]
    Post,
    /// PUT.
    Put,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
    /// GET.
    Get,
}

/// Why a message cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MessageError(&'static str);

impl MessageError {
    const DESTINATION: Self = Self("a destination's name is 1 to 64 letters, digits, dots, dashes and underscores");
    const STEP: Self = Self("a step's name is 1 to 64 letters, digits, dots, dashes and underscores");
    const KEY: Self = Self("a key is 1 to 200 visible ASCII characters without a slash");
    const PATH: Self = Self("a path has at most 2048 characters and no control characters");
    const ORDER_KEY: Self = Self("an order key has 1 to 200 characters and no control characters");
    const HEADERS: Self = Self("the headers of a message have at most 16 kB");
    const BODY: Self = Self("the body of a message has at most 16 MiB");
}

impl Message {
    /// A POST of these bytes; every write of it is another message until it is given an origin.
    pub fn new(destination: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Self {
            destination: destination.into(),
            origin: Origin::Fresh,
            method: Method::Post,
            path: String::new(),
            headers: Vec::new(),
            body: body.into(),
            order_key: None,
        }
    }

    /// The same as a step of a delivery.
    pub fn step(mut self, delivery: DeliveryKey, step: impl Into<String>) -> Self {
        self.origin = Origin::Delivery { delivery, step: step.into() };
        self
    }

    /// The same under a key of the writer's own.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.origin = Origin::Given(key.into());
        self
    }

    /// The same to a path below the destination.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Says what is wrong with it, before anything is written.
    pub fn check(&self) -> Result<(), MessageError> {
        let plain = |text: &str, most: usize| text.chars().count() <= most && !text.chars().any(char::is_control);
        if !is_name(&self.destination) {
            return Err(MessageError::DESTINATION);
        }
        match &self.origin {
            Origin::Delivery { step, .. } if !is_name(step) => return Err(MessageError::STEP),
            Origin::Given(key) if !is_key(key) => return Err(MessageError::KEY),
            _ => {}
        }
        if !plain(&self.path, PATH_LEN_MAX) {
            return Err(MessageError::PATH);
        }
        if self.order_key.as_ref().is_some_and(|key| key.is_empty() || !plain(key, KEY_LEN_MAX)) {
            return Err(MessageError::ORDER_KEY);
        }
        if self.headers_json().len() > HEADERS_LEN_MAX {
            return Err(MessageError::HEADERS);
        }
        if self.body.len() > BODY_BYTES_MAX { Err(MessageError::BODY) } else { Ok(()) }
    }

    pub(crate) fn headers_json(&self) -> String {
        let object = self.headers.iter().map(|(name, value)| (name.clone(), value.clone().into()));
        serde_json::Value::Object(object.collect()).to_string()
    }
}

impl Method {
    /// The word kept in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Get => "GET",
        }
    }
}

/// Where a message stands, in the words kept in the database.
pub const MESSAGE_STATES: [&str; 5] = [
    // Waits to be claimed, now or when it is due.
    "ready",
    // A relay has it.
    "claimed",
    // The destination took it.
    "sent",
    // It gave up.
    "dead",
    // A person decided that it is never sent.
    "discarded",
];

fn is_name(text: &str) -> bool {
    (1..=NAME_LEN_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

fn is_key(text: &str) -> bool {
    (1..=KEY_LEN_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELIVERY: DeliveryKey = DeliveryKey::from_bytes([7; 16]);

    fn check(message: Message, expected: Result<(), MessageError>) {
        assert_eq!(message.check(), expected, "{message:?}");
    }

    fn crm() -> Message {
        Message::new("crm", "{}")
    }

    #[test]
    fn keys() {
        check(crm(), Ok(()));
        check(crm().key("order-42:paid"), Ok(()));
        check(crm().step(DELIVERY, "notify"), Ok(()));
        for key in ["", "a/b", "a b", "ä", "a\n", &"k".repeat(201)] {
            check(crm().key(key), Err(MessageError::KEY));
        }
        for step in ["", "a/b", "a b", "ä", &"s".repeat(65)] {
            check(crm().step(DELIVERY, step), Err(MessageError::STEP));
        }
    }

    #[test]
    fn limits() {
        check(Message::new("", ""), Err(MessageError::DESTINATION));
        check(Message::new("c/rm", ""), Err(MessageError::DESTINATION));
        check(crm().path("p".repeat(2049)), Err(MessageError::PATH));
        check(crm().path("a\r\nb"), Err(MessageError::PATH));
        check(Message { order_key: Some(String::new()), ..crm() }, Err(MessageError::ORDER_KEY));
        check(Message { headers: vec![("x".into(), "y".repeat(17_000))], ..crm() }, Err(MessageError::HEADERS));
        check(Message { body: vec![0; BODY_BYTES_MAX + 1], ..crm() }, Err(MessageError::BODY));
    }

    #[test]
    fn words() {
        for state in MESSAGE_STATES {
            assert_eq!(MESSAGE_STATES.into_iter().filter(|other| *other == state).count(), 1, "{state}");
        }
    }
}
