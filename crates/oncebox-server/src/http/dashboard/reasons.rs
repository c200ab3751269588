//! The stored words for why something was refused or is held, as sentences for somebody who did not set this up.

/// The likely cause of a rejection.
pub(super) fn rejected(reason: &str, off_by_seconds: Option<i64>) -> String {
    let text = match reason {
        "method" => {
            "The sender used another HTTP method than this provider does. Check the URL and the kind of webhook."
        }
        "missing_signature" => {
            "The request has no signature header. Somebody else found the URL, or signing is switched off at the vendor."
        }
        "malformed_signature" => {
            "The signature header is not written the way this provider writes it. The source may have the wrong provider."
        }
        "too_many_signatures" => {
            "The signature header came more than once, which this provider never does: a forger, or a proxy that repeats headers."
        }
        "mismatch" => {
            "No configured secret makes this signature. The secret is another one (rotated, or of another environment), \
             or something between the vendor and here rewrites the body."
        }
        "bad_timestamp" => "The signed time cannot be read. The source may have the wrong provider.",
        "too_old" => {
            "The signed time is older than the tolerance: a slow retry, a replayed request, or a clock that is off."
        }
        "too_new" => "The signed time lies in the future: the clock here or at the sender is off.",
        "required_header" => "A header that this provider always sends is missing.",
        "unknown_key" => {
            "It was signed with a key that the vendor does not publish, or its keys cannot be fetched from here."
        }
        "foreign_key" => "It names a key outside the vendor's own hosts. That is a forgery or a wrong provider.",
        "expired_key" => "It was signed with a key that is no longer valid.",
        "wrong_claim" => "It was signed for somebody else: compare audience and issuer with the source's settings.",
        "not_armed" => {
            "It brings a secret, and nobody asked for one. Run `oncebox arm` for the source, then set up the webhook again."
        }
        "unfit_challenge" => "A handshake of a form this provider does not use.",
        _ => "See docs/providers.md for what this provider signs.",
    };
    match off_by_seconds {
        Some(_) if matches!(reason, "too_old" | "too_new") => {
            format!("{text} If all requests are off by the same time, set this machine's clock.")
        }
        _ => text.to_owned(),
    }
}

/// Why an event is held.
pub(super) fn held(reason: &str) -> &str {
    match reason {
        "no_id" => "It carries no id, so that a second arrival could not be told from a first.",
        "unusable_id" => "Its id is too long or holds control characters.",
        "ambiguous_id" => "Its id stands more than once in the body, with nothing to say which one counts.",
        "unusable_type" => {
            "Its type is too long or holds control characters, so nobody can say which handlers want it."
        }
        "ambiguous_type" => "Its type stands more than once in the body.",
        "unreadable" => "Its body cannot be read as the format that its id sits in.",
        "repeated_body" => {
            "The same bytes came before under another id that no signature covers: a retry under a new id, or a copy by \
             somebody who saw the request."
        }
        "stale" => "It is older than the ledger's memory, so that nobody can say whether it ran before.",
        other => other,
    }
}

/// What makes two requests one event here.
pub(super) fn identity(identity: &str) -> &'static str {
    match identity {
        "id" => "the sender's id",
        "id+body" => "the sender's id together with the exact body",
        "body" => "the exact bytes of the body",
        "arrival" => "nothing: every arrival of this source is an event",
        _ => "unknown",
    }
}
