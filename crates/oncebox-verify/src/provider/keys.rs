//! Public keys and tokens, and where they come from.

pub(crate) mod curve;
pub(crate) mod jwt;
pub(crate) mod keyring;
pub(crate) mod pin;
pub(crate) mod public_key;
pub(crate) mod vendor_keys;
