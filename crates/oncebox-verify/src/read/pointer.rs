//! One value inside a JSON body, for whoever routes or orders events.

use super::json::{Hit, Pointer, Scalar, Wanted, scalar};

/// A JSON pointer to something inside the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyPointer(Pointer);

impl BodyPointer {
    /// Reads `/data/object/id`; none when it is no pointer or too deep.
    pub fn parse(text: &str) -> Option<Self> {
        Pointer::parse(text).map(Self)
    }

    /// The text or whole number at the pointer; none where there is nothing usable.
    pub fn read(&self, body: &[u8]) -> Option<String> {
        self.find(body, text)
    }

    /// The same, and a number of any kind as it is written.
    pub fn read_number(&self, body: &[u8]) -> Option<String> {
        let is_number = |raw: &str| raw.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        self.find(body, |raw| if is_number(raw) { Some(raw.to_owned()) } else { text(raw) })
    }

    fn find<T>(&self, body: &[u8], read: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let wanted = Wanted::new([&self.0]);
        let hits = wanted.find(body).ok()?;
        match wanted.hit(&hits, &self.0) {
            Hit::Raw(raw) => read(raw),
            Hit::Missing | Hit::Ambiguous => None,
        }
    }
}

fn text(raw: &str) -> Option<String> {
    match scalar(raw) {
        Scalar::Text(text) => Some(text.into_owned()),
        Scalar::Null | Scalar::Other => None,
    }
}
