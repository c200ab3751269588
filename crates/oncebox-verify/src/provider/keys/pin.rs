//! Addresses that a request may name: only the vendor's own hosts and paths, told apart before anything is fetched.
//!
//! The text is parsed as a browser would, and what is compared is the parsed host and path, so no spelling (user names,
//! ports, back slashes, dots at the end, other scripts) can make a stranger's address look like the vendor's. Hosts are
//! compared whole: a pattern such as `sns.*.amazonaws.com` would let in `sns.s3.amazonaws.com`, which is a bucket that
//! anybody may own.

use url::{Host, Url};

/// Longest URL that a request may name.
const URL_BYTES_MAX: usize = 1024;

#[derive(Clone, Debug)]
pub(crate) struct Pin {
    pub(crate) hosts: Vec<String>,
    /// The shape of the path, behind which there is no query; anything may stand behind the host when absent.
    pub(crate) path: Option<fn(&str) -> bool>,
}

impl Pin {
    /// The URL in its one spelling, if it is the vendor's: https, the usual port, nothing but path and query.
    pub(crate) fn admit(&self, text: &str) -> Option<String> {
        if text.len() > URL_BYTES_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
            return None;
        }
        let url = Url::parse(text).ok()?;
        let Some(Host::Domain(host)) = url.host() else { return None };
        let is_bare = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        let is_plain = url.scheme() == "https" && url.port().is_none() && is_bare && !text.contains('@');
        let is_own = self.hosts.iter().any(|own| own == host);
        let is_of_shape = self.path.is_none_or(|fits| url.query().is_none() && fits(url.path()));
        (is_plain && is_own && is_of_shape).then(|| url.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(path: Option<fn(&str) -> bool>) -> Pin {
        Pin { hosts: vec!["sns.us-east-1.amazonaws.com".to_owned()], path }
    }

    #[test]
    fn only_the_vendors_own_hosts() {
        for good in [
            "https://sns.us-east-1.amazonaws.com/a.pem",
            "https://SNS.us-east-1.amazonaws.com:443/a.pem",
            "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&Token=t",
        ] {
            assert!(pin(None).admit(good).is_some(), "{good}");
        }
        for bad in [
            "http://sns.us-east-1.amazonaws.com/a.pem",
            "https://sns.us-east-1.amazonaws.com:8443/a.pem",
            "https://sns.us-east-1.amazonaws.com./a.pem",
            "https://sns.us-east-1.amazonaws.com.evil.example/a.pem",
            "https://evil.example/sns.us-east-1.amazonaws.com/a.pem",
            "https://sns.us-east-1.amazonaws.com@evil.example/a.pem",
            "https://evil.example#@sns.us-east-1.amazonaws.com/a.pem",
            "https://evil.example\\@sns.us-east-1.amazonaws.com/a.pem",
            "https://user@sns.us-east-1.amazonaws.com/a.pem",
            "https://sns.evil.example.amazonaws.com/a.pem",
            "https://xsns.us-east-1.amazonaws.com/a.pem",
            "https://sns.us-west-2.amazonaws.com/a.pem",
            "https://sns.s3.amazonaws.com/x.pem",
            "https://sns.s3-us-gov-west-1.amazonaws.com/x.pem",
            "https://sns.s3-accelerate.amazonaws.com/x.pem",
            "https://sns..amazonaws.com/a.pem",
            "https://sns.amazonaws.com/a.pem",
            "https://sns.us-east-1.amazonaws.com/a.pem#x",
            "https://sns.us-east-1.аmazonaws.com/a.pem",
            "https://sns.us-\teast-1.amazonaws.com/a.pem",
            "https://127.0.0.1/a.pem",
            "https://[::1]/a.pem",
            "//sns.us-east-1.amazonaws.com/a.pem",
            "file:///etc/a.pem",
            "",
        ] {
            assert_eq!(pin(None).admit(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_path_has_its_shape_and_no_query() {
        let pin = pin(Some(|path| path == "/key.pem"));
        assert!(pin.admit("https://sns.us-east-1.amazonaws.com/key.pem").is_some());
        for bad in ["/", "/key.txt", "/key.pem?a", "/key.pem?", "/x/../other.pem", "/key.pem/", "/?/key.pem"] {
            assert_eq!(pin.admit(&format!("https://sns.us-east-1.amazonaws.com{bad}")), None, "{bad}");
        }
    }
}
