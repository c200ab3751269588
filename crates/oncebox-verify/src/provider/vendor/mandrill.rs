//! Mandrill's scheme: the webhook's URL, then every form field's name and value sorted by name, keyed SHA-1.
//!
//! The events are a JSON list inside the one form field `mandrill_events`. The signature does not fix the border between
//! a name and its value, but a list cut short is no list any more, so nothing can be made of that.

use http::HeaderName;

use crate::UnixMillis;
use crate::provider::scheme::{Address, Encoding, Key, KeyForm, Mac, Refused, Verified, Verifier};
use crate::provider::vendor::builtin;
use crate::provider::vendor::twilio::sorted_fields;
use crate::provider::{Compiling, SignError};
use crate::read::form;
use crate::request::Request;
use crate::verdict::{Reason, Rejection};

const SIGNATURE: HeaderName = HeaderName::from_static("x-mandrill-signature");
pub(crate) const EVENTS: &str = "mandrill_events";

#[derive(Clone, Debug)]
pub(crate) struct Mandrill {
    keys: Vec<Key>,
    address: Address,
}

impl Mandrill {
    pub(crate) fn compile(compiling: &mut Compiling<'_>) -> Option<Box<dyn Verifier>> {
        let keys = compiling.keys(|secret| Key::new(Mac::HmacSha1, KeyForm::Utf8, secret));
        Some(Box::new(Self { keys, address: Address::of(compiling)? }))
    }
}

impl Verifier for Mandrill {
    fn verify(&self, request: &Request, _now: UnixMillis) -> Result<Verified, Refused> {
        let given = [builtin::signature(&request.headers, &SIGNATURE, Encoding::Base64)?];
        let fields = sorted_fields(&request.body);
        let urls = self.address.urls(&request.target);
        let fits = |key: &Key| urls.iter().any(|url| key.verify(&message(url, &fields), &given));
        let index = self.keys.iter().position(fits).ok_or(Reason::Mismatch)?;
        // Without it the request is kept for a person: it is genuine, but nobody can tell what it holds.
        let opened = form::field(&request.body, EVENTS).ok().map(|text| text.into_owned().into());
        Ok(Verified { opened, ..Verified::by_key(index) })
    }

    fn judge_head(&self, head: &Request, _now: UnixMillis) -> Result<(), Rejection> {
        builtin::signature(&head.headers, &SIGNATURE, Encoding::Base64)?;
        Ok(())
    }

    fn sign(&self, mut request: Request, _now: UnixMillis) -> Result<Request, SignError> {
        let key = self.keys.first().ok_or(SignError::Incomplete)?;
        let url = self.address.url(&request.target);
        let signature = key.sign(&message(&url, &sorted_fields(&request.body))).ok_or(SignError::Incomplete)?;
        builtin::insert(&mut request.headers, SIGNATURE, &Encoding::Base64.encode(&signature))?;
        Ok(request)
    }

    fn address(&self) -> Option<&Address> {
        Some(&self.address)
    }
}

fn message<'a>(url: &'a str, fields: &'a [u8]) -> [std::borrow::Cow<'a, [u8]>; 2] {
    [url.as_bytes().into(), fields.into()]
}
