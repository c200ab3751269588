//! The only integration test binary of the library: one file per part, listed here.

mod crash_sweep;
mod ingest;
mod store_contract;
mod tidy;
mod world;
