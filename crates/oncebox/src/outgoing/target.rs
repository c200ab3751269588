//! A URL that may be called: http or https, a host, no credentials. Addresses in odd spellings come out as addresses.

use std::fmt;

use http::Uri;
use url::Url;

/// A URL that may be called. Printing one shows its host alone: path and query may hold a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    uri: Uri,
}

/// Why a text is no target; it is never quoted, for it may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It cannot be read.
    #[error("this is no URL")]
    NotAUrl,
    /// Neither http nor https.
    #[error("this is neither http nor https")]
    Scheme,
    /// It holds a user name or password.
    #[error("this holds a user name or password")]
    Credentials,
}

impl Target {
    /// Reads a URL as browsers do, so that `127.1`, `0x7f.1` and `2130706433` are the address they mean.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        if text.contains(['\\', '\t', '\n', '\r']) {
            return Err(TargetError::NotAUrl);
        }
        let mut url = Url::parse(text).map_err(|_invalid| TargetError::NotAUrl)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(TargetError::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(TargetError::Credentials);
        }
        url.set_fragment(None);
        let uri: Uri = url.as_str().parse().map_err(|_invalid| TargetError::NotAUrl)?;
        if uri.host().is_none_or(str::is_empty) {
            return Err(TargetError::NotAUrl);
        }
        Ok(Self { uri })
    }

    /// A place below this one: the path is added to ours and the query to ours. None where it would lead elsewhere; no
    /// text can change scheme, host or port.
    pub fn below(&self, path: &str) -> Option<Self> {
        if path.is_empty() {
            return Some(self.clone());
        }
        if path.contains(['\\', '#']) || path.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return None;
        }
        let mut url = Url::parse(&self.uri.to_string()).ok()?;
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let base = format!("{}/", url.path().trim_end_matches('/'));
        url.set_path(&format!("{base}{}", path.trim_start_matches('/')));
        let queries: Vec<&str> = self.uri.query().into_iter().chain(query).filter(|part| !part.is_empty()).collect();
        url.set_query((!queries.is_empty()).then(|| queries.join("&")).as_deref());
        if !url.path().starts_with(&base) {
            return None;
        }
        Some(Self { uri: url.as_str().parse().ok()? })
    }

    /// The host, an IPv6 address in brackets.
    pub fn host(&self) -> &str {
        self.uri.host().unwrap_or_default()
    }

    /// The whole URL.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Target").field(&self.host()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        for (text, host) in [
            ("http://127.1/", "127.0.0.1"),
            ("http://2130706433", "127.0.0.1"),
            ("http://0x7f.1/", "127.0.0.1"),
            ("http://0177.0.0.1/", "127.0.0.1"),
            ("http://127.0.0.1./", "127.0.0.1"),
            ("http://0/", "0.0.0.0"),
            ("http://[::FFFF:127.0.0.1]:80/", "[::ffff:7f00:1]"),
            ("https://EXAMPLE.com/a?b#c", "example.com"),
            ("https://bücher.example/", "xn--bcher-kva.example"),
        ] {
            assert_eq!(Target::parse(text).map(|target| target.host().to_owned()), Ok(host.to_owned()), "{text}");
        }
    }

    #[test]
    fn below() {
        for (base, path, expected) in [
            ("https://a.example/api", "", Some("https://a.example/api")),
            ("https://a.example/api", "/contacts/1", Some("https://a.example/api/contacts/1")),
            ("https://a.example/api/", "contacts?x=1&y", Some("https://a.example/api/contacts?x=1&y")),
            ("https://a.example/api?token=t", "c?x=1", Some("https://a.example/api/c?token=t&x=1")),
            ("https://a.example:444", "//evil.example/x", Some("https://a.example:444/evil.example/x")),
            ("https://a.example/", "http://evil.example/", Some("https://a.example/http://evil.example/")),
            ("https://a.example/", "@evil.example", Some("https://a.example/@evil.example")),
            ("https://a.example/api/", "a/../b", Some("https://a.example/api/b")),
            ("https://a.example/api/", "ä", Some("https://a.example/api/%C3%A4")),
            ("https://a.example/api/", "../admin", None),
            ("https://a.example/api/", "a/../../admin", None),
            ("https://a.example/api/", "%2e%2e/admin", None),
            ("https://a.example/api/", ".%2E/admin", None),
            ("https://a.example/api/", "\\evil.example", None),
            ("https://a.example/api/", "a b", None),
            ("https://a.example/api/", "a\r\nx: y", None),
            ("https://a.example/api/", "a#b", None),
        ] {
            let found = Target::parse(base).expect("a base").below(path).map(|target| target.uri.to_string());
            assert_eq!(found.as_deref(), expected, "{base} {path}");
        }
    }

    proptest::proptest! {
        /// Whatever a message says, its host is the destination's.
        #[test]
        fn no_path_leads_to_another_host(path in ".{0,40}|[/\\\\.@:%?#a2eE]{0,20}") {
            let base = Target::parse("https://a.example:444/api/").expect("a base");
            if let Some(found) = base.below(&path) {
                proptest::prop_assert_eq!(found.uri.authority(), base.uri.authority());
                proptest::prop_assert!(found.uri.path().starts_with("/api/"));
            }
        }
    }

    #[test]
    fn refused() {
        for (text, error) in [
            ("", TargetError::NotAUrl),
            ("/path", TargetError::NotAUrl),
            ("http://", TargetError::NotAUrl),
            ("http://a\\@b/", TargetError::NotAUrl),
            ("http://a\n.example/", TargetError::NotAUrl),
            ("file:///etc/passwd", TargetError::Scheme),
            ("gopher://a/", TargetError::Scheme),
            ("data:text/plain,x", TargetError::Scheme),
            ("http://good@bad/", TargetError::Credentials),
            ("http://u:p@bad/", TargetError::Credentials),
        ] {
            assert_eq!(Target::parse(text), Err(error), "{text}");
        }
    }
}
