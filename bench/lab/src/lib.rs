//! Measurements of Oncebox that are no part of the product: how fast handlers and the relay are, and what a large inbox
//! costs. `bench/contest` shares the load and the figures.

pub mod args;
pub mod database;
pub mod figures;
pub mod fill;
pub mod growth;
pub mod handling;
pub mod instructions;
pub mod load;
pub mod relay;
pub mod server;
pub mod stripe;
pub mod usage;
