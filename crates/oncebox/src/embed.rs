//! Inside an application: what it hands its own requests, transactions and pool to.

#[cfg(feature = "axum")]
mod extract;
pub mod inbox;
pub(crate) mod receive;
