//! Providers: how a kind of sender signs, names and types its events.
//!
//! A provider is data: a [`Description`] from the catalogue, a user's own, or one laid over the other. Building a
//! [`crate::Source`] compiles it once; judging a request then only reads. The few vendors whose scheme no description can
//! say have a file of their own in `vendor/`.

pub(crate) mod catalogue;
pub(crate) mod description;
pub(crate) mod identity;
pub(crate) mod keys;
pub(crate) mod scheme;
pub(crate) mod sign;
pub(crate) mod spec;
pub(crate) mod vendor;

pub(crate) use description::{Description, Problem, SETTINGS};
pub(crate) use sign::SignError;
pub(crate) use spec::{Compiling, SourceSpec};
