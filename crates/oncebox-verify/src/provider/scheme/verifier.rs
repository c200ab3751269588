//! How a source's requests are verified: by a compiled description, or by a built-in scheme.

use crate::Problem;
use crate::UnixMillis;
use crate::provider::SourceSpec;
use crate::provider::keys::keyring::Keyring;
use crate::provider::scheme::address::Address;
use crate::provider::scheme::place::{View, Wants};
use crate::provider::scheme::{Scheme, Verified};
use crate::provider::sign::{Draft, SignError};
use crate::provider::vendor::builtin::BuiltIn;
use crate::request::Request;
use crate::verdict::{KeyWanted, Rejection};

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

    /// The same, by a view that others read from too, so that the body is scanned once.
    pub(crate) fn verify_in<'a>(
        &self,
        request: &'a Request,
        view: &View<'a, '_>,
        now: UnixMillis,
    ) -> Result<Verified, Rejection> {
        match self {
            Self::Described(scheme) if view.suits(&scheme.wants) => scheme.verify_in(request, view, now),
            _ => self.verify(request, now),
        }
    }

    /// Judges what the head alone tells: whoever is refused here would be refused with any body.
    pub(crate) fn judge_head(&self, head: &Request, now: UnixMillis) -> Result<(), Rejection> {
        match self {
            Self::Described(scheme) => scheme.judge_head(head, now),
            Self::BuiltIn(scheme) => scheme.judge_head(&head.headers, now),
        }
    }

    /// What a described scheme reads from the request.
    pub(crate) fn wants(&self) -> Option<&Wants> {
        self.described().map(|scheme| &scheme.wants)
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

    /// What the source's own key makes of a text, as the vendor writes its signatures.
    pub(crate) fn answer(&self, text: &str) -> Option<String> {
        match self {
            Self::Described(scheme) => scheme.answer(text),
            Self::BuiltIn(scheme) => scheme.answer(text),
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

    /// The key that must be fetched first, after `verify` said that it is not known.
    pub(crate) fn key_wanted(&self, request: &Request, now: UnixMillis) -> Option<KeyWanted> {
        self.built_in().and_then(|scheme| scheme.key_wanted(request, now))
    }

    /// The fetched keys, where there may be some.
    pub(crate) fn keyring(&self) -> Option<&Keyring> {
        self.built_in().and_then(BuiltIn::keyring)
    }

    /// The URL that a verified request wants visited.
    pub(crate) fn visit(&self, request: &Request) -> Option<String> {
        self.built_in().and_then(|scheme| scheme.visit(request))
    }

    fn built_in(&self) -> Option<&dyn BuiltIn> {
        match self {
            Self::Described(_) => None,
            Self::BuiltIn(scheme) => Some(&**scheme),
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
