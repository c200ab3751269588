//! The program from the outside: the real binary on a real port, every test on both databases.

mod actions;
mod alerts;
mod answers;
mod api;
mod arming;
mod bad_http;
mod bad_input;
mod chance;
mod config;
mod crash_points;
mod disconnect;
mod duplicates;
mod erasing;
mod explain_many;
mod fetched_keys;
mod flush;
mod handling;
mod handshakes;
mod identity;
mod kill;
mod lost_claims;
mod metrics;
mod migrating;
mod nodes;
#[cfg(feature = "otel")]
mod otel;
mod outage;
mod pages;
mod relay;
mod retention;
mod security;
mod security_forms;
mod stop;
mod trace;
mod world;
