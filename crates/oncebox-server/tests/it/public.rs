//! The public listener: what it takes, what it refuses, and what each answer leaves behind.

mod answers;
mod arming;
mod bad_http;
mod bad_input;
mod disconnect;
mod duplicates;
mod explain_many;
mod fetched_keys;
mod handshakes;
mod identity;
mod nodes;
mod refusals;
mod unproved;
