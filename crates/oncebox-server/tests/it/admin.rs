//! The admin API: what operators do and read, and who may.

mod actions;
mod api;
mod erasing;
mod joined;
pub(crate) mod security;
