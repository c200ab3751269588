//! A point in time as a person names it. Commands, API and dashboard read it here and nowhere else.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use oncebox::gateway::clock::UnixMillis;
use serde::{Serialize, Serializer};

use crate::config::units::{parse_duration, show_duration};

/// What to write where a text was none.
pub(crate) const CURE: &str =
    "write how long ago such as 90m, 7d or 1h30m, a time such as 2026-01-31T12:00:00Z, or a date such as 2026-01-31";

/// The length of `2026-01-31`.
const DATE_CHARS: usize = 10;

/// A point in time as a person names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// So long before now.
    Ago(Duration),
    /// Exactly then.
    At(Timestamp),
}

impl When {
    /// Reads an age, an RFC 3339 time, or a plain date, whose first moment in UTC is meant.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(age) = parse_duration(text) {
            return Some(Self::Ago(age));
        }
        // A date's own reader takes a time of day with it and drops it.
        if text.len() == DATE_CHARS {
            let midnight = text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok()?;
            return Some(Self::At(midnight.timestamp()));
        }
        text.parse().ok().map(Self::At)
    }

    /// The moment that is meant by whoever says it now.
    pub(crate) fn moment(self, now: UnixMillis) -> UnixMillis {
        match self {
            Self::Ago(age) => now.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX)),
            Self::At(time) => time.as_millisecond(),
        }
    }
}

impl Serialize for When {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ago(age) => f.write_str(&show_duration(*age)),
            Self::At(time) => time.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_in_time() {
        const NOW: UnixMillis = 1_763_208_000_000; // 2025-11-15T12:00:00Z
        const HOUR: UnixMillis = 3_600_000;
        for (text, expected) in [
            ("500ms", Some(NOW - 500)),
            ("90s", Some(NOW - 90_000)),
            ("15m", Some(NOW - HOUR / 4)),
            ("24h", Some(NOW - 24 * HOUR)),
            ("1d", Some(NOW - 24 * HOUR)),
            ("7d", Some(NOW - 7 * 24 * HOUR)),
            ("2w", Some(NOW - 14 * 24 * HOUR)),
            ("1h30m", Some(NOW - HOUR * 3 / 2)),
            ("1w2d3h4m5s6ms", Some(NOW - 9 * 24 * HOUR - 3 * HOUR - 245_006)),
            ("0s", Some(NOW)),
            ("2025-11-15T12:00:00Z", Some(NOW)),
            ("2025-11-15T13:00:00+01:00", Some(NOW)),
            ("2025-11-15T12:00:00.250Z", Some(NOW + 250)),
            ("2025-11-15", Some(NOW - 12 * HOUR)),
            ("2025-02-30", None),
            ("2025-11-15T12:00", None),
            ("20251115", None),
            ("15.11.2025", None),
            ("yesterday", None),
            ("-1h", None),
            ("PT2H", None),
            ("2 h", None),
            ("2", None),
            ("", None),
        ] {
            let read = When::parse(text);
            assert_eq!(read.map(|when| when.moment(NOW)), expected, "{text}");
            let again = read.map(|when| When::parse(&when.to_string()));
            assert!(again.is_none_or(|again| again == read), "{text} is shown in another form than it is read");
        }
        let ages = When::parse("30000000000w").map(|when| when.moment(0));
        assert_eq!(ages, Some(-i64::MAX), "before all time, and no panic");
    }
}
