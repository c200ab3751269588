//! What a source says about a request, before anything is stored.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};

use crate::UnixMillis;
use crate::digest::{Digest, Fingerprint, Identity};
use crate::secret::Secret;

/// Makes an enum of which each case has a word, by which the database, metrics and logs know it.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $case:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $case,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: [Self; [$(Self::$case),*].len()] = [$(Self::$case),*];

            /// The word that stands for it in the database, in metrics, in logs and in `explain`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$case => $word,)*
                }
            }
        }
    };
}

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

words! {
    /// How an identity was made.
    IdentityKind {
        /// Source and id.
        Id = "id",
        /// Source, id and body digest: the id sits outside the signature.
        IdAndBody = "id+body",
        /// Source and body digest: there is no usable id.
        Body = "body",
        /// Every arrival is an event.
        Arrival = "arrival",
    }
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

words! {
    /// Why a verified event is held.
    #[non_exhaustive]
    HeldReason {
        /// The id is not where the provider puts it.
        NoId = "no_id",
        /// The id is there but is no text or whole number, is empty, too long, or cannot be stored as text.
        UnusableId = "unusable_id",
        /// The id stands more than once.
        AmbiguousId = "ambiguous_id",
        /// The type is too long or holds control characters, so nobody can say which handlers want it.
        UnusableType = "unusable_type",
        /// The type stands more than once.
        AmbiguousType = "ambiguous_type",
        /// The body cannot be read as the format the id sits in.
        Unreadable = "unreadable",
        /// The same bytes came before under another id that no signature covers.
        RepeatedBody = "repeated_body",
        /// What was signed for one delivery came again with another event.
        RepeatedDelivery = "repeated_delivery",
        /// The same bytes came before under another type that no signature covers.
        RepeatedTopic = "repeated_topic",
        /// It happened before the ledger's memory begins, so that nobody can tell whether it is new.
        Stale = "stale",
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

impl Reply {
    /// Success with this body and nothing else.
    pub(crate) fn ok(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { status: StatusCode::OK, content_type, headers: Vec::new(), body: body.into() }
    }
}

words! {
    /// Where a request failed.
    #[non_exhaustive]
    Step {
        /// Where it comes from.
        Address = "address",
        /// The method.
        Method = "method",
        /// The body, before anybody looked into it: its size, its coding, its pace.
        Body = "body",
        /// The signature over the raw bytes.
        Signature = "signature",
        /// The time window.
        Window = "window",
    }
}

words! {
    /// Why a request was refused: a bounded set, fit for a metric label.
    Reason {
        /// It does not come from where the sender's requests come from.
        Address = "address",
        /// The provider does not use this method.
        Method = "method",
        /// The body is larger than the source allows.
        TooLarge = "too_large",
        /// The body has a content encoding: bytes are verified as sent.
        ContentEncoding = "content_encoding",
        /// The body did not come in time.
        TooSlow = "too_slow",
        /// The body broke off or is malformed.
        BrokenBody = "broken_body",
        /// The signature header or field is missing or blank.
        MissingSignature = "missing_signature",
        /// The signature header has a form the provider does not use.
        MalformedSignature = "malformed_signature",
        /// More than one line of the header, or more items than we try.
        TooManySignatures = "too_many_signatures",
        /// No secret matches.
        Mismatch = "mismatch",
        /// The signed timestamp is missing, repeated or not in its exact form.
        BadTimestamp = "bad_timestamp",
        /// Signed too long ago.
        TooOld = "too_old",
        /// Signed in the future.
        TooNew = "too_new",
        /// A header that must have a certain value has another.
        RequiredHeader = "required_header",
        /// The key that signed is not among those that are known.
        UnknownKey = "unknown_key",
        /// The request names a key at an address that is not the vendor's.
        ForeignKey = "foreign_key",
        /// The certificate's own dates say that it is not good now.
        ExpiredKey = "expired_key",
        /// A signed value (issuer, audience, topic) is missing or another one than configured.
        WrongClaim = "wrong_claim",
        /// A handshake brought a secret and nobody had armed the source.
        NotArmed = "not_armed",
        /// A handshake wants something echoed that is never echoed.
        UnfitChallenge = "unfit_challenge",
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

impl From<Reason> for Rejection {
    fn from(reason: Reason) -> Self {
        let step = match reason {
            Reason::Address => Step::Address,
            Reason::Method => Step::Method,
            Reason::TooLarge | Reason::ContentEncoding | Reason::TooSlow | Reason::BrokenBody => Step::Body,
            Reason::BadTimestamp | Reason::TooOld | Reason::TooNew => Step::Window,
            _ => Step::Signature,
        };
        Self { step, reason, off_by_seconds: None }
    }
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
