//! The inverse of verifying: signs a request as the vendor would.
//!
//! Sample senders and load tests use it, and it keeps the engine honest: what a description signs it must accept. It
//! reads the same compiled scheme, so a provider needs no second description to be sent.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use serde_json::Value;

use crate::UnixMillis;
use crate::provider::description::describe::{CarriedAt, SignatureLocation, TimeAt};
use crate::provider::scheme::template::Filling;
use crate::provider::scheme::{Key, Mac, Place, Scheme, View};
use crate::provider::vendor::builtin::insert;
use crate::read::form;
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
#[non_exhaustive]
pub enum SignError {
    /// Only the vendor's private key could sign.
    #[error("this provider signs with a private key that only the vendor has")]
    PrivateKey,
    /// The signature would have to be written where nobody can put it afterwards.
    #[error("this provider does not carry its signature in a header, a JSON body or the query")]
    NotInHeader,
    /// A value that is signed is missing from the draft, or cannot stand in a header.
    #[error("a header or field that this provider signs is missing from the draft")]
    Incomplete,
}

impl Scheme {
    pub(crate) fn signed(&self, mut request: Request, now: UnixMillis) -> Result<Request, SignError> {
        let (carrier, keys) = self.carriers.first().ok_or(SignError::Incomplete)?;
        let key = keys.first().ok_or(SignError::Incomplete)?;
        for (header, value) in &self.require {
            let value = HeaderValue::from_bytes(value.expose()).map_err(|_invalid| SignError::Incomplete)?;
            request.headers.insert(header.clone(), value);
        }
        let time = self.stamp(&mut request, now)?;
        let signature = match self.mac {
            Mac::Equal => String::from_utf8(key.expose().to_vec()).map_err(|_not_utf8| SignError::Incomplete)?,
            Mac::Basic => format!("Basic {}", crate::provider::scheme::mac::Encoding::Base64.encode(key.expose())),
            _ => self.enc.encode(&self.raw_signature(&request, key, &time)?),
        };
        let split = carrier.split.as_deref().unwrap_or_default();
        let line = match self.time.as_ref().map(|time| &time.at) {
            Some(TimeAt::Item(tag)) => format!("{tag}{time}{split}{}{signature}", carrier.item),
            Some(TimeAt::Position(_)) => format!("{time}{split}{}{signature}", carrier.item),
            _ => format!("{}{signature}", carrier.item),
        };
        carry(carrier, &mut request, &line)?;
        Ok(request)
    }

    /// The first key's signature of a text, encoded.
    pub(crate) fn signature_of(&self, text: &str) -> Option<String> {
        let key = self.carriers.first().and_then(|(_, keys)| keys.first())?;
        let is_keyed = matches!(self.mac, Mac::HmacSha256 | Mac::HmacSha1 | Mac::HmacSha512);
        let signature = is_keyed.then(|| key.sign(&[Cow::Borrowed(text.as_bytes())]))??;
        Some(self.enc.encode(&signature))
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
        let url = self.address.as_ref().map_or_else(String::new, |address| address.url(&request.target));
        let filling = Filling { request, view: &view, time, url: &url };
        let message: Vec<Cow<'_, [u8]>> = self.template.render(&filling, key.expose()).ok_or(SignError::Incomplete)?;
        key.sign(&message).ok_or(SignError::PrivateKey)
    }
}

fn carry(carrier: &SignatureLocation, request: &mut Request, line: &str) -> Result<(), SignError> {
    match &carrier.at {
        CarriedAt::Headers(names) => {
            let name = names.first().ok_or(SignError::Incomplete)?.replace('*', "1");
            insert(&mut request.headers, name.as_str(), line)
        }
        CarriedAt::Place(Place::Json(pointer)) => rewrite(request, |body| pointer.put(body, line.into())),
        CarriedAt::Every(list, pointer) => rewrite(request, |body| {
            each_element(body, &list.first, &mut |element| pointer.put(element, line.into()));
        }),
        CarriedAt::Place(Place::Query(name)) => {
            let joint = if request.target.contains('?') { '&' } else { '?' };
            request.target.push_str(&format!("{joint}{}={}", form::encode(name), form::encode(line)));
            Ok(())
        }
        CarriedAt::Place(_) => Err(SignError::NotInHeader),
    }
}

fn rewrite(request: &mut Request, change: impl FnOnce(&mut Value)) -> Result<(), SignError> {
    let mut body: Value = serde_json::from_slice(&request.body).map_err(|_not_json| SignError::Incomplete)?;
    change(&mut body);
    request.body = Bytes::from(body.to_string());
    Ok(())
}

fn each_element(value: &mut Value, pattern: &[String], change: &mut dyn FnMut(&mut Value)) {
    match pattern.split_first() {
        None => change(value),
        Some((name, rest)) if name == "*" => {
            value.as_array_mut().into_iter().flatten().for_each(|element| each_element(element, rest, change));
        }
        Some((name, rest)) => {
            if let Some(inner) = value.get_mut(name) {
                each_element(inner, rest, change);
            }
        }
    }
}
