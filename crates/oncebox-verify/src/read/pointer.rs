//! One value inside a JSON body, for whoever routes or orders events.

use super::json::{Pointer, Wanted, text};

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
        text(self.raw(body)?).ok().map(Into::into)
    }

    /// The same, and a number of any kind as it is written.
    pub fn read_number(&self, body: &[u8]) -> Option<String> {
        let raw = self.raw(body)?;
        let is_number = raw.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        if is_number { Some(raw.to_owned()) } else { text(raw).ok().map(Into::into) }
    }

    fn raw<'a>(&self, body: &'a [u8]) -> Option<&'a str> {
        let wanted = Wanted::new([&self.0]);
        wanted.raw(&wanted.find(body).ok()?, &self.0)
    }
}
