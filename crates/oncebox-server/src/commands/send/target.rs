//! Where to send: the source of a server of ours, or exactly one URL.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::Context as _;
use url::Url;

use crate::query::context::DEFAULT_BASE;
use crate::usage::wrong_usage;

#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) url: Url,
    /// What stands before `/in/…`.
    pub(crate) base: String,
    pub(crate) source: String,
}

impl Target {
    /// Reads `--to`. A URL without a path gets `/in/{source}`; one with a path is used as it is.
    pub(crate) fn parse(to: Option<&str>, source: &str) -> anyhow::Result<Self> {
        let url = read(to.unwrap_or(DEFAULT_BASE), "--to")?;
        if url.path() != "/" {
            return Ok(Self::exactly(url, source));
        }
        let base = origin(&url);
        let mut full = Url::parse(&format!("{base}/in/{source}")).context("cannot build the source's URL")?;
        full.set_query(url.query());
        Ok(Self { url: full, base, source: source.to_owned() })
    }

    /// Reads `--url`, to which nothing is added.
    pub(crate) fn as_it_is(url: &str, source: &str) -> anyhow::Result<Self> {
        Ok(Self::exactly(read(url, "--url")?, source))
    }

    /// The name behind `/in/` is the source's, where there is one.
    fn exactly(url: Url, source: &str) -> Self {
        let whole = url.as_str().split(['?', '#']).next().unwrap_or_default();
        let own = whole.split_once("/in/").and_then(|(base, rest)| {
            let name = rest.split('/').next().filter(|name| !name.is_empty())?;
            Some((base.to_owned(), name.to_owned()))
        });
        let (base, source) = own.unwrap_or_else(|| (origin(&url), source.to_owned()));
        Self { url, base, source }
    }

    /// What the request line holds.
    pub(crate) fn path_and_query(&self) -> String {
        match self.url.query() {
            Some(query) => format!("{}?{query}", self.url.path()),
            None => self.url.path().to_owned(),
        }
    }

    /// True for the server that commands ask unless they are told of another.
    pub(crate) fn is_default(&self) -> bool {
        self.base == DEFAULT_BASE
    }

    /// The address of the server, where it is one of this machine's.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        let ip = match self.url.host_str()? {
            "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
            host => host.trim_matches(['[', ']']).parse().ok()?,
        };
        Some(SocketAddr::new(ip, self.url.port_or_known_default()?))
    }

    /// The URL for people: a token behind the source's name is a credential and stays out.
    pub(crate) fn shown(&self) -> String {
        let of_source = format!("{}/in/{}", self.base, self.source);
        let whole = self.url.as_str().split(['?', '#']).next().unwrap_or_default();
        if whole.starts_with(&of_source) { of_source } else { whole.to_owned() }
    }
}

fn read(text: &str, option: &str) -> anyhow::Result<Url> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    url.ok_or_else(|| wrong_usage(format!("{option}: write a URL such as http://127.0.0.1:8080")))
}

/// Scheme, host and port.
fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(to: Option<&str>, expected: Option<(&str, &str, &str)>) {
        let target = Target::parse(to, "stripe").ok();
        let found = target.as_ref().map(|target| (target.url.as_str(), &*target.base, &*target.source));
        assert_eq!(found, expected, "{to:?}");
    }

    #[test]
    fn base_urls_get_the_source() {
        let local = Some(("http://127.0.0.1:8080/in/stripe", "http://127.0.0.1:8080", "stripe"));
        check(None, local);
        check(Some("http://127.0.0.1:8080"), local);
        check(Some("http://127.0.0.1:8080/"), local);
        check(Some("http://a:1?x=1"), Some(("http://a:1/in/stripe?x=1", "http://a:1", "stripe")));
    }

    #[test]
    fn a_url_with_a_path_is_used_as_it_is() {
        check(
            Some("https://a.example/webhooks/stripe"),
            Some(("https://a.example/webhooks/stripe", "https://a.example", "stripe")),
        );
        check(
            Some("https://a.example/hooks/in/pay"),
            Some(("https://a.example/hooks/in/pay", "https://a.example/hooks", "pay")),
        );
        check(Some("http://a:1/in/pay"), Some(("http://a:1/in/pay", "http://a:1", "pay")));
        check(Some("http://a:1/in/pay/tok?x=1"), Some(("http://a:1/in/pay/tok?x=1", "http://a:1", "pay")));
        check(Some("ftp://a/in/pay"), None);
        check(Some("127.0.0.1:8080"), None);
        check(Some(""), None);
    }

    #[test]
    fn nothing_is_added_to_an_exact_url() {
        for url in ["http://a:1/", "http://a:1/x?y=1", "http://a:1/in/pay"] {
            let target = Target::as_it_is(url, "stripe").expect("a URL");
            assert_eq!(target.url.as_str(), url);
        }
        assert!(Target::as_it_is("nowhere", "stripe").is_err());
    }

    #[test]
    fn a_server_of_this_machine_is_known_by_its_address() {
        for (to, is_default, local) in [
            ("http://127.0.0.1:8080/", true, Some("127.0.0.1:8080")),
            ("http://localhost:9000", false, Some("127.0.0.1:9000")),
            ("http://[::1]:8080/in/pay", false, Some("[::1]:8080")),
            ("https://hooks.example.com", false, None),
        ] {
            let target = Target::parse(Some(to), "stripe").expect("a URL");
            let expected = local.map(|local| local.parse().expect("an address"));
            assert_eq!((target.is_default(), target.local()), (is_default, expected), "{to}");
        }
    }

    #[test]
    fn a_token_is_not_shown() {
        let target = Target::parse(Some("http://a:1/in/pay/hunter2?x=1"), "stripe").expect("a URL");
        assert_eq!(target.shown(), "http://a:1/in/pay");
        assert_eq!(target.path_and_query(), "/in/pay/hunter2?x=1");
        assert_eq!(Target::as_it_is("http://a:1/hooks/x?y=1", "stripe").expect("a URL").shown(), "http://a:1/hooks/x");
    }
}
