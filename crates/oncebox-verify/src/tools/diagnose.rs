//! Says in a sentence why a request was probably refused: what people get wrong, tried out one by one.
//!
//! Slow on purpose and never part of judging: it runs when a person asks.

use bytes::Bytes;
use http::Method;

use crate::UnixMillis;
use crate::provider::description::describe::{CarriedAt, TimeAt};
use crate::provider::scheme::place::looks_like_json;
use crate::provider::scheme::{KeyForm, Refused, Verifier, verifier};
use crate::provider::{Compiling, SourceSpec};
use crate::request::Request;
use crate::secret::Secret;
use crate::source::Source;
use crate::tools::spelling::spellings;
use crate::verdict::{Reason, Rejection, Step};

/// Largest body that is tried in other spellings.
const BODY_BYTES_MAX: usize = 1 << 20;
const ADDRESS_CURE: &str = "set public_url to the address exactly as it stands at the vendor";

/// The likely cause of a rejection, if one can be told.
pub fn likely_cause(source: &Source, request: &Request, rejection: &Rejection, now: UnixMillis) -> Option<String> {
    let Some(verifier) = source.verifier() else {
        return match rejection.step {
            Step::Method => Some(other_method(request)),
            Step::Signature => Some("the token in the URL is missing or another one".to_owned()),
            _ => None,
        };
    };
    let off = rejection.off_by_seconds.unwrap_or_default();
    let cause = match rejection.reason {
        // Told by a listener before anybody judges; there is nothing to add.
        Reason::TooLarge | Reason::ContentEncoding | Reason::TooSlow | Reason::BrokenBody => return None,
        Reason::Method => return Some(other_method(request)),
        Reason::MissingSignature => return Some(missing(verifier, request)),
        Reason::BadTimestamp => return Some(bad_timestamp(verifier)),
        Reason::Mismatch => return Some(mismatch(source, verifier, request, now)),
        Reason::TooOld => {
            return Some(format!(
                "the signature is right, but it was made {off} s ago: the request was held up or is a replay, or this clock is ahead"
            ));
        }
        Reason::TooNew => {
            return Some(format!(
                "the signature is right, but its time is {off} s in the future: one of the clocks is off"
            ));
        }
        Reason::Address => "it does not come from an address that the source allows",
        Reason::MalformedSignature => "the signature is there, but not in the form this provider writes",
        Reason::TooManySignatures => {
            "the signature header stands more than once or holds too many signatures; a proxy may have added one"
        }
        Reason::NotArmed => "the handshake brings a secret, and nobody ran `oncebox arm` for this source",
        Reason::UnfitChallenge => {
            "the handshake's challenge is not echoed: it holds an angle bracket or another character that no vendor \
             sends, or it is too long"
        }
        Reason::RequiredHeader => "a header that names the key or its version has another value",
        Reason::UnknownKey => "the key that signed is not among those that were given or fetched",
        Reason::ForeignKey => "the address of the certificate is not one of the vendor's hosts",
        Reason::ExpiredKey => "the signature is right, but the certificate is not good at this time",
        Reason::WrongClaim => {
            "issuer, audience, topic or account of the message are not those in the settings: it is meant for somebody else"
        }
    };
    Some(cause.to_owned())
}

fn other_method(request: &Request) -> String {
    format!("this source does not answer {}", request.method)
}

fn missing(verifier: &dyn Verifier, request: &Request) -> String {
    let carrier = verifier.described().and_then(|scheme| scheme.carriers.first());
    let names = carrier.map(|(carrier, _)| match &carrier.at {
        CarriedAt::Headers(names) => names.join(" or "),
        CarriedAt::Place(place) => place.to_string(),
        CarriedAt::Every(_, place) => format!("{place} of an element"),
    });
    let names = names.unwrap_or_else(|| "the signature".to_owned());
    if names == "x-hub-signature-256" && request.headers.contains_key("x-hub-signature") {
        return "only the old SHA-1 header x-hub-signature is there; x-hub-signature-256 is missing".to_owned();
    }
    format!("{names} is missing: the sender has no secret for this URL, or a proxy removed it")
}

fn bad_timestamp(verifier: &dyn Verifier) -> String {
    let time = verifier.described().and_then(|scheme| scheme.time.as_ref());
    let place = match time.map(|time| &time.at) {
        Some(TimeAt::Header(part) | TimeAt::Json(part)) => part.to_string(),
        _ => "the signature header".to_owned(),
    };
    format!("the time in {place} is missing, stands twice or is not written the way this provider writes it")
}

fn mismatch(source: &Source, verifier: &dyn Verifier, request: &Request, now: UnixMillis) -> String {
    if request.method != Method::POST {
        return "the token of the handshake is not the one in the settings".to_owned();
    }
    other_body(verifier, request, now)
        .or_else(|| other_secret(source.spec(), request, now))
        .or_else(|| other_address(source, verifier, request, now))
        .or_else(|| other_credential(source.spec()))
        .unwrap_or_else(|| unexplained(source, verifier))
}

/// What stands beside the webhook's secret at a vendor and is pasted in its place: the vendor, how it begins, what it is.
const CREDENTIALS: [(&str, &str, &str); 16] = [
    ("stripe", "sk_", "an API key of Stripe; the signing secret of the endpoint begins with whsec_"),
    ("stripe", "rk_", "an API key of Stripe; the signing secret of the endpoint begins with whsec_"),
    ("stripe", "pk_", "a publishable key of Stripe; the signing secret of the endpoint begins with whsec_"),
    ("stripe", "we_", "the id of the endpoint; its signing secret begins with whsec_"),
    ("github", "ghp_", "a personal access token; the secret is the one typed into the webhook's own form"),
    ("github", "github_pat_", "a personal access token; the secret is the one typed into the webhook's own form"),
    ("github", "ghs_", "a token of an installation; the secret is the one typed into the webhook's own form"),
    ("gitlab", "glpat-", "a personal access token; the secret is the one typed into the webhook's own form"),
    ("slack", "xox", "a token of the bot or the user; the signing secret is among the app's basic information"),
    ("slack", "xapp-", "an app-level token; the signing secret is among the app's basic information"),
    ("shopify", "shpat_", "an access token; webhooks are signed with the app's client secret"),
    ("shopify", "shpca_", "an access token; webhooks are signed with the app's client secret"),
    ("twilio", "AC", "the account's SID; webhooks are signed with its auth token"),
    ("twilio", "SK", "the SID of an API key; webhooks are signed with the account's auth token"),
    ("linear", "lin_api_", "an API key; the signing secret of the webhook begins with lin_wh_"),
    ("", "https://", "a URL"),
];

/// Never shows the secret, only what kind of thing it is.
fn other_credential(spec: &SourceSpec) -> Option<String> {
    let secrets = || spec.secrets.iter().map(Secret::expose);
    let begins = |begin: &str| secrets().any(|secret| secret.starts_with(begin.as_bytes()));
    let mut of_vendor = CREDENTIALS.iter().filter(|(vendor, ..)| spec.provider.starts_with(vendor));
    let (.., what) = of_vendor.find(|(_, begin, _)| begins(begin))?;
    Some(format!("the secret is of the wrong kind: it looks like {what}"))
}

/// Nothing that was tried fits: what is left, the most frequent first.
fn unexplained(source: &Source, verifier: &dyn Verifier) -> String {
    let cause = match source.description().sends_token() {
        // No body is signed, so that none can be at fault.
        true => "the token that the sender sends is another one",
        false => "a wrong secret, or a body that was changed on its way",
    };
    let mut sentence = format!("no secret matches: {cause}");
    if source.spec().path_token.is_some() {
        sentence.push_str(", or another token in the URL");
    }
    if verifier.address().is_some() {
        sentence.push_str(", or a wrong public_url, since this provider signs the URL; ");
        sentence.push_str(ADDRESS_CURE);
    }
    sentence
}

fn other_body(verifier: &dyn Verifier, request: &Request, now: UnixMillis) -> Option<String> {
    if request.body.len() > BODY_BYTES_MAX {
        return None;
    }
    let trimmed: [(&str, Vec<u8>); 4] = [
        ("the body without the white space at its end", request.body.trim_ascii_end().to_vec()),
        ("the body with white space at its end (a line feed)", [&request.body[..], b"\n"].concat()),
        ("the body with bare line feeds", request.body.iter().copied().filter(|byte| *byte != b'\r').collect()),
        (
            "the body without its byte order mark",
            request.body.strip_prefix(b"\xef\xbb\xbf").unwrap_or_default().to_vec(),
        ),
    ];
    let json = looks_like_json(&request.body).then(|| spellings(&request.body)).into_iter().flatten();
    let bodies = trimmed.into_iter().map(|(what, body)| (what.to_owned(), body)).chain(json);
    let mut others = bodies.filter(|(_, body)| *body != request.body);
    let (what, _) = others.find(|(_, body)| {
        let changed = Request { body: Bytes::from(body.clone()), ..request.clone() };
        fits(verifier, &changed, now)
    })?;
    Some(format!("the body was changed on the way: the signature fits {what}. Pass on the raw bytes"))
}

fn other_secret(spec: &SourceSpec, request: &Request, now: UnixMillis) -> Option<String> {
    let fits_with = |form: KeyForm, change: &dyn Fn(&[u8]) -> Vec<u8>| {
        let mut spec = spec.clone();
        spec.description.key = form;
        spec.secrets = spec.secrets.iter().map(|secret| Secret::new(change(secret.expose()))).collect();
        verifier::compile(&mut Compiling::new(&spec)).is_some_and(|verifier| fits(&*verifier, request, now))
    };
    let own = spec.description.key;
    let same = |secret: &[u8]| secret.to_vec();
    let bare = |secret: &[u8]| secret.strip_prefix(b"whsec_").unwrap_or(secret).to_vec();
    let prefixed = |secret: &[u8]| [b"whsec_", secret].concat();
    let trimmed = |secret: &[u8]| {
        let text = secret.trim_ascii();
        text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(text).to_vec()
    };
    if fits_with(own, &trimmed) {
        return Some("the secret has white space or quotes around it".to_owned());
    }
    if fits_with(own, &prefixed) {
        return Some("the secret is there without its whsec_ in front".to_owned());
    }
    let forms = [
        (KeyForm::Utf8, "as plain text (key = \"utf8\")"),
        (KeyForm::Base64, "decoded from base64 (key = \"base64\")"),
        (KeyForm::Hex, "decoded from hex (key = \"hex\")"),
        (KeyForm::Whsec, "decoded from base64 behind whsec_ (key = \"whsec\")"),
    ];
    for (form, how) in forms.into_iter().filter(|(form, _)| *form != own) {
        if fits_with(form, &same) || fits_with(form, &bare) {
            return Some(format!("the secret is right but of another kind: the signature fits when it is taken {how}"));
        }
    }
    fits_with(own, &bare).then(|| "the sender uses the secret without its whsec_ in front".to_owned())
}

fn other_address(source: &Source, verifier: &dyn Verifier, request: &Request, now: UnixMillis) -> Option<String> {
    let variants = verifier.address()?.variants(&request.target);
    let (what, _) = variants.into_iter().find(|(_, variant)| {
        let mut compiling = Compiling { address: Some(variant.clone()), ..Compiling::new(source.spec()) };
        verifier::compile(&mut compiling).is_some_and(|other| fits(&*other, request, now))
    })?;
    Some(format!("the URL that the vendor calls differs from public_url in {what}; {ADDRESS_CURE}"))
}

/// True when the signature is right, whatever the time.
fn fits(verifier: &dyn Verifier, request: &Request, now: UnixMillis) -> bool {
    match verifier.verify(request, now) {
        Ok(_) => true,
        Err(Refused::Rejected(rejection)) => matches!(rejection.reason, Reason::TooOld | Reason::TooNew),
        Err(Refused::NeedsKey(_)) => false,
    }
}
