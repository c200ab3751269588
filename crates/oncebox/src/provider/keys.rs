//! Public keys and tokens, and where they come from.

pub(super) mod curve;
pub(super) mod jwt;
pub(super) mod keyring;
pub(super) mod pin;
pub(super) mod public_key;
pub(super) mod vendor_keys;
