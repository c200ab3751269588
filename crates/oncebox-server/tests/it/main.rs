//! The program from the outside: the real binary on a real port, every test on both databases.

mod actions;
mod answers;
mod api;
mod arming;
mod bad_http;
mod bad_input;
mod chance;
mod config;
mod crash_points;
mod disconnect;
mod erasing;
mod explain_many;
mod fetched_keys;
mod handling;
mod handshakes;
mod identity;
mod kill;
mod migrating;
mod nodes;
mod outage;
mod relay;
mod security;
mod stop;
mod world;
