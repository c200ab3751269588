//! What the store means, on both databases: one file for each duty. Where the two differ, a test here fails.

mod actions;
mod alerts;
mod arrivals;
mod arrived_secrets;
mod backup;
mod cancel;
mod concurrent;
pub(crate) mod deliveries;
mod durability;
mod effects;
mod erase;
mod filler;
mod insert;
mod inspect;
mod lost;
mod migrate;
mod model;
mod once;
mod operators;
mod order;
mod outbox;
mod overlap;
mod plans;
mod repeated;
mod reports;
mod sessions;
mod views;
