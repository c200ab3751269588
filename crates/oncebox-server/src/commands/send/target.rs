//! Where to send: a base URL, or the URL of a source.

use anyhow::Context as _;
use reqwest::Url;

use crate::commands::wrong_usage;

/// Where `oncebox dev` listens unless it is told otherwise.
pub(crate) const DEFAULT_BASE: &str = "http://127.0.0.1:8080";
const ADMIN_PORT: u16 = 8081;

/// The URL of a source and its parts.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    url: Url,
    base: String,
    source: String,
}

impl Target {
    /// Reads `--to`. A base URL gets `/in/{source}` behind it; a URL with `/in/…` is used as it is.
    pub(crate) fn parse(to: Option<&str>, source: &str) -> anyhow::Result<Self> {
        let text = to.unwrap_or(DEFAULT_BASE);
        let refuse = || wrong_usage("--to: write a URL such as http://127.0.0.1:8080");
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https")).ok_or_else(refuse)?;
        let whole = url.as_str().split(['?', '#']).next().unwrap_or_default();
        let own = whole.split_once("/in/").and_then(|(base, rest)| {
            let name = rest.split('/').next().filter(|name| !name.is_empty())?;
            Some((base.to_owned(), name.to_owned()))
        });
        if let Some((base, source)) = own {
            return Ok(Self { url, base, source });
        }
        let base = whole.trim_end_matches('/').to_owned();
        let mut full = Url::parse(&format!("{base}/in/{source}")).context("cannot build the source's URL")?;
        full.set_query(url.query());
        Ok(Self { url: full, base, source: source.to_owned() })
    }

    /// The whole URL.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// What stands before `/in/…`.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The source's name.
    pub(crate) fn source(&self) -> &str {
        &self.source
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

    /// Where the admin listener of that server is, if it has the usual port.
    pub(crate) fn admin_guess(&self) -> String {
        format!("http://{}:{ADMIN_PORT}", self.url.host_str().unwrap_or("127.0.0.1"))
    }

    /// The URL for people: a token behind the source's name is a credential and stays out.
    pub(crate) fn shown(&self) -> String {
        format!("{}/in/{}", self.base, self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(to: Option<&str>, expected: Option<(&str, &str, &str)>) {
        let target = Target::parse(to, "stripe").ok();
        let found = target.as_ref().map(|target| (target.url().as_str(), target.base(), target.source()));
        assert_eq!(found, expected, "{to:?}");
    }

    #[test]
    fn base_urls_get_the_source() {
        let local = Some(("http://127.0.0.1:8080/in/stripe", "http://127.0.0.1:8080", "stripe"));
        check(None, local);
        check(Some("http://127.0.0.1:8080"), local);
        check(Some("http://127.0.0.1:8080/"), local);
        check(
            Some("https://a.example/hooks/"),
            Some(("https://a.example/hooks/in/stripe", "https://a.example/hooks", "stripe")),
        );
    }

    #[test]
    fn a_source_is_used_as_it_is() {
        check(Some("http://a:1/in/pay"), Some(("http://a:1/in/pay", "http://a:1", "pay")));
        check(Some("http://a:1/in/pay/tok?x=1"), Some(("http://a:1/in/pay/tok?x=1", "http://a:1", "pay")));
        check(Some("ftp://a/in/pay"), None);
        check(Some("127.0.0.1:8080"), None);
        check(Some(""), None);
    }

    #[test]
    fn the_admin_listener_is_guessed_on_the_same_host() {
        for (to, is_default, admin) in [
            ("http://127.0.0.1:8080/", true, "http://127.0.0.1:8081"),
            ("http://127.0.0.1:9000", false, "http://127.0.0.1:8081"),
            ("http://[::1]:8080/in/pay", false, "http://[::1]:8081"),
        ] {
            let target = Target::parse(Some(to), "stripe").expect("a URL");
            assert_eq!((target.is_default(), target.admin_guess().as_str()), (is_default, admin), "{to}");
        }
    }

    #[test]
    fn a_token_is_not_shown() {
        let target = Target::parse(Some("http://a:1/in/pay/hunter2?x=1"), "stripe").expect("a URL");
        assert_eq!(target.shown(), "http://a:1/in/pay");
        assert_eq!(target.path_and_query(), "/in/pay/hunter2?x=1");
    }
}
