//! Signed timestamps, read in their one exact form and held against our clock.
//!
//! Strict on purpose: some schemes join time and body without a separator, and a loose reader would let bytes move from
//! one to the other. The window is inclusive both ways and counted in whole seconds for senders that write seconds.

use crate::clock::UnixMillis;
use crate::verdict::{Reason, Rejection, Step};

/// How a sender writes the time.
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

/// How far a signed time may be from ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Seconds into the past.
    pub(crate) past: i64,
    /// Seconds into the future.
    pub(crate) future: i64,
}

impl Unit {
    /// Reads a timestamp; none unless it has exactly this unit's form.
    pub(crate) fn parse(self, text: &str) -> Option<UnixMillis> {
        match self {
            Self::Seconds => digits(text, 10).map(|seconds| seconds * 1000),
            Self::Millis => digits(text, 13),
            Self::Rfc3339 => rfc3339(text.as_bytes()),
        }
    }

    /// Reads a timestamp of whatever unit its form gives away.
    pub(crate) fn guess(text: &str) -> Option<UnixMillis> {
        [Self::Seconds, Self::Millis, Self::Rfc3339].into_iter().find_map(|unit| unit.parse(text))
    }

    /// Writes a time as the sender would.
    pub(crate) fn format(self, time: UnixMillis) -> String {
        match self {
            Self::Seconds => format!("{:010}", time.div_euclid(1000)),
            Self::Millis => format!("{time:013}"),
            Self::Rfc3339 => format_rfc3339(time),
        }
    }

    /// Rejects a time outside the window.
    pub(crate) fn check(self, time: UnixMillis, now: UnixMillis, window: Window) -> Result<(), Rejection> {
        let (age, scale) = match self {
            Self::Seconds => (now.div_euclid(1000) - time.div_euclid(1000), 1),
            Self::Millis | Self::Rfc3339 => (now.saturating_sub(time), 1000),
        };
        let reject = |reason, off: i64| {
            let seconds = (off.saturating_add(scale - 1)).div_euclid(scale);
            Err(Rejection { step: Step::Window, reason, off_by_seconds: Some(seconds) })
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

fn rfc3339(text: &[u8]) -> Option<UnixMillis> {
    let (head, rest) = text.split_at_checked(19)?;
    let shape = b"dddd-dd-ddTdd:dd:dd";
    let fits = |(byte, shape): (&u8, &u8)| if *shape == b'd' { byte.is_ascii_digit() } else { byte == shape };
    if !head.iter().zip(shape).all(fits) {
        return None;
    }
    let number =
        |from: usize, to: usize| head[from..to].iter().fold(0_i64, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    let (month, day) = (number(5, 7), number(8, 10));
    let (hour, minute, second) = (number(11, 13), number(14, 16), number(17, 19));
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (millis, zone) = fraction(rest)?;
    let seconds = days(number(0, 4), month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset(zone)?;
    Some(seconds * 1000 + millis)
}

/// Milliseconds of `.123456789` and what follows it.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some(text) = text.strip_prefix(b".") else { return Some((0, text)) };
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let padded = text[..count].iter().copied().chain(std::iter::repeat(b'0')).take(3);
    let millis = padded.fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    (1..=9).contains(&count).then_some((millis, &text[count..]))
}

/// Seconds east of UTC.
fn offset(zone: &[u8]) -> Option<i64> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    match *zone {
        [b'Z'] => Some(0),
        [sign @ (b'+' | b'-'), a, b, b':', c, d] => {
            let seconds = (digit(a)? * 10 + digit(b)?) * 3600 + (digit(c)? * 10 + digit(d)?) * 60;
            Some(if sign == b'-' { -seconds } else { seconds })
        }
        _ => None,
    }
}

/// Days since 1970 of a Gregorian date; years start in March so that the leap day comes last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

fn format_rfc3339(time: UnixMillis) -> String {
    let (seconds, millis) = (time.div_euclid(1000), time.rem_euclid(1000));
    let (total_days, clock) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let mut year = 1970 + total_days.div_euclid(366);
    while days(year + 1, 1, 1) <= total_days {
        year += 1;
    }
    let month = (2..=12).take_while(|month| days(year, *month, 1) <= total_days).last().unwrap_or(1);
    let day = total_days - days(year, month, 1) + 1;
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
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
        for time in [0, 951_782_400_000, 1_709_164_800_999, 1_735_689_599_000, 4_102_444_800_000] {
            assert_eq!(Unit::Rfc3339.parse(&Unit::Rfc3339.format(time)), Some(time));
        }
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
