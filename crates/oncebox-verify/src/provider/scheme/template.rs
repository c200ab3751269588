//! The signed message as a template: `{ts}.{body}`, `v0:{ts}:{body}`, `{method}{url|decode}{body}{ts}`.
//!
//! Rendering yields borrowed pieces, so a MAC can be fed without copying the body.

use std::borrow::Cow;

use crate::provider::scheme::{Part, Place, View};
use crate::read::{bytes, form};
use crate::request::Request;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
    pub(crate) source: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Literal(String),
    Body,
    Time,
    Url { decode: bool },
    Method,
    Secret,
    Value(Part),
}

/// What a template is filled with, besides the request's own values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling<'f, 'a, 'w> {
    pub(crate) request: &'f Request,
    pub(crate) view: &'f View<'a, 'w>,
    /// The timestamp text exactly as sent.
    pub(crate) time: &'f str,
    /// The URL as configured at the vendor.
    pub(crate) url: &'f str,
}

impl Template {
    /// Reads a template; the error names the placeholder that is not known.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            if open > 0 {
                pieces.push(Piece::Literal(rest[..open].to_owned()));
            }
            let close = rest[open..].find('}').ok_or("a `{` has no `}`")? + open;
            pieces.push(Piece::parse(&rest[open + 1..close])?);
            rest = &rest[close + 1..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Literal(rest.to_owned()));
        }
        Ok(Self { pieces, source: text.to_owned() })
    }

    pub(crate) fn holds(&self, piece: &Piece) -> bool {
        self.pieces.contains(piece)
    }

    /// True when the secret comes last: whoever knows the digest of what begins with a secret can lengthen it.
    pub(crate) fn ends_with_secret(&self) -> bool {
        self.pieces.last() == Some(&Piece::Secret)
    }

    pub(crate) fn needs_url(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Url { .. }))
    }

    /// True when one of the message's own values is read from this place.
    pub(crate) fn covers(&self, place: &Place) -> bool {
        self.places().any(|known| known == place)
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = &Place> + Clone {
        let parts = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Value(part) => Some(part),
            _ => None,
        });
        parts.flat_map(Part::places)
    }

    /// The message in pieces; none when a value it needs is not there exactly once.
    pub(crate) fn render<'f>(&'f self, filling: &Filling<'f, '_, '_>, secret: &'f [u8]) -> Option<Vec<Cow<'f, [u8]>>> {
        self.pieces.iter().map(|piece| piece.render(filling, secret)).collect()
    }
}

impl Piece {
    fn parse(word: &str) -> Result<Self, String> {
        Ok(match word {
            "body" => Self::Body,
            "ts" => Self::Time,
            "url" => Self::Url { decode: false },
            "url|decode" => Self::Url { decode: true },
            "method" => Self::Method,
            "secret" => Self::Secret,
            _ => Self::Value(Part::parse(word).ok_or("a placeholder is not known")?),
        })
    }

    fn render<'f>(&'f self, filling: &Filling<'f, '_, '_>, secret: &'f [u8]) -> Option<Cow<'f, [u8]>> {
        Some(match self {
            Self::Literal(text) => Cow::Borrowed(text.as_bytes()),
            Self::Body => Cow::Borrowed(&filling.request.body),
            Self::Time => Cow::Borrowed(filling.time.as_bytes()),
            Self::Url { decode: false } => Cow::Borrowed(filling.url.as_bytes()),
            Self::Url { decode: true } => form::unescape(filling.url.as_bytes(), false),
            Self::Method => Cow::Borrowed(filling.request.method.as_str().as_bytes()),
            Self::Secret => Cow::Borrowed(secret),
            Self::Value(part) => bytes(part.read(filling.view).ok()?),
        })
    }
}
