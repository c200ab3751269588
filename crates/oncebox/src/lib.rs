//! Oncebox: the exactly-once webhook inbox, as a library.
//!
//! Inside an application: [`Receiver`] verifies a request and answers behind the commit, [`once()`] claims an id in a
//! transaction of the application's own, [`Inbox`] runs handlers over its pool, [`outbox::send`] writes what is to be sent;
//! [`database`] is the seam to its driver.
//!
//! The modules follow the path of one webhook: [`verify`] judges a request, `ingest` joins its events to a commit of the
//! `store`, `worker` runs handlers, `relay` sends what they wrote.
//!
//! The library reads no environment and no clock of its own: both are handed in.

pub mod clock;
pub mod database;
pub mod delivery;
pub mod embed;
pub mod event;
pub mod fault;
pub mod lane;
pub mod limits;
pub mod message;
pub mod sealed;
pub mod shutdown;
pub mod trace;
pub mod vendor;
pub mod wake;

#[cfg(any(feature = "http", feature = "postgres"))]
mod authorities;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod ingest;
#[cfg(feature = "http")]
pub mod outgoing;
#[cfg(all(feature = "http", any(feature = "sqlite", feature = "postgres")))]
pub mod relay;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod retention;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod store;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod worker;

pub use database::verb::once::{Once, once};
pub use database::verb::outbox;
pub use delivery::handler_error::HandlerError;
pub use embed::inbox::{self, Inbox};
pub use embed::receive::{self, Answer, Event, Outcome, Receiver, Verified};
pub use oncebox_verify as verify;
