//! Reading a request's body: within the source's limit, the shared budget of bytes, and in time.
//!
//! A body that is not there after a moment is slow. Slow ones are few, and after a few seconds they keep a minimum rate.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::{Instant, timeout_at};

use crate::public::budget::{Share, Spent};

/// A body must be there after this.
const BODY_WAIT: Duration = Duration::from_secs(30);
/// After this a body is slow.
const PROMPT_WAIT: Duration = Duration::from_secs(2);
/// From here on a body keeps the minimum rate.
const RATE_FROM: Duration = Duration::from_secs(5);
/// The minimum rate, in bytes a second since the head.
const RATE_MIN: u64 = 1024;
/// How often a slow body is looked at.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// What the buffer of a body of unknown length begins with.
const FIRST_BUFFER: usize = 4 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    TooLarge,
    /// No bytes left in the budget.
    NoBudget,
    TooSlow,
    /// The client hung up or broke the protocol.
    Broken,
}

/// How a body comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Prompt,
    Slow,
    TooSlow,
}

/// The pace of a body of which so much came in so long.
fn pace(waited: Duration, length: usize) -> Pace {
    let is_below_rate = waited >= RATE_FROM && (length as u64) < waited.as_secs() * RATE_MIN;
    match waited {
        _ if waited >= BODY_WAIT || is_below_rate => Pace::TooSlow,
        _ if waited >= PROMPT_WAIT => Pace::Slow,
        _ => Pace::Prompt,
    }
}

/// When a body's pace is looked at next.
fn next_look(waited: Duration) -> Duration {
    if waited < PROMPT_WAIT { PROMPT_WAIT } else { waited + POLL_EVERY }
}

/// The length a request declares, before anything of it is read.
pub(crate) fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reads a body of at most `limit` bytes. The share must live as long as the bytes do.
pub(crate) async fn read(mut body: Incoming, limit: usize, share: &mut Share) -> Result<Bytes, BodyError> {
    let exact = body.size_hint().exact().map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    if let Some(length) = exact {
        if length > limit {
            return Err(BodyError::TooLarge);
        }
        share.expect(length)?;
    }
    let mut gathered = Gathered { expected: exact.unwrap_or(FIRST_BUFFER), ..Gathered::default() };
    let started = Instant::now();
    let mut look_at = started + next_look(Duration::ZERO);
    loop {
        let frame = timeout_at(look_at, body.frame()).await;
        if Instant::now() >= look_at {
            match pace(started.elapsed(), gathered.length) {
                // It may have come to its end just now.
                _ if matches!(frame, Ok(None)) => {}
                Pace::TooSlow => return Err(BodyError::TooSlow),
                Pace::Slow => share.slow_down().map_err(|Spent| BodyError::TooSlow)?,
                Pace::Prompt => {}
            }
            look_at = started + next_look(started.elapsed());
        }
        let Ok(frame) = frame else { continue };
        let Some(frame) = frame else { return Ok(gathered.into_bytes()) };
        let Ok(data) = frame.map_err(|_broken| BodyError::Broken)?.into_data() else { continue };
        if gathered.length + data.len() > limit {
            return Err(BodyError::TooLarge);
        }
        share.take(data.len())?;
        gathered.add(data);
    }
}

/// The pieces of a body. Most come in one, which needs no copy.
#[derive(Debug, Default)]
struct Gathered {
    first: Bytes,
    joined: Option<BytesMut>,
    length: usize,
    expected: usize,
}

impl Gathered {
    fn add(&mut self, data: Bytes) {
        self.length += data.len();
        match &mut self.joined {
            None if self.first.is_empty() => self.first = data,
            None => {
                let mut joined = BytesMut::with_capacity(self.expected.max(self.length));
                joined.extend_from_slice(&self.first);
                joined.extend_from_slice(&data);
                self.joined = Some(joined);
            }
            Some(joined) => joined.extend_from_slice(&data),
        }
    }

    fn into_bytes(self) -> Bytes {
        self.joined.map_or(self.first, BytesMut::freeze)
    }
}

impl From<Spent> for BodyError {
    fn from(Spent: Spent) -> Self {
        Self::NoBudget
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_body_keeps_a_minimum_rate() {
        let check = |millis: u64, length: usize, expected: Pace| {
            assert_eq!(pace(Duration::from_millis(millis), length), expected, "{length} bytes in {millis} ms");
        };
        check(0, 0, Pace::Prompt);
        check(1_999, 0, Pace::Prompt);
        check(2_000, 0, Pace::Slow);
        check(4_999, 0, Pace::Slow);
        check(5_000, 5 * 1024 - 1, Pace::TooSlow);
        check(5_000, 5 * 1024, Pace::Slow);
        check(29_000, 29 * 1024, Pace::Slow);
        check(30_000, 1 << 30, Pace::TooSlow);
    }
}
