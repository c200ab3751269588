//! What a provider is, as data.

pub(super) mod describe;
pub(super) mod facts;
pub(super) mod field;
