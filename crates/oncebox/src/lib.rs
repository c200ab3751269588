//! Oncebox: the exactly-once webhook inbox, as a library.
//!
//! The modules follow the path of one webhook: a [`request`] is judged by its [`source`], which knows its
//! [`provider`]; the [`verdict`] carries events with an identity; `ingest` joins them to a commit of the `store`.
//!
//! Inside an application: [`receive`] verifies and answers behind the commit, [`once`](mod@once) claims an id in a
//! transaction of the application's own, [`inbox`] runs handlers over its pool, [`outbox`] writes what is to be sent;
//! [`adapter`] is the seam to its driver.
//!
//! The library reads no environment and no clock of its own: both are handed in.

pub mod adapter;
pub mod circuit;
pub mod clock;
pub mod delivery;
pub mod errands;
pub mod event;
pub mod fault;
pub mod forward;
mod handler_error;
pub mod inbox;
pub mod limits;
pub mod masks;
pub mod message;
pub mod once;
pub mod order;
pub mod outbox;
pub mod rate;
pub mod receive;
pub mod retry;
pub mod routing;
pub mod sealed;
pub mod shutdown;
mod steady;
pub mod trace;
mod vendor_desk;
pub mod wake;

#[cfg(any(feature = "http", feature = "postgres"))]
mod authorities;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod begun;
#[cfg(feature = "axum")]
mod extract;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod handler;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod ingest;
#[cfg(feature = "http")]
pub mod outgoing;
#[cfg(all(feature = "http", any(feature = "sqlite", feature = "postgres")))]
pub mod relay;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod retention;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod running;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod store;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod worker;

pub use handler_error::HandlerError;
pub use inbox::Inbox;
pub use once::{Once, once};
pub use oncebox_verify as verify;
pub use receive::{Answer, Event, Outcome, Receiver, Verified};
