//! Verifies a request by a compiled description: finds the signatures, rebuilds the message, tries every key.
//!
//! The signature is judged before the time window, and nothing of the body is parsed before it is judged unless the
//! scheme itself keeps a value there. Unknown versions are ignored and no weaker form is ever fallen back to.

pub(crate) mod address;
pub(crate) mod mac;
pub(crate) mod place;
pub(crate) mod template;
pub(crate) mod timestamp;
pub(crate) mod verifier;

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use subtle::ConstantTimeEq;

use crate::UnixMillis;
use crate::digest::Digest;
use crate::provider::SignError;
use crate::provider::description::describe::{CarriedAt, SignatureLocation, Time, TimeAt, name_fits};
use crate::provider::identity::batch::Batch;
use crate::read::NoText;
use crate::read::json::{self, Pointer, Wanted};
use crate::request::Request;
use crate::secret::Secret;
use crate::verdict::{Reason, Rejection};
use template::Filling;

mod compile;
mod head;

pub(crate) use address::Address;
pub(crate) use mac::{Encoding, Key, KeyForm, Mac};
pub(crate) use place::{Composite, Part, Place, View, Wants};
pub(crate) use template::Template;
pub(crate) use timestamp::{Unit, Window};
pub(crate) use verifier::{Refused, Verifier};

/// Most signatures tried in one request; more is no rotation but an attack on our time.
pub(crate) const SIGNATURES_MAX: usize = 8;
/// Most where a vendor sends a header for each live key (DocuSign: up to 100) and all are compared with one keyed digest.
const NUMBERED_MAX: usize = 100;

/// Where no URL is signed, an empty one is tried.
static NO_URL: [String; 1] = [String::new()];

#[derive(Clone, Debug)]
pub(crate) struct Scheme {
    pub(super) mac: Mac,
    pub(super) enc: Encoding,
    pub(crate) carriers: Vec<(SignatureLocation, Vec<Key>)>,
    pub(super) template: Template,
    pub(crate) time: Option<Time>,
    pub(super) require: Vec<(HeaderName, Secret)>,
    pub(crate) wants: Wants,
    pub(super) address: Option<Address>,
}

/// A request whose signature and time are right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verified {
    /// Position of the key that matched, from 1.
    pub(crate) secret: usize,
    /// What the signature fixes, where that is not the exact bytes of the body.
    pub(crate) covered: Option<Digest>,
    /// The document that ids and types are read from, where that is not the body: what a form field or an envelope holds.
    pub(crate) opened: Option<Bytes>,
    pub(crate) signed_at: Option<UnixMillis>,
    /// Something that was signed for this delivery alone, such as its id or a token's.
    pub(crate) delivery: Option<Box<[u8]>>,
}

impl Verified {
    /// Verified by the key at this position from 0; the body is what was signed and what is read.
    pub(crate) fn by_key(index: usize) -> Self {
        Self { secret: index + 1, covered: None, opened: None, signed_at: None, delivery: None }
    }
}

struct Group<'a> {
    time: Option<&'a str>,
    signatures: Vec<Vec<u8>>,
}

impl Verifier for Scheme {
    fn verify(&self, request: &Request, now: UnixMillis) -> Result<Verified, Refused> {
        self.verify_by(request, &View::new(request, &self.wants), now)
    }

    fn verify_in<'a>(&self, request: &'a Request, view: &View<'a, '_>, now: UnixMillis) -> Result<Verified, Refused> {
        if view.suits(&self.wants) { self.verify_by(request, view, now) } else { self.verify(request, now) }
    }

    fn judge_head(&self, head: &Request, now: UnixMillis) -> Result<(), Rejection> {
        self.check_head(head, now)
    }

    fn sign(&self, request: Request, now: UnixMillis) -> Result<Request, SignError> {
        self.signed(request, now)
    }

    fn answer(&self, challenge: &str) -> Option<String> {
        self.signature_of(challenge)
    }

    fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    fn described(&self) -> Option<&Scheme> {
        Some(self)
    }
}

impl Scheme {
    /// Judges by a view of the request that holds at least what the scheme wants.
    fn verify_by<'a>(&self, request: &'a Request, view: &View<'a, '_>, now: UnixMillis) -> Result<Verified, Refused> {
        self.check_required(&request.headers)?;
        let mut offset = 0;
        let mut first = None;
        for (carrier, keys) in &self.carriers {
            match self.verify_carrier(carrier, keys, request, view, now) {
                Ok(verified) => {
                    let before = if carrier.setting.is_some() { offset } else { 0 };
                    return Ok(Verified { secret: verified.secret + before, ..verified });
                }
                // The other carrier may be absent; what the main one said is the better explanation.
                Err(rejection) => first = first.or(Some(rejection)),
            }
            offset += keys.len();
        }
        Err(first.unwrap_or(Reason::MissingSignature.into()))
    }

    fn check_required(&self, headers: &HeaderMap) -> Result<(), Reason> {
        let is_met = |(name, expected): &(HeaderName, Secret)| {
            let mut lines = headers.get_all(name).iter();
            let first = lines.next();
            first.is_some_and(|line| bool::from(line.as_bytes().ct_eq(expected.expose()))) && lines.next().is_none()
        };
        if self.require.iter().all(is_met) { Ok(()) } else { Err(Reason::RequiredHeader) }
    }

    fn verify_carrier<'a>(
        &self,
        carrier: &SignatureLocation,
        keys: &[Key],
        request: &'a Request,
        view: &View<'a, '_>,
        now: UnixMillis,
    ) -> Result<Verified, Refused> {
        if let CarriedAt::Every(list, place) = &carrier.at {
            return Ok(every_token(list, place, keys, &request.body)?);
        }
        let most = self.signatures_max(carrier);
        let lines = carrier.lines(&request.headers, view, most)?;
        let groups = self.groups(carrier, &lines, most)?;
        let header_time = match self.time.as_ref().map(|time| &time.at) {
            Some(TimeAt::Header(part)) => Some(self.time_text(part, view)?),
            _ => None,
        };
        let urls = self.address.as_ref().map(|address| address.urls(&request.target));
        let urls = urls.as_deref().unwrap_or(&NO_URL);
        for (group, url) in groups.iter().flat_map(|group| urls.iter().map(move |url| (group, url))) {
            let time = group.time.or(header_time.as_deref()).unwrap_or_default();
            let filling = Filling { request, view, time, url };
            if let Some(index) = self.matching(keys, &filling, &group.signatures)? {
                let signed_at = self.check_window(time, view, now)?;
                return Ok(Verified { signed_at, ..Verified::by_key(index) });
            }
        }
        Err(Reason::Mismatch.into())
    }

    fn signatures_max(&self, carrier: &SignatureLocation) -> usize {
        let mac = carrier.mac.unwrap_or(self.mac);
        let is_digest = matches!(mac, Mac::HmacSha256 | Mac::HmacSha1 | Mac::HmacSha512);
        if is_digest && carrier.is_numbered() { NUMBERED_MAX } else { SIGNATURES_MAX }
    }

    /// The first key under which one of the signatures is right.
    fn matching(
        &self,
        keys: &[Key],
        filling: &Filling<'_, '_, '_>,
        signatures: &[Vec<u8>],
    ) -> Result<Option<usize>, Reason> {
        for (index, key) in keys.iter().enumerate() {
            let message = self.template.render(filling, key.expose()).ok_or(Reason::MalformedSignature)?;
            if key.verify(&message, signatures) {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    fn time_text<'a>(&self, part: &Part, view: &View<'a, '_>) -> Result<Cow<'a, str>, Reason> {
        let text = part.read(view).ok().filter(|text| self.unit().parse(text).is_some());
        text.ok_or(Reason::BadTimestamp)
    }

    /// The time that was signed, if it is near enough.
    fn check_window(&self, text: &str, view: &View<'_, '_>, now: UnixMillis) -> Result<Option<UnixMillis>, Rejection> {
        let Some(signed) = &self.time else { return Ok(None) };
        let text = match &signed.at {
            TimeAt::Json(part) => self.time_text(part, view)?,
            _ => Cow::Borrowed(text),
        };
        let time = signed.unit.parse(&text).ok_or(Reason::BadTimestamp)?;
        signed.unit.check(time, now, signed.window).map(|()| Some(time))
    }

    fn unit(&self) -> Unit {
        self.time.as_ref().map_or(Unit::default(), |time| time.unit)
    }

    fn groups<'a>(
        &self,
        carrier: &SignatureLocation,
        lines: &'a [Cow<'a, str>],
        most: usize,
    ) -> Result<Vec<Group<'a>>, Reason> {
        let mut left = most;
        let mut groups = Vec::new();
        for line in lines {
            for text in pieces(line, carrier.group.as_deref()) {
                let group = self.group(carrier, text, &mut left)?;
                groups.extend(group);
            }
        }
        if groups.is_empty() { Err(Reason::MalformedSignature) } else { Ok(groups) }
    }

    /// Reads the items of one group; `left` is how many more the whole request may have.
    fn group<'a>(
        &self,
        carrier: &SignatureLocation,
        text: &'a str,
        left: &mut usize,
    ) -> Result<Option<Group<'a>>, Reason> {
        let mut group = Group { time: None, signatures: Vec::new() };
        let at = self.time.as_ref().map(|time| &time.at);
        let (split, is_loose) = loose(carrier.split.as_deref());
        for (index, item) in pieces(text, split).enumerate() {
            let item = if is_loose { item.trim_start_matches(' ') } else { item };
            let time = match at {
                Some(TimeAt::Item(tag)) => item.strip_prefix(tag.as_str()),
                Some(TimeAt::Position(position)) if index + 1 == *position => Some(item),
                _ => None,
            };
            if let Some(time) = time {
                if group.time.replace(time).is_some() || self.unit().parse(time).is_none() {
                    return Err(Reason::BadTimestamp);
                }
            } else if let Some(signature) = item.strip_prefix(carrier.item.as_str()) {
                *left = left.checked_sub(1).ok_or(Reason::TooManySignatures)?;
                group.signatures.extend(self.decode(carrier, signature));
                if self.mac == Mac::Equal {
                    group.signatures.extend(bearer(signature).map(|token| token.as_bytes().to_vec()));
                }
            }
        }
        let needs_time = matches!(at, Some(TimeAt::Item(_) | TimeAt::Position(_)));
        match group.signatures.is_empty() {
            true => Ok(None),
            false if needs_time && group.time.is_none() => Err(Reason::BadTimestamp),
            false => Ok(Some(group)),
        }
    }

    fn decode(&self, carrier: &SignatureLocation, text: &str) -> Option<Vec<u8>> {
        let bytes = match carrier.mac.unwrap_or(self.mac) {
            Mac::Equal => Some(text.as_bytes().to_vec()),
            Mac::Basic => match text.split_at_checked(6) {
                Some((scheme, text)) if scheme.eq_ignore_ascii_case("basic ") => Encoding::Base64.decode(text),
                _ => None,
            },
            _ => self.enc.decode(text),
        };
        bytes.filter(|bytes| !bytes.is_empty())
    }
}

impl SignatureLocation {
    /// The texts that hold signatures; several only where the vendor documents several.
    fn lines<'a>(&self, headers: &'a HeaderMap, view: &View<'a, '_>, most: usize) -> Result<Vec<Cow<'a, str>>, Reason> {
        let lines = match &self.at {
            CarriedAt::Place(place) => match view.read(place) {
                Err(NoText::Missing) => Vec::new(),
                Ok(text) => vec![text],
                Err(NoText::Ambiguous) => return Err(Reason::TooManySignatures),
                Err(NoText::Unusable | NoText::Unreadable) => return Err(Reason::MalformedSignature),
            },
            CarriedAt::Headers(names) => self.header_lines(names, headers, most)?,
            CarriedAt::Every(..) => Vec::new(),
        };
        if lines.iter().all(|line| line.trim().is_empty()) {
            return Err(Reason::MissingSignature);
        }
        Ok(lines)
    }

    /// True when a name stands for a row of headers, such as `x-docusign-signature-*`.
    fn is_numbered(&self) -> bool {
        matches!(&self.at, CarriedAt::Headers(names) if names.iter().any(|name| name.ends_with('*')))
    }

    fn header_lines<'a>(
        &self,
        names: &[String],
        headers: &'a HeaderMap,
        most: usize,
    ) -> Result<Vec<Cow<'a, str>>, Reason> {
        let Some(name) = names.iter().find(|name| matching_names(name, headers).next().is_some()) else {
            return Ok(Vec::new());
        };
        let mut lines = Vec::new();
        for name in matching_names(name, headers) {
            for (index, line) in headers.get_all(name).iter().enumerate() {
                if lines.len() == most || (index > 0 && !self.lines) {
                    return Err(Reason::TooManySignatures);
                }
                let text = std::str::from_utf8(line.as_bytes()).map_err(|_not_utf8| Reason::MalformedSignature)?;
                lines.push(Cow::Borrowed(text));
            }
        }
        Ok(lines)
    }
}

/// Each element of a list must carry one of the tokens.
fn every_token(list: &Batch, place: &Pointer, keys: &[Key], body: &[u8]) -> Result<Verified, Reason> {
    let wanted = Wanted::new([place]);
    let elements = list.split(body, &Wants::default()).map_err(|_unreadable| Reason::MalformedSignature)?.elements;
    let mut first = None;
    for element in elements.iter().filter(|element| element.known) {
        let hits = wanted.find(element.text.as_bytes()).map_err(|_not_json| Reason::MalformedSignature)?;
        let raw = wanted.raw(&hits, place).ok_or(Reason::MissingSignature)?;
        let token = json::text(raw).map_err(|_no_text| Reason::MalformedSignature)?;
        let given = [token.as_bytes().to_vec()];
        let found = keys.iter().position(|key| key.verify(&[], &given)).ok_or(Reason::Mismatch)?;
        first = first.or(Some(found));
    }
    let is_complete = elements.iter().all(|element| element.known);
    first.filter(|_| is_complete).map(Verified::by_key).ok_or(Reason::MissingSignature)
}

/// A separator that ends in a space is one whose space may be missing.
fn loose(split: Option<&str>) -> (Option<&str>, bool) {
    match split.map(|split| (split, split.trim_end_matches(' '))) {
        Some((split, bare)) if !bare.is_empty() && bare != split => (Some(bare), true),
        _ => (split, false),
    }
}

/// The token behind `Bearer`, which senders of static tokens may or may not write.
pub(crate) fn bearer(text: &str) -> Option<&str> {
    let (scheme, token) = text.split_at_checked(7)?;
    (scheme.eq_ignore_ascii_case("bearer ") && !token.is_empty()).then_some(token)
}

fn matching_names<'h>(pattern: &str, headers: &'h HeaderMap) -> impl Iterator<Item = &'h HeaderName> {
    headers.keys().filter(move |name| name_fits(pattern, name))
}

fn pieces<'t>(text: &'t str, separator: Option<&str>) -> impl Iterator<Item = &'t str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        // One character is looked for by a quicker search than a text.
        let cut = separator.and_then(|separator| match separator.as_bytes() {
            [byte] => text.split_once(char::from(*byte)),
            _ => text.split_once(separator),
        });
        rest = cut.map(|(_, after)| after);
        Some(cut.map_or(text, |(piece, _)| piece))
    })
}
