//! Addresses that a request may name: only the vendor's own hosts, told apart before anything is fetched.
//!
//! A pattern is a host name in which a star stands for one label: `sns.*.amazonaws.com`. The text is parsed as a browser
//! would, and what is compared is the parsed host, so no spelling (user names, ports, back slashes, dots at the end,
//! other scripts) can make a stranger's host look like the vendor's.

use url::{Host, Url};

/// Longest URL that a request may name.
const URL_BYTES_MAX: usize = 1024;

/// The hosts that belong to a vendor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pin {
    /// Host patterns.
    pub(crate) hosts: &'static [&'static str],
    /// What the path must end with.
    pub(crate) suffix: &'static str,
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
        let is_own = self.hosts.iter().any(|pattern| fits(pattern, host));
        (is_plain && is_own && url.path().ends_with(self.suffix)).then(|| url.to_string())
    }
}

fn fits(pattern: &str, host: &str) -> bool {
    let is_label =
        |label: &str| !label.is_empty() && label.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    let (mut wanted, mut given) = (pattern.split('.'), host.split('.'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some("*"), Some(label)) if is_label(label) => {}
            (Some(wanted), Some(label)) if wanted == label => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_vendors_own_hosts() {
        let pin = Pin { hosts: &["sns.*.amazonaws.com", "sns.*.amazonaws.com.cn"], suffix: ".pem" };
        for good in [
            "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-1.pem",
            "https://sns.cn-north-1.amazonaws.com.cn/a.pem",
            "https://SNS.us-east-1.amazonaws.com:443/a.pem",
        ] {
            assert!(pin.admit(good).is_some(), "{good}");
        }
        for bad in [
            "http://sns.us-east-1.amazonaws.com/a.pem",
            "https://sns.us-east-1.amazonaws.com/a.txt",
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
            "https://sns..amazonaws.com/a.pem",
            "https://sns.amazonaws.com/a.pem",
            "https://sns.us-east-1.amazonaws.com/a.pem#x",
            "https://sns.us-east-1.amazonaws.com/?a.pem",
            "https://sns.us-east-1.аmazonaws.com/a.pem",
            "https://sns.us-\teast-1.amazonaws.com/a.pem",
            "https://127.0.0.1/a.pem",
            "https://[::1]/a.pem",
            "//sns.us-east-1.amazonaws.com/a.pem",
            "file:///etc/a.pem",
            "",
        ] {
            assert_eq!(pin.admit(bad), None, "{bad}");
        }
    }
}
