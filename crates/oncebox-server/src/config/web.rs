//! Pieces of HTTP in the config: URLs, header names, address ranges. URLs are never quoted: they may hold a password.

use std::net::IpAddr;

use http::{HeaderName, HeaderValue};
pub(crate) use oncebox::gateway::outgoing::AddressRange;
use oncebox::gateway::outgoing::Policy;
use oncebox_verify::Secret;
use url::Url;

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

/// A URL that we call; `what` is sent there, for the warning about plain text. An address that no attempt may reach is a
/// mistake; what a name resolves to is only known at the attempt.
pub(crate) fn target_url(item: &Item<'_>, allow: &[AddressRange], what: &str) -> Option<String> {
    let url = checked_url(item)?;
    let address: Option<IpAddr> = host_of(&url).and_then(|host| host.parse().ok());
    let policy = Policy::Operator { allow: allow.to_vec() };
    if let Some(address) = address.filter(|address| !policy.admits(*address)) {
        item.problem(
            "leads to a link-local or cloud-metadata address, which is never called",
            format!("write another host, or allow = [\"{address}\"] beside it if that is meant"),
        );
    }
    warn_of_plain_text(item, &url, what);
    Some(url.to_string())
}

/// Warns where something goes to another machine without TLS.
pub(crate) fn warn_of_plain_text(item: &Item<'_>, url: &Url, what: &str) {
    let address = || host_of(url).and_then(|host| host.parse().ok());
    let is_here = host_of(url) == Some("localhost") || address().is_some_and(|address: IpAddr| address.is_loopback());
    if url.scheme() == "http" && !is_here {
        let path = &item.scope().path;
        item.scope().report.warn(format!("{path}: {what} go to another machine as plain text; use https"));
    }
}

fn host_of(url: &Url) -> Option<&str> {
    url.host_str().map(|host| host.trim_start_matches('[').trim_end_matches(']'))
}

/// The URL under which senders reach us, without a slash at the end.
pub(crate) fn public_url(item: &Item<'_>) -> Option<String> {
    let url = checked_url(item)?;
    if url.query().is_some() {
        item.problem("has a query", "write scheme, host and path alone, such as \"https://hooks.example.com\"");
        return None;
    }
    Some(url.as_str().trim_end_matches('/').to_owned())
}

/// Takes `headers = { name = "…" or secret }`.
pub(crate) fn headers(table: &mut Table<'_>) -> Vec<(HeaderName, Secret)> {
    let mut headers = Vec::new();
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
        if HeaderValue::from_bytes(value.expose()).is_err() {
            let has_break = value.expose().iter().any(|byte| matches!(byte, b'\r' | b'\n'));
            let (what, cure) = match has_break {
                true => ("holds a line break, which no header can carry", "write the value on one line"),
                false => ("holds a control character, which no header can carry", "remove it"),
            };
            item.problem(what, cure);
        }
        headers.push((header, value));
    }
    headers
}

/// Takes `allow = ["169.254.0.0/16"]`.
pub(crate) fn allow(table: &mut Table<'_>) -> Vec<AddressRange> {
    ranges(table, "allow", "169.254.0.0/16")
}

/// Takes a list of address ranges.
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

fn checked_url(item: &Item<'_>) -> Option<Url> {
    let form = "a URL such as \"https://example.com/hooks\"";
    let url = item.parsed(|text| Url::parse(text).ok(), form)?;
    let (what, cure) = match &url {
        url if !matches!(url.scheme(), "http" | "https") => ("is neither http nor https", "write https://…"),
        url if !url.username().is_empty() || url.password().is_some() => {
            ("holds a user name or password", "send it as a header instead")
        }
        url if url.fragment().is_some() => ("has a fragment", "remove the part behind #"),
        _ => return Some(url),
    };
    item.problem(what, cure);
    None
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

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
