//! What both listeners share: connections, strict heads, problems as answers, who the client is, and readiness.

pub(crate) mod client;
pub(crate) mod listener;
pub(crate) mod own_calls;
pub(crate) mod problem;
pub(crate) mod ready;
pub(crate) mod strict_head;
pub(crate) mod write_timeout;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

/// All but what stands for itself wherever in a URL it is.
pub(crate) const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
