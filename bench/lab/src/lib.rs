//! Measurements of Oncebox that are no part of the product. `bench/contest` shares the load and the figures.

pub mod figures;
pub mod load;
pub mod server;
pub mod stripe;
pub mod usage;
