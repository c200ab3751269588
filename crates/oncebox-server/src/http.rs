//! What both listeners share: connections, strict heads, problems as answers, who the client is, and readiness.

pub(crate) mod client;
pub(crate) mod listener;
pub(crate) mod own_calls;
pub(crate) mod problem;
pub(crate) mod ready;
pub(crate) mod strict_head;
pub(crate) mod token;
pub(crate) mod write_timeout;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

/// All but what stands for itself wherever in a URL it is.
pub(crate) const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response};
use http_body_util::Full;

/// A target longer than this is answered 414.
pub(crate) const TARGET_BYTES_MAX: usize = 8 * 1024;

pub(crate) fn json(body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
