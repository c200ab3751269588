//! Twilio's scheme: the configured URL, then every form field's name and value sorted by name, without separators.
//!
//! The message does not fix the body's bytes: escapes, order and even the border between a name and its value may
//! change under one signature. So the digest that the referees see is that of the message, not of the body. For JSON
//! the URL alone is signed, and its `bodySHA256` field fixes the body.

use std::borrow::Cow;
use std::collections::BTreeSet;

use subtle::ConstantTimeEq;

use super::address::with_other_port;
use super::form;
use super::mac::{Encoding, Key};
use super::place::query;
use crate::event::{Digest, sha256};
use crate::request::Request;

/// What Twilio signs for a request, without the URL.
#[derive(Debug)]
pub(crate) struct Signed {
    fields: Vec<u8>,
    body_fits: bool,
}

impl Signed {
    /// Reads a request.
    pub(crate) fn new(request: &Request) -> Self {
        match form::field(query(&request.target).as_bytes(), "bodySHA256") {
            form::Field::Missing => Self { fields: sorted_fields(&request.body), body_fits: true },
            form::Field::Text(hash) => Self { fields: Vec::new(), body_fits: is_hash_of(&hash, &request.body) },
            form::Field::Ambiguous | form::Field::NotText => Self { fields: Vec::new(), body_fits: false },
        }
    }

    /// True when one of the signatures belongs to the request at this URL, with or without its default port.
    pub(crate) fn verify(&self, key: &Key, url: &str, signatures: &[Vec<u8>]) -> bool {
        let matches = |url: &str| key.verify(&self.message(url), signatures);
        self.body_fits && (matches(url) || matches(&with_other_port(url)))
    }

    /// The signed message.
    pub(crate) fn message<'a>(&'a self, url: &'a str) -> [Cow<'a, [u8]>; 2] {
        [Cow::Borrowed(url.as_bytes()), Cow::Borrowed(&self.fields)]
    }

    /// What the signature fixes of a form body; none where it fixes the bytes.
    pub(crate) fn digest(&self) -> Option<Digest> {
        (!self.fields.is_empty()).then(|| sha256(&self.fields))
    }
}

/// Names and values, sorted; a name that stands several times gives its distinct values in order.
fn sorted_fields(body: &[u8]) -> Vec<u8> {
    let pairs: BTreeSet<_> = form::pairs(body).collect();
    pairs.iter().flat_map(|(name, value)| [name.as_ref(), value.as_ref()]).flatten().copied().collect::<Vec<u8>>()
}

fn is_hash_of(hash: &str, body: &[u8]) -> bool {
    Encoding::Hex.decode(hash).is_some_and(|hash| bool::from(hash.as_slice().ct_eq(&sha256(body))))
}
