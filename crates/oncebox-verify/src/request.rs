//! One HTTP request as it came in: what a source judges. Bytes are kept exactly as received.

use bytes::Bytes;
use http::{HeaderMap, Method};

/// A request to an ingest URL.
#[derive(Clone, Debug)]
pub struct Request {
    /// The HTTP method.
    pub method: Method,
    /// Path and query exactly as received, or the full URL when a capture has it.
    pub target: String,
    /// All headers, names in lower case, repeated ones in order.
    pub headers: HeaderMap,
    /// The raw body.
    pub body: Bytes,
}
