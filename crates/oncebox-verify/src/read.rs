//! Values out of bytes: JSON, forms and XML.

use std::borrow::Cow;

pub(super) mod form;
pub(super) mod json;
pub(super) mod pointer;
pub(super) mod xml;

/// A value that was read as text.
pub(crate) type Reading<'a> = Result<Cow<'a, str>, NoText>;

/// Why there is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoText {
    /// Nothing there, or `null`, which senders use for that.
    Missing,
    /// There more than once.
    Ambiguous,
    /// There, but no text that can be kept.
    Unusable,
    /// What it stands in has another format.
    Unreadable,
}

pub(crate) fn bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}
