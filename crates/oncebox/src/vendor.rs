//! What must be done over the network before a request can be judged or answered.

pub mod client;
pub(crate) mod key_fetcher;
