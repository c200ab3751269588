//! A version as it is compared: whole numbers of any size, decimals, dates and times. Pure.
//!
//! A database keeps one number for what an object has applied. Whatever does not fit into it is told by further numbers,
//! each of which is looked at only where those before are equal.

use oncebox_verify::{BodyPointer, calendar};

/// The units of a fraction: 18 digits; finer ones are cut.
const FRACTION_DIGITS: usize = 18;
const FRACTION_UNITS: i64 = 1_000_000_000_000_000_000;
/// The most digits before the point. Two further numbers hold them.
const WHOLE_DIGITS_MAX: usize = 36;
/// More than any sender writes, so that no exponent makes work.
const TEXT_LENGTH_MAX: usize = 100;
const LIMB_BITS: u32 = 63;

/// A version that can be compared with others of its kind: numbers with numbers, times with times.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision {
    whole: i64,
    /// What the whole number does not tell; never negative, without zeros at the end.
    finer: Vec<i64>,
}

impl Revision {
    /// Reads a number (`7`, `5.5`, `1e20`), a date or a time (`2024-11-15T19:46:40.5Z`; without a zone it is UTC).
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(whole) = text.parse::<i64>() {
            return Some(whole.into());
        }
        let time = || time_micros(text).map(|(micros, finer)| Self::new(micros, vec![finer]));
        decimal(text).or_else(time)
    }

    /// The version at a place of a body: a number of any kind, a text that holds one, a date or a time.
    pub fn read(place: &BodyPointer, body: &[u8]) -> Option<Self> {
        Self::parse(&place.read_number(body)?)
    }

    /// The numbers to compare, one after the other; where one is not there, it is zero.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn levels(&self) -> impl Iterator<Item = i64> {
        std::iter::once(self.whole).chain(self.finer.iter().copied())
    }

    fn new(whole: i64, mut finer: Vec<i64>) -> Self {
        while finer.last() == Some(&0) {
            finer.pop();
        }
        Self { whole, finer }
    }
}

impl From<i64> for Revision {
    fn from(whole: i64) -> Self {
        Self { whole, finer: Vec::new() }
    }
}

/// A decimal number of at most 36 digits before the point.
fn decimal(text: &str) -> Option<Revision> {
    if text.len() > TEXT_LENGTH_MAX || !text.is_ascii() {
        return None;
    }
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(before) || !all_digits(after) {
        return None;
    }
    let written = format!("{before}{after}");
    let digits = written.trim_start_matches('0');
    let exponent: i64 = exponent.parse().ok().filter(|exponent: &i64| exponent.abs() < 1_000)?;
    let point = i64::try_from(before.len()).ok()? - i64::try_from(written.len() - digits.len()).ok()? + exponent;
    let (whole, fraction) = if digits.is_empty() { (0, 0) } else { split(digits, point)? };
    match (negative, fraction) {
        (false, _) => of_parts(whole, fraction),
        (true, 0) => of_parts(-whole, 0),
        // The whole number below, so that what is finer always adds.
        (true, _) => of_parts(-whole - 1, FRACTION_UNITS - fraction),
    }
}

/// What stands before a point, and 18 digits of what stands behind it. The first digit is not zero.
fn split(digits: &str, point: i64) -> Option<(i128, i64)> {
    let (before, zeros) = (usize::try_from(point).unwrap_or(0), usize::try_from(-point).unwrap_or(0));
    if before > WHOLE_DIGITS_MAX {
        return None;
    }
    let (whole, rest) = digits.split_at(before.min(digits.len()));
    let whole = format!("0{whole:0<before$}").parse().ok()?;
    let rest = format!("{}{rest:0<FRACTION_DIGITS$}", "0".repeat(zeros.min(FRACTION_DIGITS)));
    Some((whole, rest.get(..FRACTION_DIGITS)?.parse().ok()?))
}

/// Numbers beyond what one number holds stay at its end, and two more tell how far beyond.
fn of_parts(whole: i128, fraction: i64) -> Option<Revision> {
    let beyond = whole - i128::from(i64::MAX);
    if beyond < 0 {
        return Some(Revision::new(i64::try_from(whole).ok()?, vec![fraction]));
    }
    let limb = |value: i128| i64::try_from(value).ok();
    let finer = vec![limb(beyond >> LIMB_BITS)?, limb(beyond & i128::from(i64::MAX))?, fraction];
    Some(Revision::new(i64::MAX, finer))
}

/// A date or a time in microseconds since 1970, and what is finer; without a zone it is UTC.
fn time_micros(text: &str) -> Option<(i64, i64)> {
    if text.len() == 10 {
        return time_micros(&format!("{text}T00:00:00Z"));
    }
    let (head, fraction, zone) = calendar::split(text)?;
    let zone = if matches!(zone, "" | "z") { "Z" } else { zone };
    let seconds = calendar::seconds(&head.replacen(['t', ' '], "T", 1), zone)?;
    let fraction = format!("{:0<FRACTION_DIGITS$}", fraction.unwrap_or_default());
    let micros: i64 = fraction.get(..6)?.parse().ok()?;
    Some((seconds * 1_000_000 + micros, fraction.get(6..FRACTION_DIGITS)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_version_is_newer_than_the_one_before() {
        let risings: [&[&str]; 4] = [
            &["-9223372036854775808", "-7", "-5.5", "-5.25", "-5", "-0.5", "0", "0.000005", "5", "5.5", "6"],
            &["1355517523", "1355517523.000005", "1355517523.000006", "1731699999.5", "1731700000.0", "1.8e9"],
            &["9223372036854775806.5", "9223372036854775807", "9223372036854775807.5", "1e19", "10000000000000000001"],
            &["2026-01-01", "2026-01-01 00:00:01", "2026-01-01T00:00:01.000000001Z", "2026-01-01T00:00:01.000001Z"],
        ];
        for rising in risings {
            for pair in rising.windows(2) {
                let (older, newer) = (Revision::parse(pair[0]), Revision::parse(pair[1]));
                assert!(older.is_some() && older < newer, "{pair:?} {older:?} {newer:?}");
            }
        }
    }

    #[test]
    fn one_version_may_be_written_in_several_ways() {
        for (one, other) in [
            ("6", "6.0"),
            ("0", "-0.0"),
            ("100000", "1e5"),
            ("0.5", "5E-1"),
            ("-5.5", "-55e-1"),
            ("007", "7"),
            ("100000000000000000000", "1e20"),
            ("9223372036854775807", "9223372036854775807.0"),
            ("2026-01-02", "2026-01-02 00:00:00"),
            ("2026-01-02T00:00:00Z", "2026-01-02T01:00:00.000000000+01:00"),
        ] {
            assert!(Revision::parse(one).is_some(), "{one}");
            assert_eq!(Revision::parse(one), Revision::parse(other), "{one} {other}");
        }
    }

    #[test]
    fn a_day_that_no_calendar_has_is_no_version() {
        for text in ["2023-02-29", "2024-02-31", "2024-11-31T00:00:00Z", "2024-11-15T00:00:00+99:99"] {
            assert_eq!(Revision::parse(text), None, "{text}");
        }
        assert!(Revision::parse("2016-12-31T23:59:60.5Z") > Revision::parse("2016-12-31T23:59:59.9Z"));
        assert!(Revision::parse("2024-02-29t00:00:00.5z") > Revision::parse("2024-02-29"));
    }

    #[test]
    fn what_is_no_version() {
        for text in
            ["", "v2", "-", ".", "5.", ".5", "1e", "1e9999999999999999999", "1e37", "-1e20", "0x10", "1,5", "NaN"]
        {
            assert_eq!(Revision::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn numbers_compare_as_they_are(a in -1_000_000_i64..1_000_000, b in -1_000_000_i64..1_000_000) {
            let text = |n: i64| format!("{}{}.{:03}", if n < 0 { "-" } else { "" }, n.abs() / 1000, n.abs() % 1000);
            prop_assert_eq!(Revision::parse(&text(a)).cmp(&Revision::parse(&text(b))), a.cmp(&b));
        }

        #[test]
        fn great_numbers_compare_as_they_are(a in 0..10_i128.pow(36), b in 0..10_i128.pow(36)) {
            let read = |n: i128| Revision::parse(&n.to_string());
            prop_assert!(read(a).is_some());
            prop_assert_eq!(read(a).cmp(&read(b)), a.cmp(&b));
        }

        #[test]
        fn what_is_finer_only_adds(text in "-?[0-9]{1,30}(\\.[0-9]{1,30})?(e-?[0-9]{1,2})?") {
            let finer = Revision::parse(&text).map(|revision| revision.finer).unwrap_or_default();
            prop_assert!(finer.iter().all(|level| *level >= 0) && finer.last() != Some(&0));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}", number in "[-+0-9.eE]{0,40}") {
            let _ = (Revision::parse(&text), Revision::parse(&number));
        }
    }
}
