//! Where a request comes from, as far as we believe it.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// What proxies add, and nobody who speaks to us directly.
const BY_PROXIES: [&str; 3] = ["forwarded", "via", "x-real-ip"];
const BY_PROXIES_BEGIN: &str = "x-forwarded-";

/// The sender's address: the connection's, or what the trusted proxies in front of us saw. None where such a proxy says
/// something that cannot be read: it is then nobody's, and never the proxy's own.
pub(crate) fn client(peer: IpAddr, headers: &HeaderMap, trusted_proxies: usize) -> Option<IpAddr> {
    if trusted_proxies == 0 || !headers.contains_key(FORWARDED_FOR) {
        return Some(peer);
    }
    let lines: Option<Vec<&str>> = headers.get_all(FORWARDED_FOR).iter().map(|line| line.to_str().ok()).collect();
    let hops: Vec<&str> = lines?.into_iter().flat_map(|line| line.split(',')).map(str::trim).collect();
    hops.len().checked_sub(trusted_proxies).and_then(|at| hops.get(at)).and_then(|hop| address(hop))
}

/// An address in a text, or the word for none.
pub(crate) fn shown(client: Option<IpAddr>) -> String {
    client.map_or_else(|| "unknown".to_owned(), |client| client.to_string())
}

/// True for a request that came through a proxy.
pub(crate) fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| BY_PROXIES.contains(&name.as_str()) || name.as_str().starts_with(BY_PROXIES_BEGIN))
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`.
fn address(hop: &str) -> Option<IpAddr> {
    let bare = hop.strip_prefix('[').and_then(|hop| hop.strip_suffix(']')).unwrap_or(hop);
    bare.parse().ok().or_else(|| hop.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn seen(lines: &[&[u8]], trusted: usize) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED_FOR, HeaderValue::from_bytes(line).expect("a value"));
        }
        shown(client(IpAddr::from([10, 0, 0, 9]), &headers, trusted))
    }

    #[test]
    fn only_trusted_hops_are_believed() {
        let lines: [&[u8]; 2] = [b"1.1.1.1, 2.2.2.2", b"3.3.3.3"];
        for (trusted, expected) in [(0, "10.0.0.9"), (1, "3.3.3.3"), (2, "2.2.2.2"), (9, "unknown")] {
            assert_eq!(seen(&lines, trusted), expected, "{trusted}");
        }
        assert_eq!(seen(&[], 1), "10.0.0.9", "nobody forwarded it");
    }

    #[test]
    fn what_cannot_be_read_is_nobody() {
        for (line, expected) in [
            (&b"203.0.113.9"[..], "203.0.113.9"),
            (b"203.0.113.9:4711", "203.0.113.9"),
            (b"2001:db8::1", "2001:db8::1"),
            (b"[2001:db8::1]", "2001:db8::1"),
            (b"[2001:db8::1]:4711", "2001:db8::1"),
            (b"unknown", "unknown"),
            (b"203.0.113.9\xff", "unknown"),
            (b"203.0.113.9, ", "unknown"),
            (b"", "unknown"),
        ] {
            assert_eq!(seen(&[line], 1), expected, "{line:?}");
        }
    }

    #[test]
    fn proxies_give_themselves_away() {
        let with =
            |name: &'static str| HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static("x"))]);
        for name in ["forwarded", "via", "x-real-ip", "x-forwarded-for", "x-forwarded-proto"] {
            assert!(is_forwarded(&with(name)), "{name}");
        }
        assert!(!is_forwarded(&with("x-request-id")));
    }
}
