//! The only integration test binary of the library: one file per part, listed here.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod application;
mod crash_sweep;
mod fetched_keys;
mod ingest;
mod providers;
mod pull;
mod retention;
mod store_contract;
mod tidy;
mod worker;
mod world;
