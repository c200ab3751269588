//! Reads `application/x-www-form-urlencoded` text: form bodies and query strings.
//!
//! Names and values are bytes until somebody needs text, because signatures cover bytes. A broken escape stays as it
//! stands, as browsers do it, so no input is an error.

use std::borrow::Cow;

/// The pairs of a form in order, names and values decoded; bytes that are not UTF-8 stay as they are.
pub(crate) fn pairs(text: &[u8]) -> impl Iterator<Item = (Cow<'_, [u8]>, Cow<'_, [u8]>)> {
    raw_pairs(text).map(|(name, value)| (decode(name), decode(value)))
}

/// What a field holds, in the words of the JSON reader.
#[derive(Debug)]
pub(crate) enum Field<'a> {
    /// Not there.
    Missing,
    /// There more than once.
    Ambiguous,
    /// There, but not text.
    NotText,
    /// Its value.
    Text(Cow<'a, str>),
}

/// Looks up one field.
pub(crate) fn field<'a>(text: &'a [u8], name: &str) -> Field<'a> {
    let mut values = raw_pairs(text).filter(|(known, _)| decode(known).as_ref() == name.as_bytes());
    match (values.next(), values.next()) {
        (None, _) => Field::Missing,
        (Some(_), Some(_)) => Field::Ambiguous,
        (Some((_, value)), None) => match decode(value) {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).map_or(Field::NotText, Field::Text),
            Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_or(Field::NotText, Field::Text),
        },
    }
}

/// Encodes text as a form value.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' => encoded.push(char::from(byte)),
            b' ' => encoded.push('+'),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Undoes percent escapes; `plus` says whether `+` is a space, as it is in forms and not in paths.
pub(crate) fn unescape(text: &[u8], plus: bool) -> Cow<'_, [u8]> {
    if !text.iter().any(|byte| *byte == b'%' || (plus && *byte == b'+')) {
        return Cow::Borrowed(text);
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after) {
            (b'+', _) if plus => decoded.push(b' '),
            (b'%', [high, low, after @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => {
                    decoded.push(high << 4 | low);
                    rest = after;
                }
                _ => decoded.push(b'%'),
            },
            _ => decoded.push(byte),
        }
    }
    Cow::Owned(decoded)
}

/// Names and values as they stand, so that only what is looked for is decoded.
fn raw_pairs(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        let cut = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        (&pair[..cut], pair.get(cut + 1..).unwrap_or_default())
    })
}

fn decode(text: &[u8]) -> Cow<'_, [u8]> {
    unescape(text, true)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
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
        assert!(matches!(field(b"a=1&a=1", "a"), Field::Ambiguous));
        assert!(matches!(field(b"a=1", "b"), Field::Missing));
        assert!(matches!(field(b"a=%ff", "a"), Field::NotText));
        assert!(matches!(field(b"a=%41", "a"), Field::Text(text) if text == "A"));
    }

    #[test]
    fn encoding_reads_back() {
        let text = "a b&c=d+é/\"";
        assert!(matches!(field(format!("x={}", encode(text)).as_bytes(), "x"), Field::Text(read) if read == text));
    }
}
