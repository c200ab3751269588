//! What operators read: lists, counts and findings.

pub(super) mod deliveries;
pub(super) mod events;
pub(super) mod inspect;
pub(super) mod key_range;
pub(super) mod messages;
pub(super) mod reconcile;
pub(super) mod schema_pieces;
