//! Values with a form of their own: addresses, durations, sizes, points in time, settings.

use std::net::SocketAddr;
use std::time::Duration;

use jiff::Timestamp;
use oncebox::secret::Secret;

use crate::config::server::parse_listen;
use crate::config::units::{parse_duration, parse_size};

/// A point in time as a person names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// So long before now.
    Ago(Duration),
    /// Exactly then.
    At(Timestamp),
}

/// `--set name=value`, where the value may be a secret.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// The setting's name.
    pub(crate) name: String,
    /// Its value.
    pub(crate) value: Secret,
}

/// Reads an address to listen on.
pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
    parse_listen(text).ok_or_else(|| "write an address and port such as 127.0.0.1:8080".to_owned())
}

/// Reads a duration.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "write a duration such as 30s, 10m or 1h30m".to_owned())
}

/// Reads a size.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    parse_size(text).ok_or_else(|| "write a size such as 512B, 64KiB or 1MiB".to_owned())
}

/// Reads a number of things: `20000`, `10k`, `10M`.
pub(crate) fn amount(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => text.strip_suffix(['m', 'M']).map_or((text, 1), |digits| (digits, 1_000_000)),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    number.filter(|number| *number <= AMOUNT_MAX).ok_or_else(|| "write a number such as 20000, 10k or 10M".to_owned())
}

/// More events than any machine of ours holds.
const AMOUNT_MAX: u64 = 100_000_000_000;

/// Reads `10m` (ago) or `2026-11-15T12:00:00Z`.
pub(crate) fn when(text: &str) -> Result<When, String> {
    let ago = parse_duration(text).map(When::Ago);
    ago.or_else(|| text.parse().ok().map(When::At))
        .ok_or_else(|| "write a time such as 2026-11-15T12:00:00Z, or how long ago such as 10m".to_owned())
}

/// Reads a share from 0.0 to 1.0.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "write a share from 0.0 to 1.0".to_owned())
}

/// Reads `name=value`.
pub(crate) fn setting(text: &str) -> Result<Setting, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok(Setting { name: name.to_owned(), value: Secret::new(value) }),
        _ => Err("write name=value".to_owned()),
    }
}
