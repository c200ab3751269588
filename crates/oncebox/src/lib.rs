//! The exactly-once webhook inbox, as a library.
//!
//! A webhook comes at least once, in any order, and not always from whom it says. Inside an application three things make
//! its effect happen once: [`Receiver`] verifies a request over its raw bytes, [`Verified::once`] claims the event's id in
//! the same transaction as your writes, and nothing says 2xx before that transaction has committed.
//!
//! ```
//! use oncebox::database::{Pool, StoreError, Transaction};
//! use oncebox::verify::{Request, Secret, Source, SourceError};
//! use oncebox::{Answer, Clock, Receiver};
//!
//! fn receiver() -> Result<Receiver, SourceError> {
//!     let source = Source::of_provider("payments", "stripe", [Secret::new("whsec_0123456789abcdef")])?;
//!     Ok(Receiver::new(source, Clock::system()))
//! }
//!
//! async fn webhook<P: Pool>(receiver: &Receiver, pool: &P, request: Request) -> Answer {
//!     let verified = match receiver.receive(&request, None).await {
//!         Ok(verified) => verified,
//!         // A forged request, a handshake, a body that is too large: this is what to answer.
//!         Err(answer) => return answer,
//!     };
//!     verified
//!         .once(pool, async |tx, event| {
//!             tx.execute("insert into orders (event) values ($1)", vec![event.id.as_str().into()]).await?;
//!             Ok(())
//!         })
//!         .await
//! }
//! # let _ = receiver().unwrap();
//! ```
//!
//! | to … | use |
//! |---|---|
//! | claim an id in a transaction of your own | [`once()`] |
//! | run handlers with retries, leases and dead letters over your own pool | [`inbox::Inbox`] |
//! | call somebody once your transaction has committed | [`outbox::send`] |
//! | create or update the tables | [`database::migrate`] |
//! | hand in your own driver's transaction: sqlx, tokio-postgres, diesel, rusqlite | [`database`] and the features named after them |
//! | only verify requests | [`verify`] |
//!
//! The library reads no environment variables; the clock is passed in.

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
pub use embed::inbox;
pub use embed::receive::{Answer, Event, Outcome, Receiver, Verified};
pub use event::{DeliveryKey, EventKey};
pub use message::{Message, Method, Origin};
pub use oncebox_verify as verify;
pub use vendor::client::{Fetched, VendorClient, VendorError, VendorFuture};
