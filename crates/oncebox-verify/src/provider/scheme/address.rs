//! The URL as configured at the vendor, for schemes that sign it.
//!
//! It comes from configuration and never from `Host`, because a proxy may stand between. `public_url` is an origin, and
//! then the request's own path counts; or a base with a path; or the address exactly as it stands at the vendor. Whether a
//! path is a base or the whole cannot always be told, so both spellings count; both are the operator's own. The query is
//! the request's, since vendors sign it as they send it.

use crate::provider::Compiling;
use crate::provider::scheme::place::query;

/// A source's public address without a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    written: String,
    reach: Reach,
}

/// How much of the address is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Origin,
    /// Also a path, of the server or of the source.
    Base,
    Whole,
}

impl Address {
    pub(crate) fn of(compiling: &mut Compiling<'_>) -> Option<Self> {
        let spec = compiling.spec;
        if compiling.address.is_some() {
            return compiling.address.clone();
        }
        let text = spec.settings.get("public_url").map(|url| String::from_utf8_lossy(url.expose()).into_owned());
        let address = text.as_deref().and_then(|url| Self::new(url, &spec.name));
        if address.is_none() {
            let message =
                if text.is_none() { "this provider signs the URL, which is not known" } else { "this is no URL" };
            let cure = "add public_url = \"https://hooks.example.com\", as the vendor sees it";
            compiling.problem("public_url", message, cure);
        }
        address
    }

    /// Reads `public_url` for the source of this name; none when it is no http URL.
    pub(crate) fn new(public_url: &str, source: &str) -> Option<Self> {
        let written = public_url.split(['?', '#']).next().unwrap_or_default();
        let (scheme, rest) = written.split_once("://")?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_plain = written.bytes().all(|byte| byte.is_ascii_graphic());
        if !matches!(scheme, "http" | "https") || host.is_empty() || !is_plain {
            return None;
        }
        let own = format!("/in/{source}");
        let reach = match path {
            "" | "/" => Reach::Origin,
            path if path.ends_with(&own) || path.contains(&format!("{own}/")) => Reach::Whole,
            _ => Reach::Base,
        };
        Some(Self { written: written.to_owned(), reach })
    }

    /// The URL the vendor most likely called for a request, with its query.
    pub(crate) fn url(&self, target: &str) -> String {
        self.urls(target).swap_remove(0)
    }

    /// Every URL the vendor may have called for a request; never empty.
    pub(crate) fn urls(&self, target: &str) -> Vec<String> {
        let query = query(target);
        let mark = if query.is_empty() { "" } else { "?" };
        let whole = || [self.written.as_str(), mark, query].concat();
        let joined = || [self.written.trim_end_matches('/'), path(target), mark, query].concat();
        match self.reach {
            Reach::Origin => vec![joined()],
            Reach::Base => vec![joined(), whole()],
            Reach::Whole => vec![whole()],
        }
    }

    /// The same address in the spellings that people mix up, each with what differs.
    pub(crate) fn variants(&self, target: &str) -> Vec<(&'static str, Self)> {
        let url = self.url(path(target));
        let (swapped, scheme) = match url.strip_prefix("https://") {
            Some(rest) => (format!("http://{rest}"), "its scheme (the vendor calls http, public_url says https)"),
            None => (
                format!("https://{}", url.trim_start_matches("http://")),
                "its scheme (the vendor calls https, public_url says http: a proxy in front ends TLS)",
            ),
        };
        let other_slash = url.strip_suffix('/').map_or_else(|| format!("{url}/"), str::to_owned);
        let whole = |written: String| Self { written, reach: Reach::Whole };
        let mut variants = vec![
            (scheme, whole(swapped.clone())),
            ("its scheme and its port (a proxy in front ends TLS)", whole(without_port(&swapped))),
            ("the slash at its end", whole(other_slash)),
            ("the port", whole(with_other_port(&url))),
            ("its path", whole(format!("{}{}", origin(&url), path(target)))),
        ];
        if !origin(target).is_empty() {
            let captured = target.split(['?', '#']).next().unwrap_or_default();
            variants.push(("its host (the signature fits the URL as it was captured)", whole(captured.to_owned())));
        }
        variants
    }
}

/// Scheme, host and port of a URL; nothing when there are none.
fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find('/').map_or(url.len(), |at| start + at);
    if start == 0 { "" } else { &url[..end] }
}

/// The path of a target, whether or not it holds a host.
pub(crate) fn path(target: &str) -> &str {
    let target = target.split(['?', '#']).next().unwrap_or_default();
    &target[origin(target).len()..]
}

fn without_port(url: &str) -> String {
    let origin = origin(url);
    let digits = origin.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let bare = digits.map_or(origin, |(host, _)| host);
    format!("{bare}{}", &url[origin.len()..])
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
    fn what_is_written_and_what_the_request_adds() {
        let check = |public_url: &str, target: &str, expected: &[&str]| {
            let urls = Address::new(public_url, "sms").map(|address| address.urls(target)).unwrap_or_default();
            assert_eq!(urls, expected, "{public_url}");
        };
        check("https://a.example", "/in/sms", &["https://a.example/in/sms"]);
        check("https://a.example/", "/in/sms/tok?x=1&y", &["https://a.example/in/sms/tok?x=1&y"]);
        check("https://a.example", "https://b.example/other?x", &["https://a.example/other?x"]);
        check("https://a.example/hooks/in/sms", "/in/sms", &["https://a.example/hooks/in/sms"]);
        check("https://a.example/hooks", "/in/sms", &["https://a.example/hooks/in/sms", "https://a.example/hooks"]);
        check(
            "https://a.example/my.php?x=1",
            "/in/sms?y",
            &["https://a.example/my.php/in/sms?y", "https://a.example/my.php?y"],
        );
        check("https://a.example/in/sms/tok", "/in/sms/tok", &["https://a.example/in/sms/tok"]);
        check("a.example", "/in/sms", &[]);
        check("ftp://a.example", "/in/sms", &[]);
        check("https://", "/in/sms", &[]);
    }

    #[test]
    fn ports() {
        assert_eq!(without_port("https://a:8080/x?y"), "https://a/x?y");
        assert_eq!(without_port("https://[::1]:8080/x"), "https://[::1]/x");
        assert_eq!(without_port("https://a/x:1"), "https://a/x:1");
        assert_eq!(with_other_port("https://a/x?y"), "https://a:443/x?y");
        assert_eq!(with_other_port("https://a:443/x"), "https://a/x");
        assert_eq!(with_other_port("http://a"), "http://a:80");
        assert_eq!(with_other_port("http://[::1]/x"), "http://[::1]:80/x");
        assert_eq!(with_other_port("http://a:8080/x"), "http://a:8080/x");
    }
}
