//! The trace that a webhook belongs to: W3C `traceparent`, read strictly, kept with the event, carried to every call that
//! is made because of it.
//!
//! Spans of ours share one target, [`TARGET`], so that a program can send them to its tracing system and keep them out of
//! its log. While nobody listens they cost next to nothing.

use std::fmt;

use data_encoding::HEXLOWER;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The target of our spans.
pub const TARGET: &str = "oncebox::trace";
/// The header that names a trace.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// What tracing systems add to it; worth nothing without it.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Bytes of a `traceparent` of the version that we write.
const LEN: usize = 55;
const STORED: &[u8] = b"traceparent: ";
/// How far one has to read into stored headers to find it: it stands first.
#[cfg(test)]
pub(crate) const STORED_LEN: usize = STORED.len() + LEN;

/// A place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traceparent {
    /// The trace.
    pub trace_id: [u8; 16],
    /// Whoever calls.
    pub span_id: [u8; 8],
    /// Bit 0: the caller keeps this trace.
    pub flags: u8,
}

/// Knows the span of whoever is about to make a call, so that the call carries it.
pub trait SpanSource: fmt::Debug + Send + Sync {
    /// The current span; none where nothing is traced.
    fn traceparent(&self) -> Option<Traceparent>;
}

impl Traceparent {
    /// Reads the text; none unless it is exactly as the W3C has it. Later versions may go on behind what we know.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (known, rest) = text.split_at_checked(LEN)?;
        let [version, trace_id, span_id, flags] = fields(known)?;
        let version = hex::<1>(version)?[0];
        if version == 0xff || (version == 0 && !rest.is_empty()) || rest.first().is_some_and(|byte| *byte != b'-') {
            return None;
        }
        let found = Self { trace_id: hex(trace_id)?, span_id: hex(span_id)?, flags: hex::<1>(flags)?[0] };
        (found.trace_id != [0; 16] && found.span_id != [0; 8]).then_some(found)
    }

    /// The one that a request brings; none where it brings none, a wrong one, or several.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let mut lines = headers.get_all(TRACEPARENT).iter();
        let only = lines.next().filter(|_| lines.next().is_none())?;
        Self::parse(only.as_bytes())
    }

    /// The one in stored headers, or in their first bytes.
    pub fn stored(lines: &[u8]) -> Option<Self> {
        Self::parse(lines.strip_prefix(STORED)?.get(..LEN)?)
    }

    /// The line that stands first in stored headers.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn line(&self) -> String {
        format!("{TRACEPARENT}: {self}\n")
    }

    /// Puts it in place of whatever stands there.
    pub fn set(&self, headers: &mut HeaderMap) {
        if let Ok(value) = HeaderValue::from_str(&self.to_string()) {
            headers.insert(TRACEPARENT, value);
        }
    }
}

impl fmt::Display for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace_id, span_id) = (HEXLOWER.encode(&self.trace_id), HEXLOWER.encode(&self.span_id));
        write!(f, "00-{trace_id}-{span_id}-{:02x}", self.flags)
    }
}

/// Takes out what names no trace, so that nobody downstream has to judge it again.
#[cfg(any(test, feature = "http"))]
pub(crate) fn keep_valid(headers: &mut HeaderMap) {
    if Traceparent::of(headers).is_none() {
        headers.remove(TRACEPARENT);
        headers.remove(TRACESTATE);
    }
}

fn fields(text: &[u8]) -> Option<[&[u8]; 4]> {
    let parts: Vec<&[u8]> = text.split(|byte| *byte == b'-').collect();
    parts.try_into().ok()
}

/// Lower-case hex of exactly so many bytes.
fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    HEXLOWER.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn check(text: &str, expected: Option<&str>) {
        let found = Traceparent::parse(text.as_bytes()).map(|found| found.to_string());
        assert_eq!(found.as_deref(), expected, "{text:?}");
    }

    #[test]
    fn only_the_exact_form_is_read() {
        check(GOOD, Some(GOOD));
        check("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", Some(&GOOD.replace("-01", "-00")));
        // A later version may say more; we say what we know.
        check(&format!("cc{}-more", &GOOD[2..]), Some(GOOD));
        for wrong in [
            "",
            &GOOD[..54],
            &format!("{GOOD}-more"),
            &format!("cc{}more", &GOOD[2..]),
            &format!("ff{}", &GOOD[2..]),
            &GOOD.to_uppercase(),
            &GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &GOOD.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &GOOD.replace('-', "_"),
            &GOOD.replace("4bf9", "-bf9"),
            &GOOD.replace("4bf9", "xbf9"),
            &format!(" {GOOD}"),
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn one_line_of_a_request_counts_and_two_do_not() {
        let mut headers = HeaderMap::new();
        assert_eq!(Traceparent::of(&headers), None);
        headers.append(TRACEPARENT, HeaderValue::from_static(GOOD));
        assert_eq!(Traceparent::of(&headers).map(|found| found.to_string()).as_deref(), Some(GOOD));
        headers.append(TRACEPARENT, HeaderValue::from_static(GOOD));
        headers.append(TRACESTATE, HeaderValue::from_static("a=b"));
        assert_eq!(Traceparent::of(&headers), None);
        keep_valid(&mut headers);
        assert!(headers.is_empty(), "{headers:?}");
    }

    #[test]
    fn what_was_stored_is_found_in_the_first_bytes() {
        let one = Traceparent::parse(GOOD.as_bytes()).expect("a traceparent");
        let stored = format!("{}content-type: application/json\n", one.line());
        assert_eq!(Traceparent::stored(stored.as_bytes()), Some(one));
        assert_eq!(Traceparent::stored(&stored.as_bytes()[..STORED_LEN]), Some(one));
        assert_eq!(Traceparent::stored(b"content-type: text/plain\n"), None);
        assert_eq!(Traceparent::stored(b""), None);
    }
}
