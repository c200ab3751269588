//! Reads `application/x-www-form-urlencoded` text: form bodies and query strings.
//!
//! Names and values are bytes until somebody needs text, because signatures cover bytes. A broken escape stays as it
//! stands, as browsers do it, so no input is an error.

use std::borrow::Cow;

use percent_encoding::percent_decode;
use url::form_urlencoded;

use super::{NoText, Reading};

/// The pairs of a form in order, names and values decoded; bytes that are not UTF-8 stay as they are.
pub(crate) fn pairs(text: &[u8]) -> impl Iterator<Item = (Cow<'_, [u8]>, Cow<'_, [u8]>)> {
    raw_pairs(text).map(|(name, value)| (decode(name), decode(value)))
}

/// A name and a value as they stand, not decoded.
pub(crate) type Pair<'a> = (&'a [u8], &'a [u8]);

pub(crate) fn field<'a>(text: &'a [u8], name: &str) -> Reading<'a> {
    field_of(raw_pairs(text), name)
}

pub(crate) fn field_of<'a>(pairs: impl Iterator<Item = Pair<'a>>, name: &str) -> Reading<'a> {
    // Escapes only make a name longer.
    let fits = |known: &[u8]| known.len() >= name.len() && decode(known).as_ref() == name.as_bytes();
    let mut values = pairs.filter(|(known, _)| fits(known));
    match (values.next(), values.next()) {
        (None, _) => Err(NoText::Missing),
        (Some(_), Some(_)) => Err(NoText::Ambiguous),
        (Some((_, value)), None) => match decode(value) {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_not_utf8| NoText::Unusable),
            Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|_not_utf8| NoText::Unusable),
        },
    }
}

pub(crate) fn encode(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Undoes percent escapes; `plus` says whether `+` is a space, as it is in forms and not in paths.
pub(crate) fn unescape(text: &[u8], plus: bool) -> Cow<'_, [u8]> {
    if !plus || !text.contains(&b'+') {
        return percent_decode(text).into();
    }
    let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    Cow::Owned(percent_decode(&spaced).collect())
}

/// Names and values as they stand, so that only what is looked for is decoded.
pub(crate) fn raw_pairs(text: &[u8]) -> impl Iterator<Item = Pair<'_>> {
    text.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        let cut = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        (&pair[..cut], pair.get(cut + 1..).unwrap_or_default())
    })
}

fn decode(text: &[u8]) -> Cow<'_, [u8]> {
    unescape(text, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_pairs() {
        let text = b"a=1&b=x+y%21&&c&d=%zz%4";
        let read: Vec<String> = pairs(text)
            .map(|(name, value)| format!("{}={}", String::from_utf8_lossy(&name), String::from_utf8_lossy(&value)))
            .collect();
        assert_eq!(read, ["a=1", "b=x y!", "c=", "d=%zz%4"]);
    }

    #[test]
    fn a_field_that_stands_twice_is_ambiguous() {
        assert!(matches!(field(b"a=1&a=1", "a"), Err(NoText::Ambiguous)));
        assert!(matches!(field(b"a=1", "b"), Err(NoText::Missing)));
        assert!(matches!(field(b"a=%ff", "a"), Err(NoText::Unusable)));
        assert!(matches!(field(b"a=%41", "a"), Ok(text) if text == "A"));
    }

    #[test]
    fn encoding_reads_back() {
        let text = "a b&c=d+é/\"";
        assert!(matches!(field(format!("x={}", encode(text)).as_bytes(), "x"), Ok(read) if read == text));
    }
}
