//! What ingest writes: events and who owns their identities, arrivals, and secrets that a handshake brings.

pub(super) mod arrivals;
pub(super) mod arrived_secrets;
pub(super) mod ledger;
pub(super) mod one_trip;
pub(super) mod same_bytes;
