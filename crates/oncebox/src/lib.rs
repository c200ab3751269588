//! Oncebox: the exactly-once webhook inbox, as a library.
//!
//! The modules follow the path of one webhook: a [`request`] is judged by its [`source`], which knows its
//! [`provider`]; the [`verdict`] carries events with an identity; [`ingest`] joins them to a commit of the [`store`].
//! The library reads no environment and no clock of its own: both are handed in.

pub mod circuit;
pub mod clock;
pub mod delivery;
pub mod errands;
pub mod event;
pub mod fault;
pub mod forward;
pub mod limits;
pub mod message;
pub mod order;
pub mod provider;
pub mod rate;
pub mod request;
pub mod retry;
pub mod routing;
pub mod sealed;
pub mod secret;
pub mod shutdown;
pub mod source;
pub mod verdict;
pub mod wake;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod handler;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod ingest;
#[cfg(feature = "http")]
pub mod outgoing;
#[cfg(all(feature = "http", any(feature = "sqlite", feature = "postgres")))]
pub mod relay;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod store;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod worker;
