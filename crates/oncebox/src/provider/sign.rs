//! The inverse of verifying: signs a request as the vendor would.
//!
//! Sample senders and load tests use it, and it keeps the engine honest: what a description signs it must accept. It
//! reads the same compiled scheme, so a provider needs no second description to be sent.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::describe::{CarriedAt, TimeAt};
use super::mac::{Key, Mac};
use super::place::{Place, View};
use super::scheme::Scheme;
use super::template::Filling;
use crate::clock::UnixMillis;
use crate::request::Request;

/// A request before it is signed.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Path and query, or the full URL.
    pub target: String,
    /// Headers that are not made by signing: the id, the type, the content type.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// Why a draft cannot be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// Only the vendor's private key could sign.
    #[error("this provider signs with a private key that only the vendor has")]
    PrivateKey,
    /// The signature would have to be written into the body or the URL.
    #[error("this provider does not carry its signature in a header")]
    NotInHeader,
    /// A value that is signed is missing from the draft, or cannot stand in a header.
    #[error("a header or field that this provider signs is missing from the draft")]
    Incomplete,
}

impl Draft {
    /// The request without a signature.
    pub fn into_request(self) -> Request {
        Request { method: Method::POST, target: self.target, headers: self.headers, body: self.body }
    }
}

impl Scheme {
    /// Adds time and signature to a draft.
    pub(crate) fn sign(&self, draft: Draft, now: UnixMillis) -> Result<Request, SignError> {
        let mut request = draft.into_request();
        let (carrier, keys) = self.carriers.first().ok_or(SignError::Incomplete)?;
        let key = keys.first().ok_or(SignError::Incomplete)?;
        let CarriedAt::Headers(names) = &carrier.at else { return Err(SignError::NotInHeader) };
        let name = names.first().ok_or(SignError::Incomplete)?.replace('*', "1");
        for (header, value) in &self.require {
            let value = HeaderValue::from_bytes(value.expose()).map_err(|_invalid| SignError::Incomplete)?;
            request.headers.insert(header.clone(), value);
        }
        let time = self.stamp(&mut request, now)?;
        let signature = match self.mac {
            Mac::Equal => String::from_utf8(key.expose().to_vec()).map_err(|_not_utf8| SignError::Incomplete)?,
            Mac::Basic => format!("Basic {}", super::mac::Encoding::Base64.encode(key.expose())),
            _ => self.enc.encode(&self.raw_signature(&request, key, &time)?),
        };
        let split = carrier.split.as_deref().unwrap_or_default();
        let line = match self.time.as_ref().map(|time| &time.at) {
            Some(TimeAt::Item(tag)) => format!("{tag}{time}{split}{}{signature}", carrier.item),
            Some(TimeAt::Position(_)) => format!("{time}{split}{}{signature}", carrier.item),
            _ => format!("{}{signature}", carrier.item),
        };
        insert(&mut request.headers, &name, &line)?;
        Ok(request)
    }

    /// Writes the time where the vendor puts it in a header, and returns its text.
    fn stamp(&self, request: &mut Request, now: UnixMillis) -> Result<String, SignError> {
        let Some(time) = &self.time else { return Ok(String::new()) };
        let text = time.unit.format(now);
        if let TimeAt::Header(part) = &time.at
            && let Some(Place::Header(name)) = part.places().first()
        {
            insert(&mut request.headers, name.as_str(), &text)?;
        }
        Ok(text)
    }

    fn raw_signature(&self, request: &Request, key: &Key, time: &str) -> Result<Vec<u8>, SignError> {
        let view = View::new(request, &self.wants);
        let url = self.address.as_ref().map_or_else(String::new, |address| address.with_query_of(&request.target));
        let filling = Filling { request, view: &view, time, url: &url };
        let message: Vec<Cow<'_, [u8]>> = self.template.render(&filling, key.expose()).ok_or(SignError::Incomplete)?;
        key.sign(&message).ok_or(SignError::PrivateKey)
    }
}

fn insert(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), SignError> {
    let name = HeaderName::try_from(name).map_err(|_invalid| SignError::Incomplete)?;
    let value = HeaderValue::from_str(value).map_err(|_invalid| SignError::Incomplete)?;
    headers.insert(name, value);
    Ok(())
}
