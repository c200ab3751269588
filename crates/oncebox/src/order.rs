//! What order asks of a payload: the key that events share, the version they carry, the change they mean. Pure.
//!
//! Values are read by JSON pointer and hashed to a fixed size, so that no sender can make an index entry too long. An
//! event whose payload does not have the value is not ordered: it runs like one of a handler without order.

use crate::event::EventKey;
use crate::provider::json::{Hit, Pointer, Scalar, Wanted, scalar};

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
        let wanted = Wanted::new([&self.0]);
        let hits = wanted.find(body).ok()?;
        match wanted.hit(&hits, &self.0) {
            Hit::Raw(raw) => match scalar(raw) {
                Scalar::Text(text) => Some(text.into_owned()),
                Scalar::Null | Scalar::Other => None,
            },
            Hit::Missing | Hit::Ambiguous => None,
        }
    }

    /// The version at the pointer: a whole number, or a time such as `2024-11-15T19:46:40.5Z`, in microseconds.
    pub fn read_version(&self, body: &[u8]) -> Option<i64> {
        version(&self.read(body)?)
    }
}

/// Reads a version.
pub fn version(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| time_micros(text))
}

/// The key that events of one object share.
pub fn order_key(value: &str) -> EventKey {
    EventKey::of_parts(b"order", &[value.as_bytes()])
}

/// The mark of a business change: the same for the same values of the same fields.
pub fn change_mark(handler: &str, fields: &[BodyPointer], body: &[u8]) -> Option<EventKey> {
    let values: Vec<String> = fields.iter().map(|field| field.read(body)).collect::<Option<_>>()?;
    let parts = std::iter::once(handler).chain(values.iter().map(String::as_str)).map(str::as_bytes);
    Some(EventKey::of_parts(b"change", &parts.collect::<Vec<_>>()))
}

/// The mark of a prerequisite: an event of a type about an object, done by a handler.
pub fn prerequisite_mark(handler: &str, event_type: &str, value: &str) -> EventKey {
    EventKey::of_parts(b"prerequisite", &[handler.as_bytes(), event_type.as_bytes(), value.as_bytes()])
}

/// RFC 3339 in microseconds since 1970; finer digits are cut.
fn time_micros(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let form = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    if bytes.len() < 20 || !text.is_ascii() || form.iter().any(|(at, byte)| bytes[*at] != *byte) {
        return None;
    }
    if !matches!(bytes[10], b'T' | b't' | b' ') {
        return None;
    }
    let digits = |from: usize, to: usize| -> Option<i64> {
        let part = &text[from..to];
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
    };
    let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
    let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
    let rest = &text[19..];
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count()),
        None => ("", rest),
    };
    let micros: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    let offset = zone_seconds(zone)?;
    let in_range = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    in_range.then_some(seconds * 1_000_000 + micros)
}

fn zone_seconds(zone: &str) -> Option<i64> {
    let bytes = zone.as_bytes();
    match bytes {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] if [h1, h2, m1, m2].iter().all(|byte| byte.is_ascii_digit()) => {
            let digit = |byte: &u8| i64::from(byte - b'0');
            let seconds = (digit(h1) * 10 + digit(h2)) * 3600 + (digit(m1) * 10 + digit(m2)) * 60;
            Some(if *sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}

/// Days of the Gregorian calendar, counted from March so that leap days come last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn versions() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-3", Some(-3)),
            ("1731700000", Some(1_731_700_000)),
            ("9223372036854775808", None),
            ("1.5", None),
            ("", None),
            ("v2", None),
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2024-11-15T19:46:40Z", Some(1_731_700_000_000_000)),
            ("2024-11-15T19:46:40.123456789Z", Some(1_731_700_000_123_456)),
            ("2024-11-15T20:46:40+01:00", Some(1_731_700_000_000_000)),
            ("2024-11-15 19:46:40.5Z", Some(1_731_700_000_500_000)),
            ("2024-02-29T00:00:00Z", Some(1_709_164_800_000_000)),
            ("2024-11-15T19:46:40", None),
            ("2024-13-15T19:46:40Z", None),
            ("2024-11-15T19:46:40+1:00", None),
        ] {
            assert_eq!(version(text), expected, "{text}");
        }
    }

    #[test]
    fn values_are_read_or_not_there() {
        let pointer = BodyPointer::parse("/data/id").expect("a pointer");
        for (body, expected) in [
            (r#"{"data":{"id":"sub_1"}}"#, Some("sub_1")),
            (r#"{"data":{"id":42}}"#, Some("42")),
            (r#"{"data":{"id":null}}"#, None),
            (r#"{"data":{"id":"a","id":"b"}}"#, None),
            (r#"{"data":{}}"#, None),
            ("not json", None),
            ("\u{0}", None),
        ] {
            assert_eq!(pointer.read(body.as_bytes()).as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn marks_differ_by_every_part() {
        let fields = ["/a", "/b"].map(|text| BodyPointer::parse(text).expect("a pointer"));
        let mark = |handler, body: &str| change_mark(handler, &fields, body.as_bytes());
        let first = mark("h", r#"{"a":"x","b":"y"}"#);
        assert!(first.is_some());
        assert_eq!(first, mark("h", r#"{"b":"y","a":"x","c":1}"#));
        for (handler, body) in [("g", r#"{"a":"x","b":"y"}"#), ("h", r#"{"a":"xy","b":""}"#), ("h", r#"{"a":"x"}"#)] {
            assert_ne!(first, mark(handler, body), "{handler} {body}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = version(&text);
            let _ = version(&format!("2024-11-15T{text}"));
        }
    }
}
