//! What order asks of a payload: the key that events share, the version they carry, the change they mean. Pure.
//!
//! Values are read by JSON pointer and hashed to a fixed size, so that no sender can make an index entry too long. An
//! event whose payload does not have the value is not ordered: it runs like one of a handler without order.

mod revision;

use crate::event::Mark;
use oncebox_verify::BodyPointer;
pub use revision::Revision;

/// The key that events of one object share.
pub fn order_key(value: &str) -> Mark {
    Mark::of_parts(b"order", &[value.as_bytes()])
}

/// The key of what is finer than a version of an object.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn finer_key(key: Mark, version: i64) -> Mark {
    Mark::of_parts(b"finer", &[key.as_bytes(), &version.to_be_bytes()])
}

/// The mark of a business change: the same for the same values of the same fields.
pub fn change_mark(handler: &str, fields: &[BodyPointer], body: &[u8]) -> Option<Mark> {
    let values: Vec<String> = fields.iter().map(|field| field.read(body)).collect::<Option<_>>()?;
    let parts = std::iter::once(handler).chain(values.iter().map(String::as_str)).map(str::as_bytes);
    Some(Mark::of_parts(b"change", &parts.collect::<Vec<_>>()))
}

/// The mark of a prerequisite: an event of a type about an object, done by a handler.
pub fn prerequisite_mark(handler: &str, event_type: &str, value: &str) -> Mark {
    Mark::of_parts(b"prerequisite", &[handler.as_bytes(), event_type.as_bytes(), value.as_bytes()])
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
            ("", None),
            ("v2", None),
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2024-11-15T19:46:40Z", Some(1_731_700_000_000_000)),
            ("2024-11-15T20:46:40+01:00", Some(1_731_700_000_000_000)),
            ("2024-11-15 19:46:40.5Z", Some(1_731_700_000_500_000)),
            ("2024-02-29T00:00:00Z", Some(1_709_164_800_000_000)),
            ("2024-11-15T19:46:40", Some(1_731_700_000_000_000)),
            ("2024-11-15 19:46:40", Some(1_731_700_000_000_000)),
            ("2024-11-15", Some(1_731_628_800_000_000)),
            ("2024-11-15T", None),
            ("2024-11-5", None),
            ("2024-13-15T19:46:40Z", None),
            ("2024-11-15T19:46:40+1:00", None),
        ] {
            assert_eq!(Revision::parse(text), expected.map(Revision::from), "{text}");
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
            let _ = Revision::parse(&text);
            let _ = Revision::parse(&format!("2024-11-15T{text}"));
        }
    }
}
