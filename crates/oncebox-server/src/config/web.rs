//! Pieces of HTTP in the config: URLs, header names, address ranges. URLs are never quoted: they may hold a password.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::Context as _;
use http::{HeaderMap, HeaderName, HeaderValue};
use oncebox::gateway::lane::rate::Rate;
use oncebox::gateway::outgoing::forward::SigningKey;
use oncebox::gateway::outgoing::{AddressRange, Outgoing, Policy, Settings, Target, TargetError};

use super::reader::{Item, Table};

/// Headers that we set ourselves, or that belong to the connection.
const RESERVED_HEADERS: [&str; 10] = [
    "connection",
    "content-length",
    "host",
    "idempotency-key",
    "oncebox-attempt",
    "transfer-encoding",
    "upgrade",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
];

/// Takes `url` and `allow` of something that we call.
pub(crate) fn target(table: &mut Table<'_>, cure: &str) -> (Option<Target>, Vec<AddressRange>) {
    let (url, allow) = (table.required("url", cure), allow(table));
    (url.and_then(|item| target_url(&item, &allow, "bodies")), allow)
}

/// A URL that we call; `what` is sent there, for the warning about plain text. An address that no attempt may reach is a
/// mistake; what a name resolves to is only known at the attempt.
pub(crate) fn target_url(item: &Item<'_>, allow: &[AddressRange], what: &str) -> Option<Target> {
    let target = checked_target(item)?;
    let policy = Policy::Operator { allow: allow.to_vec() };
    if let Some(address) = address_of(&target).filter(|address| !policy.admits(*address)) {
        item.problem(
            "leads to a link-local or cloud-metadata address, which is never called",
            format!("write another host, or allow = [\"{address}\"] beside it if that is meant"),
        );
    }
    warn_of_plain_text(item, &target, what);
    Some(target)
}

/// Warns where something goes to another machine without TLS.
pub(crate) fn warn_of_plain_text(item: &Item<'_>, target: &Target, what: &str) {
    let is_here = target.host() == "localhost" || address_of(target).is_some_and(|address| address.is_loopback());
    if target.uri().scheme_str() == Some("http") && !is_here {
        let path = &item.scope.path;
        item.scope.report.warn(format!("{path}: {what} go to another machine as plain text; use https"));
    }
}

fn address_of(target: &Target) -> Option<IpAddr> {
    target.host().trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// The URL under which senders reach us, without a slash at the end.
pub(crate) fn public_url(item: &Item<'_>) -> Option<String> {
    let target = checked_target(item)?;
    if target.uri().query().is_some() {
        item.problem("has a query", "write scheme, host and path alone, such as \"https://hooks.example.com\"");
        return None;
    }
    Some(target.uri().to_string().trim_end_matches('/').to_owned())
}

/// A client for what the operator named: it may reach what [`target_url`] lets pass.
pub(crate) fn client(allow: &[AddressRange]) -> anyhow::Result<Outgoing> {
    Outgoing::new(Settings::new(Policy::Operator { allow: allow.to_vec() })).context("cannot set up TLS")
}

/// Takes `rate = "50/s"`.
pub(crate) fn rate(table: &mut Table<'_>) -> Option<Rate> {
    table.take("rate")?.parsed(parse_rate, "a rate such as \"50/s\" or \"100/m\"")
}

/// Reads `"50/s"`, `"100/m"`, `"1000/h"`.
fn parse_rate(text: &str) -> Option<Rate> {
    let (number, unit) = text.split_once('/')?;
    let period = match unit {
        "s" => Duration::from_secs(1),
        "m" => Duration::from_secs(60),
        "h" => Duration::from_secs(3600),
        _ => return None,
    };
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let count = number.parse().ok().filter(|count| is_number && *count > 0)?;
    Some(Rate { count, period })
}

pub(crate) fn signing(table: &mut Table<'_>) -> Option<SigningKey> {
    table.secret("secret").as_ref().map(SigningKey::new)
}

/// Takes `headers = { name = "…" or secret }`.
pub(crate) fn headers(table: &mut Table<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, item) in table.section("headers").rest() {
        let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
            item.problem("is not a header name", "use letters, digits and dashes");
            continue;
        };
        if RESERVED_HEADERS.contains(&header.as_str()) {
            item.problem("is a header that we set ourselves", "remove it");
            continue;
        }
        let Some(value) = item.text_or_secret() else { continue };
        match HeaderValue::from_bytes(value.expose()) {
            Ok(mut value) => {
                value.set_sensitive(true);
                headers.insert(header, value);
            }
            Err(_) if value.expose().iter().any(|byte| matches!(byte, b'\r' | b'\n')) => {
                item.problem("holds a line break, which no header can carry", "write the value on one line");
            }
            Err(_) => item.problem("holds a control character, which no header can carry", "remove it"),
        }
    }
    headers
}

/// Takes `allow = ["169.254.0.0/16"]`.
pub(crate) fn allow(table: &mut Table<'_>) -> Vec<AddressRange> {
    ranges(table, "allow", "169.254.0.0/16")
}

pub(crate) fn ranges<'a>(table: &mut Table<'a>, key: &'a str, such_as: &str) -> Vec<AddressRange> {
    let list = table.take(key).and_then(|item| item.list()).unwrap_or_default();
    let form = format!("an address range such as \"{such_as}\"");
    list.iter().filter_map(|item| item.parsed(AddressRange::parse, &form)).collect()
}

/// Takes a list of host names, without scheme and port.
pub(crate) fn hosts<'a>(table: &mut Table<'a>, key: &'a str) -> Vec<String> {
    let list = table.take(key).and_then(|item| item.list()).unwrap_or_default();
    let name = |text: &str| {
        let fits = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-' | b'_');
        (!text.is_empty() && text.len() <= 253 && text.bytes().all(fits)).then(|| text.to_ascii_lowercase())
    };
    list.iter().filter_map(|item| item.parsed(name, "a host name such as \"oncebox.internal\"")).collect()
}

fn checked_target(item: &Item<'_>) -> Option<Target> {
    let form = "a URL such as \"https://example.com/hooks\"";
    let text = item.parsed(|text| Some(text.to_owned()), form)?;
    let (what, cure) = match Target::parse(&text) {
        Ok(_) if text.contains('#') => ("has a fragment", "remove the part behind #"),
        Ok(target) => return Some(target),
        Err(TargetError::Scheme) => ("is neither http nor https", "write https://…"),
        Err(TargetError::Credentials) => ("holds a user name or password", "send it as a header instead"),
        Err(TargetError::NotAUrl) => ("is not a URL", "write a URL such as \"https://example.com/hooks\""),
    };
    item.problem(what, cure);
    None
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn rates() {
        let rate = |count, seconds| Some(Rate { count, period: Duration::from_secs(seconds) });
        for (text, expected) in [
            ("50/s", rate(50, 1)),
            ("100/m", rate(100, 60)),
            ("1/h", rate(1, 3600)),
            ("0/s", None),
            ("50", None),
            ("50/d", None),
            ("5000000000/s", None),
        ] {
            assert_eq!(parse_rate(text), expected, "{text}");
        }
    }

    #[test]
    fn ranges() {
        for (range, address, expected) in [
            ("169.254.0.0/16", "169.254.169.254", Some(true)),
            ("169.254.0.0/16", "169.255.0.1", Some(false)),
            ("169.254.0.0/16", "::ffff:169.254.1.1", Some(true)),
            ("10.0.0.1", "10.0.0.1", Some(true)),
            ("10.0.0.1", "10.0.0.2", Some(false)),
            ("0.0.0.0/0", "8.8.8.8", Some(true)),
            ("0.0.0.0/0", "fe80::1", Some(false)),
            ("::/0", "fe80::1", Some(true)),
            ("fe80::/10", "fe81::1", Some(true)),
            ("169.254.0.1/16", "0.0.0.0", None),
            ("10.0.0.0/33", "0.0.0.0", None),
            ("10.0.0.0/+8", "0.0.0.0", None),
            ("10.0.0.0/", "0.0.0.0", None),
            ("example.com", "0.0.0.0", None),
        ] {
            let address: IpAddr = address.parse().expect("an address");
            assert_eq!(AddressRange::parse(range).map(|range| range.contains(address)), expected, "{range} {address}");
        }
    }
}
