//! What the relay does with messages.

pub(super) mod leases;
pub(super) mod messages;
