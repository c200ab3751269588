//! Values with a form of their own: addresses, durations, sizes, points in time, settings.

use std::net::SocketAddr;
use std::time::Duration;

use oncebox_verify::Secret;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::config::server::parse_listen;
use crate::config::units::{parse_duration, parse_size};
use crate::when::{CURE, When};

/// `--set name=value`, where the value may be a secret.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) name: String,
    pub(crate) value: Secret,
}

pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
    parse_listen(text).ok_or_else(|| "write an address and port such as 127.0.0.1:8080".to_owned())
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "write a duration such as 30s, 10m or 1h30m".to_owned())
}

pub(crate) fn size(text: &str) -> Result<usize, String> {
    parse_size(text).ok_or_else(|| "write a size such as 512B, 64KiB or 1MiB".to_owned())
}

/// Reads what to log: a level, or `target=level`, several with commas. A word that is neither would silence everything.
pub(crate) fn log_filter(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Ok(LOG_DEFAULT.to_owned());
    }
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    for directive in text.split(',').map(str::trim) {
        let known = match directive.rsplit_once('=') {
            Some((target, level)) => !target.is_empty() && is_level(level),
            None => is_level(directive),
        };
        if !known {
            return Err(format!("{directive:?} is not a level; {LOG_CURE}"));
        }
    }
    EnvFilter::try_new(text).map_err(|_unreadable| format!("this is no filter; {LOG_CURE}"))?;
    Ok(text.to_owned())
}

/// What is logged where nobody says otherwise.
pub(crate) const LOG_DEFAULT: &str = "info";
const LOG_CURE: &str = "use error, warn, info, debug or trace, or oncebox=debug";

pub(crate) fn when(text: &str) -> Result<When, String> {
    When::parse(text).ok_or_else(|| CURE.to_owned())
}

/// Reads a share from 0.0 to 1.0.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "write a share from 0.0 to 1.0".to_owned())
}

pub(crate) fn setting(text: &str) -> Result<Setting, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok(Setting { name: name.to_owned(), value: Secret::new(value) }),
        _ => Err("write name=value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_filters() {
        for text in ["info", "WARN", "off", "info,oncebox=debug", "oncebox::store=trace, warn", "oncebox[ingest]=info"]
        {
            assert_eq!(log_filter(text).as_deref(), Ok(text));
        }
        assert_eq!(log_filter(" ").as_deref(), Ok("info"));
        for (text, word) in [
            ("warning", "\"warning\""),
            ("bogus=,=", "\"bogus=\""),
            ("info,", "\"\""),
            ("info,=debug", "\"=debug\""),
            ("oncebox", "\"oncebox\""),
            ("oncebox=loud", "\"oncebox=loud\""),
        ] {
            let refusal = log_filter(text).expect_err(text);
            assert!(refusal.starts_with(&format!("{word} is not a level; use error, warn,")), "{refusal}");
        }
    }
}
