//! Signed timestamps, read in their one exact form and held against our clock.
//!
//! Strict on purpose: some schemes join time and body without a separator, and a loose reader would let bytes move from
//! one to the other. The window is inclusive both ways and counted in whole seconds for senders that write seconds.

use crate::verdict::{Reason, Rejection};
use crate::{UnixMillis, calendar};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Ten decimal digits.
    #[default]
    Seconds,
    /// Thirteen decimal digits.
    Millis,
    /// `2026-11-15T08:00:00Z`, with an optional fraction and offset.
    Rfc3339,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) past: i64,
    pub(crate) future: i64,
}

impl Unit {
    /// Reads a timestamp; none unless it has exactly this unit's form.
    pub(crate) fn parse(self, text: &str) -> Option<UnixMillis> {
        match self {
            Self::Seconds => digits(text, 10).map(|seconds| seconds * 1000),
            Self::Millis => digits(text, 13),
            Self::Rfc3339 => rfc3339(text),
        }
    }

    /// Reads a timestamp of whatever unit its form gives away.
    pub(crate) fn guess(text: &str) -> Option<UnixMillis> {
        [Self::Seconds, Self::Millis, Self::Rfc3339].into_iter().find_map(|unit| unit.parse(text))
    }

    pub(crate) fn format(self, time: UnixMillis) -> String {
        match self {
            Self::Seconds => format!("{:010}", time.div_euclid(1000)),
            Self::Millis => format!("{time:013}"),
            Self::Rfc3339 => calendar::rfc3339(time),
        }
    }

    pub(crate) fn check(self, time: UnixMillis, now: UnixMillis, window: Window) -> Result<(), Rejection> {
        let (age, scale) = match self {
            Self::Seconds => (now.div_euclid(1000) - time.div_euclid(1000), 1),
            Self::Millis | Self::Rfc3339 => (now.saturating_sub(time), 1000),
        };
        let reject = |reason, off: i64| {
            let seconds = (off.saturating_add(scale - 1)).div_euclid(scale);
            Err(Rejection { off_by_seconds: Some(seconds), ..Rejection::from(reason) })
        };
        if age > window.past.saturating_mul(scale) {
            reject(Reason::TooOld, age)
        } else if age.saturating_neg() > window.future.saturating_mul(scale) {
            reject(Reason::TooNew, age.saturating_neg())
        } else {
            Ok(())
        }
    }
}

fn digits(text: &str, count: usize) -> Option<i64> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn rfc3339(text: &str) -> Option<UnixMillis> {
    let (head, fraction, zone) = calendar::split(text)?;
    let millis = match fraction {
        None => 0,
        Some(digits) if (1..=9).contains(&digits.len()) => format!("{digits:0<3}").get(..3)?.parse().ok()?,
        Some(_) => return None,
    };
    Some(calendar::seconds(head, zone)? * 1000 + millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_form_is_a_timestamp() {
        assert_eq!(Unit::Seconds.parse("1731700000"), Some(1_731_700_000_000));
        assert_eq!(Unit::Millis.parse("1731700000123"), Some(1_731_700_000_123));
        for text in [
            "",
            "-1",
            "+1731700000",
            "-731700000",
            "1e9",
            "1.5",
            " 1731700000",
            "1731700000 ",
            "173170000",
            "1731700000000",
        ] {
            assert_eq!(Unit::Seconds.parse(text), None, "{text}");
        }
        for text in ["17317000001731700000", "١٧٣١٧٠٠٠٠٠", "1731700000\n", "0x17317000"] {
            assert_eq!(Unit::Seconds.parse(text), None, "{text}");
        }
    }

    #[test]
    fn rfc3339_reads_and_writes() {
        assert_eq!(Unit::Rfc3339.parse("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(Unit::Rfc3339.parse("2024-11-15T19:46:40.123456789Z"), Some(1_731_700_000_123));
        assert_eq!(Unit::Rfc3339.parse("2024-11-15T21:46:40+02:00"), Some(1_731_700_000_000));
        for text in
            ["2024-11-15 19:46:40Z", "2024-11-15T19:46:40", "2024-13-15T19:46:40Z", "2024-11-15T19:46:40.Z", "x"]
        {
            assert_eq!(Unit::Rfc3339.parse(text), None, "{text}");
        }
        assert_eq!(Unit::Rfc3339.parse("2016-12-31T23:59:60Z"), Unit::Rfc3339.parse("2017-01-01T00:00:00Z"));
        for time in [0, 951_782_400_000, 1_709_164_800_999, 1_735_689_599_000, 4_102_444_800_000] {
            assert_eq!(Unit::Rfc3339.parse(&Unit::Rfc3339.format(time)), Some(time));
        }
    }

    #[test]
    fn a_day_that_no_calendar_has_is_no_timestamp() {
        for text in
            ["2024-02-30T00:00:00Z", "2023-02-29T00:00:00Z", "2024-11-31T00:00:00Z", "2024-11-15T00:00:00+99:99"]
        {
            assert_eq!(Unit::Rfc3339.parse(text), None, "{text}");
        }
        assert!(Unit::Rfc3339.parse("2024-02-29T00:00:00Z").is_some());
    }

    #[test]
    fn the_window_includes_its_edges() {
        let window = Window { past: 300, future: 300 };
        let check = |age: i64| {
            let now = 1_731_700_000_000;
            Unit::Seconds.check(now - age * 1000, now, window).err().map(|no| (no.reason, no.off_by_seconds))
        };
        assert_eq!(check(300), None);
        assert_eq!(check(-300), None);
        assert_eq!(check(301), Some((Reason::TooOld, Some(301))));
        assert_eq!(check(-301), Some((Reason::TooNew, Some(301))));
    }
}
