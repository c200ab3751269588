//! How a source's requests are verified: by a compiled description, or by a built-in scheme.

use super::Problem;
use super::address::Address;
use super::builtin::BuiltIn;
use super::scheme::{Scheme, Verified};
use super::sign::{Draft, SignError};
use crate::clock::UnixMillis;
use crate::request::Request;
use crate::source::SourceSpec;
use crate::verdict::Rejection;

/// What verifies and signs a source's requests.
#[derive(Debug)]
pub(crate) enum Verifier {
    /// A description.
    Described(Box<Scheme>),
    /// A scheme with a file of its own.
    BuiltIn(Box<dyn BuiltIn>),
}

impl Verifier {
    /// Compiles a spec; adds what is wrong to `problems`.
    pub(crate) fn compile(spec: &SourceSpec, problems: &mut Vec<Problem>) -> Option<Self> {
        match spec.description.scheme {
            Some(kind) => kind.compile(spec, problems).map(Self::BuiltIn),
            None => Scheme::compile(spec, problems).map(Box::new).map(Self::Described),
        }
    }

    /// Judges signature, then time.
    pub(crate) fn verify(&self, request: &Request, now: UnixMillis) -> Result<Verified, Rejection> {
        match self {
            Self::Described(scheme) => scheme.verify(request, now),
            Self::BuiltIn(scheme) => scheme.verify(request, now),
        }
    }

    /// Adds time and signature to a draft.
    pub(crate) fn sign(&self, draft: Draft, now: UnixMillis) -> Result<Request, SignError> {
        match self {
            Self::Described(scheme) => scheme.sign(draft, now),
            Self::BuiltIn(scheme) => scheme.sign(draft.into_request(), now),
        }
    }

    /// True when the time is part of what is signed, so that a replay is refused after the window.
    pub(crate) fn has_signed_time(&self) -> bool {
        match self {
            Self::Described(scheme) => scheme.has_signed_time(),
            Self::BuiltIn(scheme) => scheme.has_signed_time(),
        }
    }

    /// The public URL, where it is signed.
    pub(crate) fn address(&self) -> Option<&Address> {
        match self {
            Self::Described(scheme) => scheme.address.as_ref(),
            Self::BuiltIn(scheme) => scheme.address(),
        }
    }

    /// The same at another public URL.
    pub(crate) fn moved_to(&self, address: Address) -> Option<Self> {
        match self {
            Self::Described(scheme) => {
                Some(Self::Described(Box::new(Scheme { address: Some(address), ..Scheme::clone(scheme) })))
            }
            Self::BuiltIn(scheme) => scheme.moved_to(address).map(Self::BuiltIn),
        }
    }

    /// The described scheme, if it is one.
    pub(crate) fn described(&self) -> Option<&Scheme> {
        match self {
            Self::Described(scheme) => Some(scheme),
            Self::BuiltIn(_) => None,
        }
    }
}
