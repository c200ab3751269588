//! What the store means, on both databases: one room for each of its tasks. Where the two differ, a test here fails.

mod actions;
mod alerts;
mod database;
pub(crate) mod deliveries;
mod insert;
mod once;
mod outbox;
mod reports;
