//! Quantities with a unit: `"1h30m"`, `"64KiB"`. Descriptions, config, command line and API read them here and nowhere else.
//! A bare number is none, because nobody can see whether it meant seconds or milliseconds.

use std::fmt::Write as _;
use std::time::Duration;

const DURATION_UNITS: [(&str, u64); 6] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];
const SIZE_UNITS: [(&str, u64); 7] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

/// Reads `"30s"`, `"500ms"`, `"14d"`, `"1h30m"`; units fall from left to right and stand once each.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (mut rest, mut total, mut previous) = (text, 0u64, u64::MAX);
    while !rest.is_empty() {
        let (number, after) = split_number(rest)?;
        let unit_end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, tail) = after.split_at(unit_end);
        let millis = lookup(&DURATION_UNITS, unit)?;
        if millis >= previous {
            return None;
        }
        total = total.checked_add(number.checked_mul(millis)?)?;
        (rest, previous) = (tail, millis);
    }
    (!text.is_empty()).then(|| Duration::from_millis(total))
}

/// Reads `"1MiB"`, `"64KiB"`, `"512B"`.
pub fn parse_size(text: &str) -> Option<usize> {
    let (number, unit) = split_number(text)?;
    let bytes = number.checked_mul(lookup(&SIZE_UNITS, unit)?)?;
    usize::try_from(bytes).ok()
}

/// Writes a duration the way [`parse_duration`] reads it.
pub fn show_duration(duration: Duration) -> String {
    let mut millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut shown = String::new();
    // Weeks are read but not written: people compare "14d" with "30d" more easily.
    for (unit, size) in DURATION_UNITS[..5].iter().rev() {
        if millis >= *size {
            let _ = write!(shown, "{}{unit}", millis / size);
            millis %= size;
        }
    }
    if shown.is_empty() { "0s".to_owned() } else { shown }
}

/// Writes a size the way [`parse_size`] reads it.
pub fn show_size(bytes: usize) -> String {
    let fits = |unit: usize| bytes >= unit && bytes.is_multiple_of(unit);
    match bytes {
        _ if fits(1 << 30) => format!("{}GiB", bytes >> 30),
        _ if fits(1 << 20) => format!("{}MiB", bytes >> 20),
        _ if fits(1 << 10) => format!("{}KiB", bytes >> 10),
        _ => format!("{bytes}B"),
    }
}

fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}

fn lookup(units: &[(&str, u64)], wanted: &str) -> Option<u64> {
    units.iter().find(|(unit, _)| *unit == wanted).map(|(_, size)| *size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in [
            ("30s", Some(30_000)),
            ("500ms", Some(500)),
            ("14d", Some(14 * 86_400_000)),
            ("1h30m", Some(5_400_000)),
            ("1m500ms", Some(60_500)),
            ("2w", Some(14 * 86_400_000)),
            ("0s", Some(0)),
            ("", None),
            ("30", None),
            ("s", None),
            ("1.5h", None),
            ("-1s", None),
            ("30m1h", None),
            ("1s1s", None),
            ("1 h", None),
            ("1S", None),
            ("99999999999999999999s", None),
            ("18446744073709551615w", None),
            ("1ü", None),
        ] {
            assert_eq!(parse_duration(text), millis.map(Duration::from_millis), "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("1MiB", Some(1 << 20)),
            ("64KiB", Some(65_536)),
            ("10kB", Some(10_000)),
            ("7B", Some(7)),
            ("1", None),
            ("MiB", None),
            ("1mib", None),
            ("99999999999GiB", None),
            ("", None),
        ] {
            assert_eq!(parse_size(text), bytes, "{text}");
        }
    }

    #[test]
    fn what_is_shown_can_be_read() {
        for text in ["30s", "1h30m", "14d", "500ms", "1d1ms", "0s"] {
            assert_eq!(parse_duration(text).map(show_duration).as_deref(), Some(text));
        }
        for text in ["64KiB", "1MiB", "3GiB", "7B", "0B"] {
            assert_eq!(parse_size(text).map(show_size).as_deref(), Some(text));
        }
    }
}
