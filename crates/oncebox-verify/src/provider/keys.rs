//! Public keys and tokens, and where they come from.

pub(crate) mod curve;
pub(crate) mod jwt;
pub(crate) mod keyring;
pub(crate) mod pin;
pub(crate) mod public_key;
pub(crate) mod vendor_keys;

pub(crate) use jwt::Jwt;
pub(crate) use keyring::Keyring;
pub(crate) use pin::Pin;
pub(crate) use public_key::Algorithm;
pub(crate) use vendor_keys::{VendorKeys, first_match};
