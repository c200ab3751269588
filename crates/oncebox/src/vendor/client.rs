//! What must be done over the network before a request can be answered: fetch a vendor's key, visit a confirmation.
//!
//! Judging never reaches out; it says what it lacks. The program hands in somebody who goes: `outgoing::VendorCalls` with
//! the feature `http`, a stand-in in tests, [`NoVendorClient`] where the operator gave all keys.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;

use oncebox_verify::{KeyWanted, Visit};

/// A call that is under way.
pub type VendorFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, VendorError>> + Send + 'a>>;

/// Somebody who goes to vendors.
pub trait VendorClient: fmt::Debug + Send + Sync {
    /// Fetches the text that holds a key.
    fn fetch<'a>(&'a self, wanted: &'a KeyWanted) -> VendorFuture<'a, Fetched>;

    /// Visits a URL; success is a 2xx.
    fn visit<'a>(&'a self, visit: &'a Visit) -> VendorFuture<'a, ()>;
}

/// What an address answered.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The text that holds the keys.
    pub text: Bytes,
    /// How long the vendor says it may be kept.
    pub max_age: Option<Duration>,
}

/// Why a call to a vendor failed: a sentence for the log, without any secret.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct VendorError(pub String);

/// Goes nowhere.
#[derive(Clone, Copy, Debug)]
pub struct NoVendorClient;

impl VendorClient for NoVendorClient {
    fn fetch<'a>(&'a self, _wanted: &'a KeyWanted) -> VendorFuture<'a, Fetched> {
        Box::pin(async { Err(VendorError("nobody is there to fetch keys".to_owned())) })
    }

    fn visit<'a>(&'a self, _visit: &'a Visit) -> VendorFuture<'a, ()> {
        Box::pin(async { Err(VendorError("nobody is there to visit confirmations".to_owned())) })
    }
}
