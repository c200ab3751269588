//! What a target's answer means: 2xx is success and nothing else is; the target may say when to come back.

use std::time::{Duration, UNIX_EPOCH};

use http::StatusCode;
use http::header::{HeaderMap, RETRY_AFTER};

use crate::clock::UnixMillis;
use crate::delivery::Failed;
use crate::delivery::retry::RETRY_AFTER_MAX;
use crate::lane::circuit::Reached;
use crate::outgoing::CallError;

const SHOWN_MAX: usize = 300;

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

/// What a destination's answer means to an outbox message; none when it took it. Most of 4xx says that the message is
/// wrong and will be for ever, unless the destination is known to mean something else by it.
pub fn judge_message(status: u16, headers: &HeaderMap, retry_on: &[u16], now: UnixMillis) -> Option<(Failed, Reached)> {
    let Answered::Failed { retry_after, reached } = judge(status, headers, now) else { return None };
    let is_final = (400..500).contains(&status) && !RETRIED.contains(&status) && !retry_on.contains(&status);
    Some((if is_final { Failed::Permanent } else { Failed::Transient { retry_after } }, reached))
}

/// What no answer at all says about a target. A certificate or an address that we refuse is the operator's to change; the
/// target may be there.
pub fn reached_without_answer(error: &CallError) -> Reached {
    if matches!(error, CallError::Blocked | CallError::Untrusted) { Reached::Yes } else { Reached::No }
}

/// A refusal in one line for people, with the first bytes of what was said about it.
pub fn refusal(status: StatusCode, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN_MAX)]);
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.trim();
    if line.is_empty() { format!("answered {status}") } else { format!("answered {status}: {line}") }
}

/// Refusals that pass: too slow, in conflict with something under way, too early, too many.
const RETRIED: [u16; 4] = [408, 409, 425, 429];

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

    #[test]
    fn messages() {
        let mut asked = HeaderMap::new();
        asked.insert(RETRY_AFTER, "999999999999".parse().expect("a header"));
        let (again, later) =
            (Failed::Transient { retry_after: None }, Failed::Transient { retry_after: Some(RETRY_AFTER_MAX) });
        for status in 100..600 {
            let failed = judge_message(status, &HeaderMap::new(), &[404], NOW).map(|(failed, _)| failed);
            let expected = match status {
                200..=299 => None,
                404 | 408 | 409 | 425 | 429 => Some(again),
                400..=499 => Some(Failed::Permanent),
                _ => Some(again),
            };
            assert_eq!(failed, expected, "{status}");
        }
        assert_eq!(judge_message(503, &asked, &[], NOW), Some((later, Reached::No)));
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
