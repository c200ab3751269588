//! Oncebox: the exactly-once webhook inbox, as a library.
//!
//! The modules follow the path of one webhook: a [`request`] is judged by its [`source`], which knows its
//! [`provider`]; the [`verdict`] carries events with an identity; [`ingest`] joins them to a commit of the [`store`].
//! The library reads no environment and no clock of its own: both are handed in.

pub mod clock;
pub mod errands;
pub mod event;
pub mod fault;
pub mod limits;
pub mod provider;
pub mod request;
pub mod routing;
pub mod secret;
pub mod shutdown;
pub mod source;
pub mod verdict;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod ingest;
#[cfg(feature = "http")]
pub mod outgoing;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod store;
