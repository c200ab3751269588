//! What both listeners share: connections, strict heads, problems as answers, who the client is, and readiness.

pub(crate) mod client;
pub(crate) mod listener;
pub(crate) mod problem;
pub(crate) mod ready;
pub(crate) mod strict_head;
pub(crate) mod write_timeout;
