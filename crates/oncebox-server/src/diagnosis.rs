//! What a word in the database or in a rejection means, in a sentence for somebody who did not write the system.

use oncebox::verdict::{Reason, Rejection};

/// What a rejection usually means, and what to do.
pub(crate) fn of_rejection(rejection: &Rejection) -> String {
    let sentence = match rejection.reason {
        Reason::Address => {
            "it comes from an address that allow_from does not name: somebody else, or the vendor sends from new ones; \
             behind a proxy, is trusted_proxies set?"
        }
        Reason::Method => "the sender uses a method that this provider never uses: check the URL at the vendor",
        Reason::MissingSignature => {
            "there is no signature: somebody else calls this URL, or a proxy removes the header"
        }
        Reason::MalformedSignature => {
            "the signature has a form that this provider does not use: is the source set up for the right provider?"
        }
        Reason::TooManySignatures => "there is more than one signature: a proxy may repeat the header",
        Reason::Mismatch => {
            "no secret fits: the vendor signs with another secret, or something in between changes the body; \
             `oncebox explain` with a captured request tells which"
        }
        Reason::BadTimestamp => "the signed time is missing or has another form than this provider's",
        Reason::TooOld => "it was signed too long ago: a late retry, a replayed request, or a clock that is off",
        Reason::TooNew => "it was signed in the future: a clock is off, here or at the sender",
        Reason::RequiredHeader => "a header that this provider always sends has another value",
        Reason::UnknownKey => "it was signed with a key that the vendor does not publish (any more)",
        Reason::ForeignKey => "it names a key at an address that is not the vendor's: most likely an attack",
        Reason::ExpiredKey => "it was signed with a certificate that is not valid now",
        Reason::WrongClaim => "it was signed for somebody else: issuer, audience or topic are not the configured ones",
        Reason::NotArmed => "a handshake brought a secret and nobody waits for it: run `oncebox arm` first",
        Reason::UnfitChallenge => "a handshake wants something echoed that is never echoed",
    };
    match rejection.off_by_seconds {
        Some(seconds) => format!("{sentence} (off by {seconds} s)"),
        None => sentence.to_owned(),
    }
}

/// Why an event waits for a person.
pub(crate) fn of_held(reason: Option<&str>) -> &'static str {
    match reason {
        Some("no_id") => "the id is not where this provider puts it, so nobody can tell whether it came before",
        Some("unusable_id") => "the id is there and cannot be used: empty, too long, or neither text nor whole number",
        Some("ambiguous_id") => "the id stands more than once, and nobody can tell which one the sender means",
        Some("unusable_type") => "the type cannot be used, so nobody can say which handlers want it",
        Some("ambiguous_type") => "the type stands more than once, and nobody can tell which one the sender means",
        Some("unreadable") => "the body cannot be read in the format that holds the id",
        Some("repeated_body") => {
            "the same bytes came before under another id that no signature covers: a resend, or somebody who replays \
             a captured request"
        }
        Some("stale") => "it is older than the ledger remembers, so it may have been handled before",
        _ => "a handler put it aside for a person to decide",
    }
}

/// What a release of it does.
pub(crate) fn of_release(reason: Option<&str>) -> &'static str {
    match reason {
        Some("repeated_body") => "runs the handlers for it, though the same bytes were handled under the other id",
        Some("no_id" | "unusable_id" | "ambiguous_id") => {
            "runs the handlers for it once; a second copy with other bytes counts as another event"
        }
        Some("stale") => "runs the handlers for it, though they may have run for it before",
        _ => "makes its deliveries ready, and the handlers run for it",
    }
}

/// What makes two requests this one event.
pub(crate) fn of_identity(identity: &str) -> &'static str {
    match identity {
        "id" => "every request of this source with the same id is this event",
        "id+body" => "every request of this source with the same id and the same bytes is this event",
        "body" => "every request of this source with the same bytes is this event",
        _ => "every request of this source is an event of its own",
    }
}
