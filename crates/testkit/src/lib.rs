//! What the tests of Oncebox share: fresh databases, signed senders, the running program and the checker.
//!
//! Nothing here uses the library's own code to decide what is right: signatures, digests and counts are made a
//! second time, so that a mistake in the library cannot hide in its own test. A broken environment (no Postgres, no
//! free port) is a panic with the cure in it, never a skipped test.

pub mod bouncer;
pub mod database;
pub mod effects;
pub mod http;
pub mod ledger;
pub mod oracle;
pub mod postgres;
pub mod preload;
mod process;
pub mod program;
pub mod proxy;
pub mod receiver;
pub mod sender;
pub mod session;
pub mod vendor;

pub use database::{Backend, TestDatabase};
pub use process::{allow_open_files, spawn_child};
pub use program::free_port;
pub use session::Session;
