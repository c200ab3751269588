//! What verifies and signs a source's requests: a compiled description, or a scheme with a file of its own.

use std::fmt;

use crate::UnixMillis;
use crate::provider::keys::Keyring;
use crate::provider::scheme::{Address, Scheme, Verified, View};
use crate::provider::{Compiling, SignError};
use crate::request::Request;
use crate::verdict::{KeyWanted, Reason, Rejection};

#[derive(Debug)]
pub(crate) enum Refused {
    Rejected(Rejection),
    /// It cannot be judged before this key is there.
    NeedsKey(KeyWanted),
}

impl From<Rejection> for Refused {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl From<Reason> for Refused {
    fn from(reason: Reason) -> Self {
        Self::Rejected(reason.into())
    }
}

pub(crate) trait Verifier: fmt::Debug + Send + Sync {
    /// Judges signature, then time.
    fn verify(&self, request: &Request, now: UnixMillis) -> Result<Verified, Refused>;

    /// The same, by a view that others read from too, so that the body is scanned once.
    fn verify_in<'a>(&self, request: &'a Request, _view: &View<'a, '_>, now: UnixMillis) -> Result<Verified, Refused> {
        self.verify(request, now)
    }

    /// Refuses by the head alone what `verify` would refuse with any body.
    fn judge_head(&self, _head: &Request, _now: UnixMillis) -> Result<(), Rejection> {
        Ok(())
    }

    /// Adds time and signature to a request, so that `verify` accepts it.
    fn sign(&self, request: Request, now: UnixMillis) -> Result<Request, SignError>;

    /// What the source's own key makes of a challenge; none where that would sign something else.
    fn answer(&self, _challenge: &str) -> Option<String> {
        None
    }

    /// The public URL, where it is signed.
    fn address(&self) -> Option<&Address> {
        None
    }

    /// The fetched keys, where there may be some.
    fn keyring(&self) -> Option<&Keyring> {
        None
    }

    /// The URL that a verified request wants visited in place of being stored.
    fn visit(&self, _request: &Request) -> Option<String> {
        None
    }

    fn described(&self) -> Option<&Scheme> {
        None
    }
}

pub(crate) fn compile(compiling: &mut Compiling<'_>) -> Option<Box<dyn Verifier>> {
    match compiling.spec.description.scheme {
        Some(scheme) => (scheme.compile)(compiling),
        None => Some(Box::new(Scheme::compile(compiling)?)),
    }
}
