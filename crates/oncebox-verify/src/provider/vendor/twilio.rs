//! Twilio's scheme: the configured URL, then every form field's name and value sorted by name, without separators.
//!
//! The message does not fix the body's bytes: escapes, order and even the border between a name and its value may
//! change under one signature. So the digest that the referees see is that of the message, not of the body. For JSON
//! the URL alone is signed, and its `bodySHA256` field fixes the body.

use std::borrow::Cow;

use http::HeaderName;
use subtle::ConstantTimeEq;

use crate::UnixMillis;
use crate::digest::{Digest, sha256};
use crate::provider::scheme::address::with_other_port;
use crate::provider::scheme::place::query;
use crate::provider::scheme::{Address, Encoding, Key, KeyForm, Mac, Refused, Verified, Verifier};
use crate::provider::vendor::builtin;
use crate::provider::{Compiling, SignError};
use crate::read::{NoText, form};
use crate::request::Request;
use crate::verdict::{Reason, Rejection};

/// The query field that holds the body's SHA-256.
const HASH: &str = "bodySHA256";
const SIGNATURE: HeaderName = HeaderName::from_static("x-twilio-signature");

#[derive(Clone, Debug)]
pub(crate) struct Twilio {
    keys: Vec<Key>,
    address: Address,
    bodies: Bodies,
}

/// What bodies a product of Twilio's sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bodies {
    /// Forms, or anything with its hash in the URL.
    FormOrHash,
    /// Only with its hash in the URL.
    Hash,
}

impl Twilio {
    pub(crate) fn compile(compiling: &mut Compiling<'_>, bodies: Bodies) -> Option<Box<dyn Verifier>> {
        let keys = compiling.keys(|secret| Key::new(Mac::HmacSha1, KeyForm::Utf8, secret));
        let address = Address::of(compiling)?;
        Some(Box::new(Self { keys, address, bodies }))
    }
}

impl Verifier for Twilio {
    fn verify(&self, request: &Request, _now: UnixMillis) -> Result<Verified, Refused> {
        let given = [builtin::signature(&request.headers, &SIGNATURE, Encoding::Base64)?];
        let signed = Signed::new(request);
        if self.bodies == Bodies::Hash && !has_hash(&request.target) {
            return Err(Reason::MalformedSignature.into());
        }
        let urls = self.address.urls(&request.target);
        let fits = |key: &Key| urls.iter().any(|url| signed.verify(key, url, &given));
        let found = self.keys.iter().position(fits);
        let index = found.ok_or(Reason::Mismatch)?;
        Ok(Verified { covered: signed.digest(), ..Verified::by_key(index) })
    }

    fn judge_head(&self, head: &Request, _now: UnixMillis) -> Result<(), Rejection> {
        builtin::signature(&head.headers, &SIGNATURE, Encoding::Base64)?;
        Ok(())
    }

    fn sign(&self, mut request: Request, _now: UnixMillis) -> Result<Request, SignError> {
        let key = self.keys.first().ok_or(SignError::Incomplete)?;
        if self.bodies == Bodies::Hash && !has_hash(&request.target) {
            let mark = if request.target.contains('?') { '&' } else { '?' };
            request.target.push(mark);
            request.target.push_str(&format!("{HASH}={}", Encoding::Hex.encode(&sha256(&request.body))));
        }
        let url = self.address.url(&request.target);
        let signature = key.sign(&Signed::new(&request).message(&url)).ok_or(SignError::Incomplete)?;
        builtin::insert(&mut request.headers, SIGNATURE, &Encoding::Base64.encode(&signature))?;
        Ok(request)
    }

    fn address(&self) -> Option<&Address> {
        Some(&self.address)
    }
}

/// What Twilio signs for a request, without the URL.
#[derive(Debug)]
struct Signed {
    fields: Vec<u8>,
    body_fits: bool,
}

impl Signed {
    fn new(request: &Request) -> Self {
        match form::field(query(&request.target).as_bytes(), HASH) {
            Err(NoText::Missing) => Self { fields: sorted_fields(&request.body), body_fits: true },
            Ok(hash) => Self { fields: Vec::new(), body_fits: is_hash_of(&hash, &request.body) },
            Err(_) => Self { fields: Vec::new(), body_fits: false },
        }
    }

    /// True when one of the signatures belongs to the request at this URL, with or without its default port.
    fn verify(&self, key: &Key, url: &str, signatures: &[Vec<u8>]) -> bool {
        let matches = |url: &str| key.verify(&self.message(url), signatures);
        self.body_fits && (matches(url) || matches(&with_other_port(url)))
    }

    fn message<'a>(&'a self, url: &'a str) -> [Cow<'a, [u8]>; 2] {
        [Cow::Borrowed(url.as_bytes()), Cow::Borrowed(&self.fields)]
    }

    /// What the signature fixes of a form body; none where it fixes the bytes.
    fn digest(&self) -> Option<Digest> {
        (!self.fields.is_empty()).then(|| sha256(&self.fields))
    }
}

fn has_hash(target: &str) -> bool {
    !matches!(form::field(query(target).as_bytes(), HASH), Err(NoText::Missing))
}

/// Names and values, sorted; a name that stands several times gives its distinct values in order.
pub(crate) fn sorted_fields(body: &[u8]) -> Vec<u8> {
    let mut pairs: Vec<_> = form::pairs(body).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let mut fields = Vec::with_capacity(body.len());
    for (name, value) in &pairs {
        fields.extend_from_slice(name);
        fields.extend_from_slice(value);
    }
    fields
}

fn is_hash_of(hash: &str, body: &[u8]) -> bool {
    Encoding::Hex.decode(hash).is_some_and(|hash| bool::from(hash.as_slice().ct_eq(&sha256(body))))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};

    use super::*;
    use crate::secret::Secret;

    const BODY: &str =
        "Digits=1234&To=%2B18005551212&From=%2B14158675309&Caller=%2B14158675309&CallSid=CA1234567890ABCDE";
    const URL: &str = "https://mycompany.com/myapp.php?foo=1&bar=2";

    /// The helper libraries' vector: token 12345.
    fn check(target: &str, body: &str, signature: &str, expected: bool) {
        let key = Key::new(Mac::HmacSha1, KeyForm::Utf8, &Secret::new("12345")).unwrap();
        let given = Encoding::Base64.decode(signature).unwrap();
        let request = Request {
            method: Method::POST,
            target: target.to_owned(),
            headers: HeaderMap::new(),
            body: body.to_owned().into(),
        };
        assert_eq!(Signed::new(&request).verify(&key, target, &[given]), expected, "{target}");
    }

    #[test]
    fn the_published_vector() {
        check(URL, BODY, "RSOYDt4T1cUTdK1PDd93/VVr8B8=", true);
        check("https://mycompany.com:443/myapp.php?foo=1&bar=2", BODY, "RSOYDt4T1cUTdK1PDd93/VVr8B8=", true);
        check("https://mycompany.com/myapp.php?foo=1", BODY, "RSOYDt4T1cUTdK1PDd93/VVr8B8=", false);
        check(URL, &BODY.replace("1234&", "1235&"), "RSOYDt4T1cUTdK1PDd93/VVr8B8=", false);
    }

    #[test]
    fn a_json_body_is_fixed_by_its_hash_in_the_url() {
        let hash = "0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620";
        let url = format!("{URL}&bodySHA256={hash}");
        check(&url, "{\"property\": \"value\", \"boolean\": true}", "a9nBmqA0ju/hNViExpshrM61xv4=", true);
        check(&url, "{\"property\": \"value\", \"boolean\": false}", "a9nBmqA0ju/hNViExpshrM61xv4=", false);
    }

    #[test]
    fn repeated_names_give_their_distinct_values_in_order() {
        assert_eq!(sorted_fields(b"b=2&a=z&b=1&b=2&a=z"), b"azb1b2");
    }

    #[test]
    fn what_the_signature_does_not_fix_does_not_change_the_digest() {
        let digest = |body: &str| {
            let request = Request {
                method: Method::POST,
                target: "/in/sms".to_owned(),
                headers: HeaderMap::new(),
                body: body.to_owned().into(),
            };
            Signed::new(&request).digest()
        };
        assert_eq!(digest("a=b&c=d"), digest("c=%64&a=b&&"));
        assert_eq!(digest("a=bc"), digest("ab=c"));
        assert_ne!(digest("a=b"), digest("a=c"));
    }
}
