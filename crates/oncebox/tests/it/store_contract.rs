//! What the store means, on both databases: one file for each duty. Where the two differ, a test here fails.

mod arrivals;
mod arrived_secrets;
mod cancel;
mod concurrent;
mod durability;
mod insert;
mod migrate;
mod model;
mod repeated;
mod reports;
mod views;
