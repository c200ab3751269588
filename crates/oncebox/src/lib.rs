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

mod clock;
pub mod database;
mod delivery;
mod embed;
mod event;
mod fault;
#[doc(hidden)]
pub mod gateway;
mod lane;
mod limits;
mod message;
mod sealed;
mod shutdown;
mod trace;
mod vendor;
mod wake;

#[cfg(any(feature = "http", feature = "postgres"))]
mod authorities;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod ingest;
#[cfg(feature = "http")]
mod outgoing;
#[cfg(all(feature = "http", any(feature = "sqlite", feature = "postgres")))]
mod relay;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod retention;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod store;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod worker;

pub use clock::Clock;
pub use database::verb::once::{Once, once};
pub use database::verb::outbox;
pub use delivery::handler_error::HandlerError;
pub use delivery::retry::RetryPolicy;
pub use embed::inbox::{self, Inbox};
pub use embed::receive::{self, Answer, Event, Outcome, Receiver, Verified};
pub use message::Message;
pub use oncebox_verify as verify;
