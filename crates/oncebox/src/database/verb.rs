//! What is done in a transaction, written once for every driver.

pub(crate) mod claimed;
pub(crate) mod deliveries;
pub(crate) mod marked;
pub(crate) mod once;
pub mod outbox;
pub(crate) mod steady;
pub(crate) mod steps;
