//! What a target's answer means: 2xx is success and nothing else is; the target may say when to come back.

use std::time::{Duration, UNIX_EPOCH};

use http::header::{HeaderMap, RETRY_AFTER};

use crate::circuit::Reached;
use crate::clock::UnixMillis;
use crate::retry::RETRY_AFTER_MAX;

/// What a target's answer means to an `http` handler, which tries again after every failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It took the event.
    Done,
    /// It did not.
    Failed {
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
        /// What that says about the target itself.
        reached: Reached,
    },
}

/// Judges an answer by its status and headers.
pub fn judge(status: u16, headers: &HeaderMap, now: UnixMillis) -> Answered {
    match status {
        200..=299 => Answered::Done,
        // What proxies say for a target that is not there, and what a target says when it wants to be left alone.
        429 | 502..=504 => Answered::Failed { retry_after: retry_after(headers, now), reached: Reached::No },
        _ => Answered::Failed { retry_after: retry_after(headers, now), reached: Reached::Yes },
    }
}

/// The pause that `Retry-After` asks for, in seconds or as a date, at most a day; what cannot be read asks for nothing.
pub fn retry_after(headers: &HeaderMap, now: UnixMillis) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let pause = if is_number {
        // Too many digits for a number are a long time all the same.
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let date = httpdate::parse_http_date(text).ok()?;
        let now = Duration::from_millis(now.max(0).unsigned_abs());
        date.duration_since(UNIX_EPOCH).ok()?.saturating_sub(now)
    };
    Some(pause.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2024-11-15T19:46:40Z.
    const NOW: i64 = 1_731_700_000_000;

    fn check(text: &str, expected: Option<u64>) {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, text.parse().expect("a header"));
        assert_eq!(retry_after(&headers, NOW), expected.map(Duration::from_secs), "{text}");
    }

    #[test]
    fn wishes() {
        check("0", Some(0));
        check(" 120 ", Some(120));
        check("999999999999", Some(86_400));
        check("99999999999999999999999999", Some(86_400));
        check("Fri, 15 Nov 2024 19:47:40 GMT", Some(60));
        check("Fri, 15 Nov 2024 19:40:00 GMT", Some(0));
        check("Fri, 31 Dec 9999 23:59:59 GMT", Some(86_400));
        for garbage in ["", "-1", "+5", "1.5", "soon", "Fri, 15 Nov 2024", "1e3"] {
            check(garbage, None);
        }
        assert_eq!(retry_after(&HeaderMap::new(), NOW), None);
    }

    #[test]
    fn statuses() {
        let none = HeaderMap::new();
        for status in 100..600 {
            let answered = judge(status, &none, NOW);
            assert_eq!(answered == Answered::Done, (200..300).contains(&status), "{status}");
        }
        for (status, reached) in [(301, Reached::Yes), (400, Reached::Yes), (500, Reached::Yes), (503, Reached::No)] {
            assert_eq!(judge(status, &none, NOW), Answered::Failed { retry_after: None, reached }, "{status}");
        }
    }

    proptest! {
        #[test]
        fn no_wish_is_longer_than_a_day(bytes in "[ -~]{0,40}", now: i64) {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, bytes.parse().expect("a header"));
            prop_assert!(retry_after(&headers, now).is_none_or(|pause| pause <= RETRY_AFTER_MAX));
        }
    }
}
