//! Oncebox: the exactly-once webhook inbox, as a library.

pub mod clock;
pub mod event;
pub mod provider;
pub mod request;
pub mod secret;
pub mod source;
pub mod verdict;
