//! Contentful's scheme: method, path, the headers that the request itself lists, and the body, keyed SHA-256.
//!
//! Since the request says which headers are signed, those that we rely on (topic and time) must be in its list. The path
//! is the one the vendor called: the configured URL's where there is one, else the request's own. The vendor's library
//! escapes the query twice, and so do we.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::UnixMillis;
use crate::provider::description::describe::WINDOW_SECONDS;
use crate::provider::scheme::place::query;
use crate::provider::scheme::{
    Address, Encoding, Key, KeyForm, Mac, Refused, Unit, Verified, Verifier, Window, address,
};
use crate::provider::vendor::builtin;
use crate::provider::{Compiling, SignError};
use crate::request::Request;
use crate::verdict::{Reason, Rejection};

const SIGNATURE: HeaderName = HeaderName::from_static("x-contentful-signature");
const LIST: HeaderName = HeaderName::from_static("x-contentful-signed-headers");
const TIME: HeaderName = HeaderName::from_static("x-contentful-timestamp");
const TOPIC: HeaderName = HeaderName::from_static("x-contentful-topic");
/// More headers than this are not signed by the vendor.
const HEADERS_MAX: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Contentful {
    keys: Vec<Key>,
    address: Option<Address>,
    window: Window,
}

impl Contentful {
    /// The vendor's library allows 30 seconds. Behind a proxy that queues, or when a retry after 30 seconds keeps its
    /// first signature, that refuses genuine requests; so the window is the usual one unless the operator narrows it.
    pub(crate) fn compile(compiling: &mut Compiling<'_>) -> Option<Box<dyn Verifier>> {
        let keys = compiling.keys(|secret| Key::new(Mac::HmacSha256, KeyForm::Utf8, secret));
        let has_url = compiling.spec.settings.contains_key("public_url");
        let address = if has_url { Some(Address::of(compiling)?) } else { None };
        let window = compiling.window(WINDOW_SECONDS, WINDOW_SECONDS);
        Some(Box::new(Self { keys, address, window }))
    }

    /// The paths the vendor may have called.
    fn paths(&self, target: &str) -> impl Iterator<Item = String> {
        let urls = self.address.as_ref().map_or_else(Vec::new, |address| address.urls(target));
        urls.into_iter().chain([target.to_owned()]).map(|url| escaped(&url))
    }
}

impl Verifier for Contentful {
    fn verify(&self, request: &Request, now: UnixMillis) -> Result<Verified, Refused> {
        let given = [builtin::signature(&request.headers, &SIGNATURE, Encoding::Hex)?];
        let time = signed_at(&request.headers)?;
        let headers = listed(&request.headers, builtin::line(&request.headers, &LIST)?)?;
        let found = self
            .paths(&request.target)
            .find_map(|path| self.keys.iter().position(|key| key.verify(&message(request, &path, &headers), &given)));
        let index = found.ok_or(Reason::Mismatch)?;
        Unit::Millis.check(time, now, self.window)?;
        Ok(Verified::by_key(index))
    }

    fn judge_head(&self, head: &Request, now: UnixMillis) -> Result<(), Rejection> {
        let headers = &head.headers;
        builtin::signature(headers, &SIGNATURE, Encoding::Hex)?;
        Unit::Millis.check(signed_at(headers)?, now, self.window)?;
        listed(headers, builtin::line(headers, &LIST)?)?;
        Ok(())
    }

    fn sign(&self, mut request: Request, now: UnixMillis) -> Result<Request, SignError> {
        let key = self.keys.first().ok_or(SignError::Incomplete)?;
        let list = [&LIST, &TIME, &TOPIC].map(HeaderName::as_str).join(",");
        builtin::insert(&mut request.headers, TIME, &Unit::Millis.format(now))?;
        builtin::insert(&mut request.headers, LIST, &list)?;
        let headers = listed(&request.headers, &list).map_err(|_missing| SignError::Incomplete)?;
        let path = self.paths(&request.target).next().unwrap_or_default();
        let signature = key.sign(&message(&request, &path, &headers)).ok_or(SignError::Incomplete)?;
        builtin::insert(&mut request.headers, SIGNATURE, &Encoding::Hex.encode(&signature))?;
        Ok(request)
    }

    fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }
}

fn signed_at(headers: &HeaderMap) -> Result<UnixMillis, Reason> {
    builtin::line(headers, &TIME).ok().and_then(|text| Unit::Millis.parse(text)).ok_or(Reason::BadTimestamp)
}

/// The listed headers as `name:value;name:value`, sorted; each must be there once.
fn listed(headers: &HeaderMap, list: &str) -> Result<String, Reason> {
    let mut names: Vec<Cow<'_, str>> = list.split(',').map(|name| lower_case(name.trim())).collect();
    names.sort_unstable();
    let has = |name: &HeaderName| names.iter().any(|listed| listed == name.as_str());
    let is_twice = names.windows(2).any(|pair| pair[0] == pair[1]);
    if names.len() > HEADERS_MAX || is_twice || !has(&TOPIC) || !has(&TIME) {
        return Err(Reason::MalformedSignature);
    }
    let mut text = String::with_capacity(256);
    for name in &names {
        let mut lines = headers.get_all(name.as_ref()).iter();
        let (Some(line), None) = (lines.next(), lines.next()) else { return Err(Reason::MalformedSignature) };
        let value = std::str::from_utf8(line.as_bytes()).map_err(|_not_text| Reason::MalformedSignature)?;
        text.extend([if text.is_empty() { "" } else { ";" }, name, ":", value.trim()]);
    }
    Ok(text)
}

fn lower_case(name: &str) -> Cow<'_, str> {
    match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    }
}

fn message<'a>(request: &'a Request, path: &'a str, headers: &'a str) -> [Cow<'a, [u8]>; 7] {
    let text = |text: &'a str| Cow::Borrowed(text.as_bytes());
    let line = || Cow::Borrowed(b"\n".as_slice());
    let body = Cow::Borrowed(&request.body[..]);
    [text(request.method.as_str()), line(), text(path), line(), text(headers), line(), body]
}

/// What JavaScript's `encodeURIComponent` leaves as it is, for the vendor's library is written in it.
const COMPONENT: &AsciiSet = &all_but(NON_ALPHANUMERIC, b"-_.!~*'()");
/// What `encodeURI` leaves as it is.
const WHOLE: &AsciiSet = &all_but(COMPONENT, b";/?:@&=+$,#");

const fn all_but(set: &AsciiSet, kept: &[u8]) -> AsciiSet {
    match kept {
        [first, rest @ ..] => all_but(&set.remove(*first), rest),
        // The sign itself is always escaped.
        [] => set.add(b'%'),
    }
}

/// Path and query as the vendor's library writes them.
fn escaped(target: &str) -> String {
    let path = utf8_percent_encode(address::path(target), WHOLE);
    match query(target).split('?').next().unwrap_or_default() {
        "" => path.to_string(),
        query => {
            let once = utf8_percent_encode(query, COMPONENT).to_string();
            format!("{path}?{}", utf8_percent_encode(&once, WHOLE))
        }
    }
}
