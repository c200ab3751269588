//! Names a verified request's events: id, type, and the keys that the two referees compare.
//!
//! An id in a header that no signature covers is only believed together with the body it came with. Where such an id
//! may be swapped or left out, the second referee compares the bytes, so that a captured body under a fresh id does not
//! run; together with what was signed for the delivery (a time, a token's id) where there is such a thing, so that equal
//! bytes of another moment do. Where not even the body is covered, what was signed for the delivery is all there is.
//! Whatever cannot be named is held under the digest of its bytes and never lost.

pub(crate) mod batch;
pub(crate) mod handshake;

use std::borrow::Cow;

use bytes::Bytes;
use data_encoding::HEXLOWER;

use crate::UnixMillis;
use crate::digest::{Digest, Fingerprint, Identity, sha256};
use crate::provider::description::describe::{IdentityRule, RepeatScope};
use crate::provider::identity::batch::{Around, Element};
use crate::provider::identity::handshake::HandshakeRules;
use crate::provider::scheme::place::{TEXT_BYTES_MAX, has_controls};
use crate::provider::scheme::{Composite, Part, Place, Unit, Verified, Verifier, View, Wants};
use crate::provider::{Description, SourceSpec};
use crate::read::{NoText, bytes};
use crate::request::Request;
use crate::verdict::{Fingerprints, HeldReason, Identified, IdentityKind, OnOtherBody, OnRepeat, Topic};

#[derive(Debug)]
pub(crate) struct IdentityRules {
    source: String,
    description: Description,
    wants: Wants,
    /// What handshakes and signatures read besides, so that a body is scanned once for all.
    pub(crate) wants_of_whole: Wants,
    body_covered: bool,
    /// Some id may stand outside the body, so that the same bytes may come under several ids.
    has_outside_id: bool,
    /// Places inside and outside the body that should hold the same id; none where there is one kind only.
    id_copies: Vec<Place>,
    /// What becomes of a known body under a new identity.
    pub(crate) on_repeat: OnRepeat,
    /// Where the event's own time stands, and the age from which on nobody can tell whether it is new.
    stale: Option<(Part, i64)>,
}

struct Id<'a> {
    shown: Cow<'a, str>,
    /// What is compared: the text, or for joined ids the parts with their lengths, so that `a:b` + `c` is not `a` + `b:c`.
    compared: Cow<'a, [u8]>,
    outside: bool,
}

impl IdentityRules {
    /// Takes the rules from a spec; what handshakes and signatures read from a body is read together with the ids.
    pub(crate) fn new(spec: &SourceSpec, handshakes: &HandshakeRules, verifier: Option<&dyn Verifier>) -> Self {
        let description = &spec.description;
        let id_places = description.id_places();
        let has_outside_id = id_places.clone().any(|place| !place.is_in_body());
        let age = spec.stale_after.map(|age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        let stale = description.time.clone().zip(age);
        let time = description.time.iter().filter(|_| stale.is_some()).flat_map(Part::places);
        let types = description.event_type.iter().flat_map(Part::places);
        let delivery = description.delivery.iter().flat_map(Part::places);
        let wants = Wants::new(id_places.chain(types).chain(time).chain(delivery));
        let mut wants_of_whole = wants.with(&handshakes.wants);
        if let Some(scheme) = verifier.and_then(Verifier::described) {
            wants_of_whole = wants_of_whole.with(&scheme.wants);
        }
        let body_covered = verifier.is_some() && description.body_covered();
        let doubtful = has_outside_id && !description.id_signed || description.names_delivery() && !body_covered;
        Self {
            source: spec.name.clone(),
            description: description.clone(),
            wants_of_whole,
            wants,
            body_covered,
            has_outside_id,
            id_copies: id_copies(&description.id),
            on_repeat: spec.repeated_body.unwrap_or(if doubtful { OnRepeat::Hold } else { OnRepeat::Run }),
            stale,
        }
    }

    /// The events of a verified request; nothing for an empty batch. `view` is this request's.
    pub(crate) fn identify(
        &self,
        request: &Request,
        view: &View<'_, '_>,
        verified: &Verified,
        now: UnixMillis,
    ) -> Vec<Identified> {
        let document = verified.opened.as_ref().unwrap_or(&request.body);
        let Some(each) = self.description.each.as_ref().filter(|_| !self.is_named_by_headers(request)) else {
            let body = request.body.clone();
            return vec![match &verified.opened {
                None => self.event(view, body, verified, now),
                Some(opened) => self.event(&View::of_body(request, opened, &self.wants), body, verified, now),
            }];
        };
        let Ok(split) = each.split(document, &self.wants) else {
            return vec![self.held(request.body.clone(), HeldReason::Unreadable)];
        };
        // What is fixed of an element is its own bytes.
        let verified = Verified { covered: None, opened: None, ..verified.clone() };
        let event = |element| self.element((request, document), element, &split.around, &verified, now);
        split.elements.into_iter().map(event).collect()
    }

    fn element<'a>(
        &self,
        (request, document): (&'a Request, &Bytes),
        element: Element<'a>,
        around: &Around<'a>,
        verified: &Verified,
        now: UnixMillis,
    ) -> Identified {
        let body = document.slice_ref(element.text.as_bytes());
        if !element.known {
            return self.held(body, HeldReason::Unreadable);
        }
        self.event(&View::of_element(request, element, &self.wants, around), body, verified, now)
    }

    /// True when headers alone hold an id: it is the request's, so the body is one event, list or not.
    fn is_named_by_headers(&self, request: &Request) -> bool {
        let nothing = Wants::default();
        let view = View::of_body(request, b"", &nothing);
        let is_outside = |id: &&Composite| id.parts().iter().flat_map(Part::places).all(|place| !place.is_in_body());
        self.description.id.iter().filter(is_outside).any(|id| matches!(read_id(id, &view), Ok(Some(_))))
    }

    fn held(&self, body: Bytes, reason: HeldReason) -> Identified {
        let digest = sha256(&body);
        self.by_body(body, digest, String::new(), Some(reason))
    }

    /// Names one event: `body` is what is kept, `view` what is read.
    fn event(&self, view: &View<'_, '_>, body: Bytes, verified: &Verified, now: UnixMillis) -> Identified {
        let digest = sha256(&body);
        let (event_type, odd_type) = self.event_type(view);
        let (rule, id) = match self.description.identity {
            IdentityRule::Id => match (self.id(view), self.description.otherwise) {
                (Err(HeldReason::NoId | HeldReason::Unreadable), Some(otherwise)) => (otherwise, None),
                (id, _) => (IdentityRule::Id, Some(id)),
            },
            rule => (rule, None),
        };
        let Some(id) = id else {
            let event = self.by_body(body, digest, event_type, odd_type);
            let is_arrival = rule == IdentityRule::None && odd_type.is_none();
            return if is_arrival { Identified { identity_kind: IdentityKind::Arrival, ..event } } else { event };
        };
        let fixed = verified.covered.unwrap_or(digest);
        let id = match id.and_then(|id| odd_type.map_or(Ok(id), Err)) {
            Ok(id) => id,
            // What it was signed with is used up all the same: a stranger may put the missing id in.
            Err(reason) => {
                let fingerprint = self.fingerprints(view, verified, &event_type, &fixed);
                let event = self.by_body(body, digest, event_type, Some(reason));
                return Identified { fingerprint, ..event };
            }
        };
        let id_disagrees = self.has_other_id(view, &id);
        let is_open = id.outside && !self.description.id_signed && self.body_covered;
        let with_body = (is_open || self.description.id_unique == Some(false)) && !self.description.body_varies;
        let (identity, identity_kind) = if with_body {
            (Identity::of_id_and_body(&self.source, &id.compared, &fixed), IdentityKind::IdAndBody)
        } else {
            (Identity::of_id(&self.source, &id.compared), IdentityKind::Id)
        };
        Identified {
            identity,
            identity_kind,
            fingerprint: self.fingerprints(view, verified, &event_type, &fixed),
            on_repeat: self.on_repeat,
            on_other_body: if self.description.body_varies { OnOtherBody::Duplicate } else { OnOtherBody::Conflict },
            event_id: id.shown.into_owned(),
            event_type,
            body,
            body_sha256: digest,
            held: self.is_stale(view, now).then_some(HeldReason::Stale),
            id_disagrees,
        }
    }

    fn by_body(&self, body: Bytes, digest: Digest, event_type: String, held: Option<HeldReason>) -> Identified {
        Identified {
            identity: Identity::of_body(&self.source, &digest),
            identity_kind: IdentityKind::Body,
            fingerprint: None,
            on_repeat: self.on_repeat,
            on_other_body: OnOtherBody::Conflict,
            event_id: format!("body_{}", HEXLOWER.encode(&digest)),
            event_type,
            body,
            body_sha256: digest,
            held,
            id_disagrees: false,
        }
    }

    /// True when the event happened before the ledger's memory begins: a duplicate of it would look new.
    fn is_stale(&self, view: &View<'_, '_>, now: UnixMillis) -> bool {
        let Some((place, age)) = &self.stale else { return false };
        let Ok(text) = place.read(view) else { return false };
        Unit::guess(&text).is_some_and(|time| now.saturating_sub(time) > *age)
    }

    fn fingerprints(
        &self,
        view: &View<'_, '_>,
        verified: &Verified,
        event_type: &str,
        digest: &Digest,
    ) -> Option<Fingerprints> {
        let signed = self.signed_for_delivery(view, verified);
        if let (Some(signed), false) = (&signed, self.body_covered) {
            return Some(Fingerprints::Delivery(Fingerprint::of_delivery(&self.source, signed)));
        }
        if !self.has_outside_id || self.description.body_varies {
            return None;
        }
        let moment = verified.signed_at.map(UnixMillis::to_be_bytes);
        let signed =
            signed.as_deref().or(moment.as_ref().map(<[u8; 8]>::as_slice)).filter(|_| !self.description.id_signed);
        Some(match (signed, self.description.repeat_scope) {
            (Some(signed), _) => {
                Fingerprints::Delivery(Fingerprint::of_delivery_and_body(&self.source, signed, digest))
            }
            (None, RepeatScope::Body) => Fingerprints::Bytes(Fingerprint::of_body(&self.source, digest)),
            (None, RepeatScope::Type) => Fingerprints::Topic(self.topic(event_type, digest)),
        })
    }

    fn signed_for_delivery(&self, view: &View<'_, '_>, verified: &Verified) -> Option<Vec<u8>> {
        if let Some(signed) = &verified.delivery {
            return Some(signed.to_vec());
        }
        self.description.delivery.as_ref()?.read(view).ok().map(|text| text.into_owned().into_bytes())
    }

    fn topic(&self, event_type: &str, digest: &Digest) -> Topic {
        let is_listed = self.description.topics.iter().any(|listed| listed == event_type);
        Topic {
            pair: Fingerprint::of_type_and_body(&self.source, event_type, digest),
            body: Fingerprint::of_body(&self.source, digest),
            topic: (!is_listed).then(|| Fingerprint::of_type(&self.source, event_type)),
        }
    }

    /// The first id of which every part is there. A part that is there but cannot be used ends the search: a weaker id
    /// must not take its place.
    fn id<'a>(&self, view: &View<'a, '_>) -> Result<Id<'a>, HeldReason> {
        for composite in &self.description.id {
            if let Some(id) = read_id(composite, view)? {
                return Ok(id);
            }
        }
        Err(HeldReason::NoId)
    }

    /// True when another place that should hold the id holds something else.
    fn has_other_id(&self, view: &View<'_, '_>, id: &Id<'_>) -> bool {
        let is_other = |place| view.read(place).is_ok_and(|text| text.as_bytes() != &*id.compared);
        self.id_copies.iter().any(is_other)
    }

    /// The type, and why it cannot be believed: handlers are chosen by it, so a doubtful one must not pass as none.
    fn event_type(&self, view: &View<'_, '_>) -> (String, Option<HeldReason>) {
        let mut joined = String::new();
        let mut odd = None;
        for part in &self.description.event_type {
            match part.read(view) {
                Ok(text) if is_usable(&text) && !has_controls(&text) => {
                    joined.push_str(if joined.is_empty() { "" } else { "." });
                    joined.push_str(&text);
                }
                Ok(text) if !text.is_empty() => odd = odd.or(Some(HeldReason::UnusableType)),
                Err(NoText::Ambiguous) => odd = odd.or(Some(HeldReason::AmbiguousType)),
                _ => {}
            }
        }
        (joined, odd)
    }
}

/// Where an id of one part may stand, if that is inside as well as outside the body: joined ids are made of other things.
fn id_copies(ids: &[Composite]) -> Vec<Place> {
    let single = ids.iter().filter(|id| id.parts().len() == 1);
    let places: Vec<Place> = single.flat_map(Composite::parts).flat_map(Part::places).cloned().collect();
    let inside = places.iter().filter(|place| place.is_in_body()).count();
    if (1..places.len()).contains(&inside) { places } else { Vec::new() }
}

fn read_id<'a>(composite: &Composite, view: &View<'a, '_>) -> Result<Option<Id<'a>>, HeldReason> {
    if let [part] = composite.parts() {
        let Some((shown, outside)) = read_part(part, view)? else { return Ok(None) };
        return Ok(Some(Id { compared: bytes(shown.clone()), shown, outside }));
    }
    let (mut shown, mut compared, mut is_outside) = (String::new(), Vec::new(), false);
    for part in composite.parts() {
        let Some((text, outside)) = read_part(part, view)? else { return Ok(None) };
        if compared.is_empty() {
            // Enough for most, so that it does not grow part by part.
            shown.reserve(128);
            compared.reserve(192);
        }
        // No single id holds a NUL, so a joined one can never equal it.
        compared.extend_from_slice(&(text.len() as u64).to_be_bytes());
        compared.extend_from_slice(text.as_bytes());
        if !text.is_empty() {
            shown.push_str(if shown.is_empty() { "" } else { ":" });
            shown.push_str(&text);
        }
        is_outside |= outside;
    }
    if !is_usable(&shown) {
        return Err(HeldReason::UnusableId);
    }
    Ok(Some(Id { shown: Cow::Owned(shown), compared: Cow::Owned(compared), outside: is_outside }))
}

/// A part's text, and whether it stands outside the body; none where it is missing and must not be.
fn read_part<'a>(part: &Part, view: &View<'a, '_>) -> Result<Option<(Cow<'a, str>, bool)>, HeldReason> {
    let Some((place, reading)) = part.locate(view) else {
        return Ok(part.optional.then_some((Cow::Borrowed(""), false)));
    };
    match reading {
        Ok(text) if is_usable(&text) => Ok(Some((text, !place.is_in_body()))),
        Ok(_) | Err(NoText::Unusable) => Err(HeldReason::UnusableId),
        Err(NoText::Ambiguous) => Err(HeldReason::AmbiguousId),
        Err(NoText::Unreadable) => Err(HeldReason::Unreadable),
        Err(NoText::Missing) => Ok(None),
    }
}

fn is_usable(text: &str) -> bool {
    (1..=TEXT_BYTES_MAX).contains(&text.len()) && !text.contains('\0')
}
