//! The program from the outside: the real binary on a real port, every test on both databases. One room for each part.

mod admin;
mod chance;
mod dashboard;
mod faults;
mod handling;
mod observe;
mod public;
mod relay;
mod retention;
mod serve;
mod world;
