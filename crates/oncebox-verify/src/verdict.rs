//! What a source says about a request, before anything is stored.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};

use crate::UnixMillis;
use crate::digest::{Digest, Fingerprint, Identity, IdentityKind};
use crate::secret::Secret;

/// The judgement of one request.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Verified: store these events.
    Accept(Accepted),
    /// A handshake: answer it, store nothing.
    Handshake(Reply),
    /// A handshake that brings the source's secret: keep it if somebody armed the source, then answer; store no event.
    Secret(HandshakeSecret),
    /// Not verified: one generic answer, store nothing.
    Reject(Rejection),
    /// A handshake that wants a URL visited before it is answered; nothing is stored.
    Visit(Visit),
    /// Cannot be judged before this key is there.
    NeedsKey(KeyWanted),
}

/// A secret that a handshake brings, with the answer that accepts it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HandshakeSecret {
    /// The secret.
    pub secret: Secret,
    /// The answer.
    pub reply: Reply,
}

/// A verified request.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// Position of the secret that matched, from 1; 0 where the source verifies nothing.
    pub secret: usize,
    /// The time that the sender signed, where it signs one.
    pub signed_at: Option<UnixMillis>,
    /// The events it carries, in the order they stood; one unless the provider sends batches.
    pub events: Vec<Identified>,
    /// True when the provider sends batches: the answer then lists the events.
    pub batch: bool,
    /// The success body the provider wants in place of ours (Twilio: empty TwiML).
    pub reply: Option<Reply>,
}

/// One event with everything the referees need.
#[derive(Clone, Debug)]
pub struct Identified {
    /// What makes two requests one event: a unique key in the ledger. For [`IdentityKind::Arrival`] the ingest path
    /// replaces it (and the event id) by one made from the event key.
    pub identity: Identity,
    /// How the identity was made.
    pub identity_kind: IdentityKind,
    /// The second referee: what may not come again under another identity. None where what is signed holds the id.
    pub fingerprint: Option<Fingerprints>,
    /// What to do when the fingerprint was seen before under another identity.
    pub on_repeat: OnRepeat,
    /// What to do when the identity was seen before with other bytes.
    pub on_other_body: OnOtherBody,
    /// The sender's id as text, or `body_<hex>` where it has none that can be used.
    pub event_id: String,
    /// The sender's type, two parts joined by a dot; empty where there is none.
    pub event_type: String,
    /// The event's own bytes: the body, or the element of a batch as it stood in it.
    pub body: Bytes,
    /// SHA-256 of `body`.
    pub body_sha256: Digest,
    /// Why the event must wait for a person, if it must.
    pub held: Option<HeldReason>,
    /// The id stands in a header and in the body, and they are not the same; the place that is named first has won.
    pub id_disagrees: bool,
}

/// What the second referee compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fingerprints {
    /// The bytes. What is new claims them.
    Bytes(Fingerprint),
    /// Something that was signed for one delivery. Duplicates and conflicts claim it as well: each retry is signed anew, and
    /// what one was signed with must not bring another event.
    Delivery(Fingerprint),
    /// Bytes under a type that nobody signed.
    Topic(Topic),
}

/// Bytes under a type that nobody signed: a few types may share them, soon after one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Type and bytes: a repeat like any other.
    pub pair: Fingerprint,
    /// The bytes alone: which type came first with them.
    pub body: Fingerprint,
    /// The type alone: whether it ever came with bytes of its own. None where the operator listed it.
    pub topic: Option<Fingerprint>,
}

/// A known body under a new identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRepeat {
    /// Accept it, flagged.
    Run,
    /// Keep it, do not run it: somebody may be replaying a captured body under a fresh id.
    Hold,
    /// Count it as an arrival of the event that had the body first.
    Duplicate,
}

/// A known identity with other bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnOtherBody {
    /// Keep both facts and tell somebody.
    Conflict,
    /// The provider edits the body between tries.
    Duplicate,
}

/// Why a verified event is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeldReason {
    /// The id is not where the provider puts it.
    NoId,
    /// The id is there but is no text or whole number, is empty, too long, or cannot be stored as text.
    UnusableId,
    /// The id stands more than once.
    AmbiguousId,
    /// The type is too long or holds control characters, so nobody can say which handlers want it.
    UnusableType,
    /// The type stands more than once.
    AmbiguousType,
    /// The body cannot be read as the format the id sits in.
    Unreadable,
    /// The same bytes came before under another id that no signature covers.
    RepeatedBody,
    /// What was signed for one delivery came again with another event.
    RepeatedDelivery,
    /// The same bytes came before under another type that no signature covers.
    RepeatedTopic,
    /// It happened before the ledger's memory begins, so that nobody can tell whether it is new.
    Stale,
}

impl HeldReason {
    /// The word kept in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoId => "no_id",
            Self::UnusableId => "unusable_id",
            Self::AmbiguousId => "ambiguous_id",
            Self::UnusableType => "unusable_type",
            Self::AmbiguousType => "ambiguous_type",
            Self::Unreadable => "unreadable",
            Self::RepeatedBody => "repeated_body",
            Self::RepeatedDelivery => "repeated_delivery",
            Self::RepeatedTopic => "repeated_topic",
            Self::Stale => "stale",
        }
    }
}

/// A ready answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Status code.
    pub status: StatusCode,
    /// Content type, fixed by us and never taken from the request.
    pub content_type: &'static str,
    /// Further headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body.
    pub body: Bytes,
}

/// Where a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Where it comes from.
    Address,
    /// The method.
    Method,
    /// The body, before anybody looked into it: its size, its coding, its pace.
    Body,
    /// The signature over the raw bytes.
    Signature,
    /// The time window.
    Window,
}

impl Step {
    /// The word in logs and in `explain`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Method => "method",
            Self::Body => "body",
            Self::Signature => "signature",
            Self::Window => "window",
        }
    }
}

/// Why a request was refused: a bounded set, fit for a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It does not come from where the sender's requests come from.
    Address,
    /// The provider does not use this method.
    Method,
    /// The body is larger than the source allows.
    TooLarge,
    /// The body has a content encoding: bytes are verified as sent.
    ContentEncoding,
    /// The body did not come in time.
    TooSlow,
    /// The body broke off or is malformed.
    BrokenBody,
    /// The signature header or field is missing or blank.
    MissingSignature,
    /// The signature header has a form the provider does not use.
    MalformedSignature,
    /// More than one line of the header, or more items than we try.
    TooManySignatures,
    /// No secret matches.
    Mismatch,
    /// The signed timestamp is missing, repeated or not in its exact form.
    BadTimestamp,
    /// Signed too long ago.
    TooOld,
    /// Signed in the future.
    TooNew,
    /// A header that must have a certain value has another.
    RequiredHeader,
    /// The key that signed is not among those that are known.
    UnknownKey,
    /// The request names a key at an address that is not the vendor's.
    ForeignKey,
    /// The certificate's own dates say that it is not good now.
    ExpiredKey,
    /// A signed value (issuer, audience, topic) is missing or another one than configured.
    WrongClaim,
    /// A handshake brought a secret and nobody had armed the source.
    NotArmed,
    /// A handshake wants something echoed that is never echoed.
    UnfitChallenge,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::Address,
        Self::Method,
        Self::TooLarge,
        Self::ContentEncoding,
        Self::TooSlow,
        Self::BrokenBody,
        Self::MissingSignature,
        Self::MalformedSignature,
        Self::TooManySignatures,
        Self::Mismatch,
        Self::BadTimestamp,
        Self::TooOld,
        Self::TooNew,
        Self::RequiredHeader,
        Self::UnknownKey,
        Self::ForeignKey,
        Self::ExpiredKey,
        Self::WrongClaim,
        Self::NotArmed,
        Self::UnfitChallenge,
    ];

    /// The metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Method => "method",
            Self::TooLarge => "too_large",
            Self::ContentEncoding => "content_encoding",
            Self::TooSlow => "too_slow",
            Self::BrokenBody => "broken_body",
            Self::MissingSignature => "missing_signature",
            Self::MalformedSignature => "malformed_signature",
            Self::TooManySignatures => "too_many_signatures",
            Self::Mismatch => "mismatch",
            Self::BadTimestamp => "bad_timestamp",
            Self::TooOld => "too_old",
            Self::TooNew => "too_new",
            Self::RequiredHeader => "required_header",
            Self::UnknownKey => "unknown_key",
            Self::ForeignKey => "foreign_key",
            Self::ExpiredKey => "expired_key",
            Self::WrongClaim => "wrong_claim",
            Self::NotArmed => "not_armed",
            Self::UnfitChallenge => "unfit_challenge",
        }
    }
}

/// A refused request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The step that failed.
    pub step: Step,
    /// Why.
    pub reason: Reason,
    /// How far the signed time is from ours, in seconds, where that was the cause.
    pub off_by_seconds: Option<i64>,
}

/// A key without which a request cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyWanted {
    /// Where it is; a vendor's URL was held against the vendor's own hosts.
    pub url: String,
    /// Whose word the URL is: it decides which addresses may be reached.
    pub named_by: NamedBy,
    /// What must be answered there is a certificate that the web's authorities issued to the vendor.
    pub proof: Option<Proof>,
}

/// Whose certificate it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proof {
    /// One for this name, or for a name below it.
    Below(&'static str),
    /// One for one of these names, exactly.
    Named(Vec<String>),
}

impl Proof {
    /// True when a certificate for this name will do.
    pub fn takes(&self, name: &str) -> bool {
        match self {
            Self::Below(domain) => {
                name == *domain || name.strip_suffix(domain).is_some_and(|before| before.ends_with('.'))
            }
            Self::Named(names) => names.iter().any(|own| own == name),
        }
    }

    /// The vendor's name, for people.
    pub fn vendor(&self) -> &str {
        match self {
            Self::Below(domain) => domain,
            Self::Named(names) => names.first().map_or("", String::as_str),
        }
    }
}

/// A URL that a verified request wants visited (SNS: the confirmation of a subscription).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Visit {
    /// The URL, held against the vendor's own hosts.
    pub url: String,
    /// What to answer once it was visited.
    pub reply: Reply,
}

/// Who named an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// The operator's config or our catalogue.
    Operator,
    /// A request: only public addresses may be reached.
    Request,
}
