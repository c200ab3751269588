//! What a word in the database or in a rejection means, in a sentence for somebody who did not write the system.

use oncebox_verify::{Reason, Rejection, Source};

/// What a rejection usually means, and what to do. Without its source nobody knows what the sender should have shown.
pub(crate) fn of_rejection(rejection: &Rejection, source: Option<&Source>) -> String {
    let of_token = source.and_then(|source| of_token(rejection.reason, source));
    let sentence = of_token.unwrap_or_else(|| of_reason(rejection.reason));
    match rejection.off_by_seconds {
        Some(seconds) => format!("{sentence} (off by {seconds} s)"),
        None => sentence.to_owned(),
    }
}

/// The same for senders that send a token, in the URL or in the request, and sign nothing.
fn of_token(reason: Reason, source: &Source) -> Option<&'static str> {
    let by_url_alone = source.has_path_token() && source.secrets_count() == 0;
    let sends_token = source.description().sends_token();
    Some(match reason {
        Reason::MissingSignature if by_url_alone => {
            "there is no token behind the source's name in the URL: give the vendor the whole URL"
        }
        Reason::Mismatch if by_url_alone => {
            "the token in the URL is not the source's path_token: an old URL, or somebody who guesses"
        }
        Reason::MissingSignature if sends_token => {
            "there is no token: somebody else calls this URL, or a proxy removes the header"
        }
        Reason::Mismatch if sends_token && source.has_path_token() => {
            "a token is another one: that in the URL is not the path_token, or that in the request is no secret of the \
             source"
        }
        Reason::Mismatch if sends_token => {
            "the token in the request is no secret of the source: an old one, or somebody who guesses"
        }
        _ => return None,
    })
}

fn of_reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Address => {
            "it comes from an address that allow_from does not name: somebody else, or the vendor sends from new ones; \
             behind a proxy, is trusted_proxies set?"
        }
        Reason::Method => "the sender uses a method that this provider never uses: check the URL at the vendor",
        Reason::TooLarge => {
            "the body is larger than this source allows: if the sender is genuine, raise its body_limit, or its events are \
             lost"
        }
        Reason::ContentEncoding => "the body is compressed: switch that off at the sender or at the proxy in between",
        Reason::TooSlow => "the body did not come in time: a broken line, or somebody who keeps connections busy",
        Reason::BrokenBody => "the body broke off: the sender hung up, or a proxy in between did",
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
        Some("repeated_delivery") => {
            "what was signed for one delivery came again with another id or body: most likely somebody who changes a \
             captured request"
        }
        Some("repeated_topic") => {
            "the same bytes came before under another type that no signature covers: a type that is new to this source, \
             too late or one too many (list true ones in the source's topics), or somebody who changes a captured request"
        }
        Some("stale") => "it is older than the ledger remembers, so it may have been handled before",
        _ => "a handler put it aside for a person to decide",
    }
}

/// What a release of it does.
pub(crate) fn of_release(reason: Option<&str>) -> &'static str {
    match reason {
        Some("repeated_body") => "runs the handlers for it, though the same bytes were handled under the other id",
        Some("repeated_delivery" | "repeated_topic") => {
            "runs the handlers for it: ask the vendor first whether it sent this, since no signature says so"
        }
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
