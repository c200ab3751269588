//! The URL as configured at the vendor, for schemes that sign it.
//!
//! It comes from configuration and never from `Host`, because a proxy may stand between. `public_url` is either the
//! server's base (`https://hooks.example.com`, perhaps with a path in front) or the full address of the source, told
//! apart by `/in/NAME` at its end or before a path token. The query is the request's own, since vendors sign it as they send it.

use super::Problem;
use super::builtin::problem;
use super::place::query;
use crate::source::SourceSpec;

/// A source's public address without a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address(String);

impl Address {
    /// The address of a source whose scheme signs it; adds to `problems` when it is not known.
    pub(crate) fn of(spec: &SourceSpec, problems: &mut Vec<Problem>) -> Option<Self> {
        let text = spec.settings.get("public_url").map(|url| String::from_utf8_lossy(url.expose()).into_owned());
        let address = text.as_deref().and_then(|url| Self::new(url, &spec.name));
        if address.is_none() {
            let message =
                if text.is_none() { "this provider signs the URL, which is not known" } else { "this is no URL" };
            let cure = "add public_url = \"https://hooks.example.com\", as the vendor sees it";
            problems.push(problem("public_url", message, cure));
        }
        address
    }

    /// Reads `public_url` for the source of this name; none when it is no http URL.
    pub(crate) fn new(public_url: &str, source: &str) -> Option<Self> {
        let base = public_url.split(['?', '#']).next().unwrap_or_default();
        let (scheme, rest) = base.split_once("://")?;
        let host = rest.split('/').next().unwrap_or_default();
        let is_plain = base.bytes().all(|byte| byte.is_ascii_graphic());
        if !matches!(scheme, "http" | "https") || host.is_empty() || !is_plain {
            return None;
        }
        let own = format!("/in/{source}");
        let is_full = base.ends_with(&own) || base.contains(&format!("{own}/"));
        Some(Self(if is_full { base.to_owned() } else { format!("{}{own}", base.trim_end_matches('/')) }))
    }

    /// The address with the query of a request.
    pub(crate) fn with_query_of(&self, target: &str) -> String {
        match query(target) {
            "" => self.0.clone(),
            query => format!("{}?{query}", self.0),
        }
    }

    /// The same address in the spellings that people mix up, each with what differs.
    pub(crate) fn variants(&self, target: &str) -> Vec<(&'static str, Self)> {
        let swapped = match self.0.strip_prefix("https://") {
            Some(rest) => format!("http://{rest}"),
            None => format!("https://{}", self.0.trim_start_matches("http://")),
        };
        let other_slash = self.0.strip_suffix('/').map_or_else(|| format!("{}/", self.0), str::to_owned);
        vec![
            ("http or https", Self(swapped)),
            ("the slash at its end", Self(other_slash)),
            ("the port", Self(with_other_port(&self.0))),
            ("its path", Self(format!("{}{}", origin(&self.0), path(target)))),
        ]
    }
}

/// Scheme, host and port of a URL; nothing when there are none.
fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find('/').map_or(url.len(), |at| start + at);
    if start == 0 { "" } else { &url[..end] }
}

/// The path of a target, whether or not it holds a host.
fn path(target: &str) -> &str {
    let target = target.split(['?', '#']).next().unwrap_or_default();
    &target[origin(target).len()..]
}

/// The URL with its default port added, or without it; the URL itself when it has another port.
pub(crate) fn with_other_port(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let port = if scheme == "https" { ":443" } else { ":80" };
    let cut = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(cut);
    match host.strip_suffix(port) {
        Some(bare) => format!("{scheme}://{bare}{path}"),
        None if host.rsplit(']').next().is_some_and(|end| end.contains(':')) => url.to_owned(),
        None => format!("{scheme}://{host}{port}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_and_full_address() {
        let check = |public_url: &str, target: &str, expected: Option<&str>| {
            let url = Address::new(public_url, "sms").map(|address| address.with_query_of(target));
            assert_eq!(url.as_deref(), expected, "{public_url}");
        };
        check("https://a.example", "/in/sms", Some("https://a.example/in/sms"));
        check("https://a.example/", "/in/sms?x=1&y", Some("https://a.example/in/sms?x=1&y"));
        check("https://a.example/hooks/in/sms", "/in/sms", Some("https://a.example/hooks/in/sms"));
        check("https://a.example/hooks", "/in/sms", Some("https://a.example/hooks/in/sms"));
        check("https://a.example/in/sms/tok", "/in/sms/tok", Some("https://a.example/in/sms/tok"));
        check("a.example", "/in/sms", None);
        check("ftp://a.example", "/in/sms", None);
        check("https://", "/in/sms", None);
    }

    #[test]
    fn ports() {
        assert_eq!(with_other_port("https://a/x?y"), "https://a:443/x?y");
        assert_eq!(with_other_port("https://a:443/x"), "https://a/x");
        assert_eq!(with_other_port("http://a"), "http://a:80");
        assert_eq!(with_other_port("http://[::1]/x"), "http://[::1]:80/x");
        assert_eq!(with_other_port("http://a:8080/x"), "http://a:8080/x");
    }
}
