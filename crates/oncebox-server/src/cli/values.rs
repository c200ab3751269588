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
