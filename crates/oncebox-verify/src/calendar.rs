//! Dates and times as people write them. The one place that uses a calendar's library, so that its types stay out of
//! the public interface.

use jiff::Timestamp;

use crate::UnixMillis;

/// A written time in its parts: `2026-11-15T08:00:00`, the digits behind a point if there is one, and the rest.
pub fn split(text: &str) -> Option<(&str, Option<&str>, &str)> {
    let (head, rest) = text.split_at_checked(19)?;
    let Some(rest) = rest.strip_prefix('.') else { return Some((head, None, rest)) };
    let (digits, zone) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
    Some((head, Some(digits), zone))
}

/// Seconds since 1970 of `2026-11-15T08:00:00` and `Z` or `+01:00`; none unless both have exactly these forms. A leap
/// second is the second after it.
pub fn seconds(head: &str, zone: &str) -> Option<i64> {
    let digit_or = |byte: u8, form: u8| if form == b'd' { byte.is_ascii_digit() } else { byte == form };
    let has = |text: &str, form: &str| {
        text.len() == form.len() && text.bytes().zip(form.bytes()).all(|(b, f)| digit_or(b, f))
    };
    if !has(head, "dddd-dd-ddTdd:dd:dd") || !["Z", "+dd:dd", "-dd:dd"].iter().any(|form| has(zone, form)) {
        return None;
    }
    let time: Timestamp = format!("{head}{zone}").parse().ok()?;
    Some(time.as_second() + i64::from(head.ends_with("60")))
}

/// Writes `2026-11-15T08:00:00.000Z`.
pub fn rfc3339(time: UnixMillis) -> String {
    Timestamp::from_millisecond(time).map_or_else(|_too_far| String::new(), |time| format!("{time:.3}"))
}

/// Writes `20261115`.
pub fn day(time: UnixMillis) -> String {
    Timestamp::from_millisecond(time).map_or_else(|_too_far| String::new(), |time| time.strftime("%Y%m%d").to_string())
}
