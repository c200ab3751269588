//! Calls of our own commands to the server that a person named: no proxy of the environment and no redirect, so that a
//! token or a signed request goes there alone.

use std::time::Duration;

use anyhow::Context as _;
use data_encoding::BASE64;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method};
use oncebox::gateway::outgoing::{AddressRange, Call, Outgoing, Policy, Settings, Target};
use percent_encoding::percent_decode_str;
use url::Url;

/// A client for every address: who can type a URL here can reach it by any other program, too.
pub(crate) fn client() -> anyhow::Result<Outgoing> {
    let allow = ["0.0.0.0/0", "::/0"].into_iter().filter_map(AddressRange::parse).collect();
    Outgoing::new(Settings::new(Policy::Operator { allow })).context("cannot set up TLS")
}

/// A call without a body. The user and password of a URL go into a header.
pub(crate) fn call(method: Method, mut url: Url, deadline: Duration) -> anyhow::Result<Call> {
    let mut headers = HeaderMap::new();
    if !url.username().is_empty() || url.password().is_some() {
        let decoded = |text: &str| percent_decode_str(text).collect::<Vec<u8>>();
        let pair = [decoded(url.username()), decoded(url.password().unwrap_or_default())].join(&b':');
        headers.insert(AUTHORIZATION, credential(&format!("Basic {}", BASE64.encode(&pair)))?);
        // Fails only for a URL without a host, which has neither.
        let _ = (url.set_username(""), url.set_password(None));
    }
    let target = Target::parse(url.as_str())?;
    Ok(Call { headers, ..Call { method, ..Call::get(target, deadline) } })
}

/// The value of a header that no log shows.
pub(crate) fn credential(text: &str) -> anyhow::Result<HeaderValue> {
    let mut value = HeaderValue::from_str(text).context("a token holds a character that no header can carry")?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: (&str, Option<&str>)) {
        let call = call(Method::GET, Url::parse(url).expect("a URL"), Duration::ZERO).expect("a call");
        let credential = call.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        assert_eq!((call.target.uri().to_string().as_str(), credential), expected, "{url}");
    }

    #[test]
    fn user_and_password_of_a_url_are_a_header() {
        check("http://a:1/b?c", ("http://a:1/b?c", None));
        check("https://user:p%40ss@a.example/b", ("https://a.example/b", Some("Basic dXNlcjpwQHNz")));
        check("http://user@a/", ("http://a/", Some("Basic dXNlcjo=")));
    }
}
