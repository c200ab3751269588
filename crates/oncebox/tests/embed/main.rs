//! The library inside applications: every driver, the extractor, handlers and steps. Needs the adapters' features.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod crash;
mod documents;
mod handlers;
mod ids;
mod migrating;
mod outbox;
mod patterns;
mod races;
mod registering;
mod steps;
mod world;
mod wrong;
