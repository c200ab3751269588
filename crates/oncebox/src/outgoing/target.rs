//! A URL that may be called: http or https, a host, no credentials. Addresses in odd spellings come out as addresses.

use http::Uri;
use url::Url;

/// A URL that may be called.
#[derive(Clone, Debug, PartialEq, Eq)]
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

    /// The host, an IPv6 address in brackets.
    pub fn host(&self) -> &str {
        self.uri.host().unwrap_or_default()
    }

    /// The whole URL.
    pub fn uri(&self) -> &Uri {
        &self.uri
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
