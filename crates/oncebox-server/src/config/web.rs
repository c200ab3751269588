//! Pieces of HTTP in the config: URLs, header names, address ranges. URLs are never quoted: they may hold a password.

use std::net::IpAddr;

use http::{HeaderName, HeaderValue};
use oncebox::secret::Secret;
use reqwest::Url;

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

/// A range of addresses, such as `169.254.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressRange {
    first: IpAddr,
    prefix: u8,
}

impl AddressRange {
    /// Reads `10.0.0.0/8`, `fe80::/10` or a single address; bits behind the prefix must be zero.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let first: IpAddr = address.parse().ok()?;
        let bits = if first.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok()?,
            Some(_) => return None,
            None => bits,
        };
        let range = Self { first, prefix };
        (prefix <= bits && range.masked(first) == bits_of(first)).then_some(range)
    }

    /// True when the address lies in the range; an IPv4 address written as IPv6 counts as IPv4.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.first.is_ipv4() == address.is_ipv4() && self.masked(address) == bits_of(self.first)
    }

    fn masked(&self, address: IpAddr) -> u128 {
        let width = if address.is_ipv4() { 32 } else { 128 };
        let host_bits = width - u32::from(self.prefix).min(width);
        let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
        bits_of(address) & mask
    }
}

/// A URL that we call.
pub(crate) fn target_url(item: &Item<'_>) -> Option<String> {
    let url = checked_url(item)?;
    Some(url.to_string())
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
            item.problem("does not fit into a header", "remove line breaks and control characters");
        }
        headers.push((header, value));
    }
    headers
}

/// Takes `allow = ["169.254.0.0/16"]`.
pub(crate) fn allow(table: &mut Table<'_>) -> Vec<AddressRange> {
    let list = table.take("allow").and_then(|item| item.list()).unwrap_or_default();
    let form = "an address range such as \"169.254.0.0/16\"";
    list.iter().filter_map(|item| item.parsed(AddressRange::parse, form)).collect()
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

fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

#[cfg(test)]
mod tests {
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
