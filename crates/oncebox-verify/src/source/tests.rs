//! Sources from the outside: a request goes in, one line comes out.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::*;
use crate::verdict::Identified;
use crate::{Sample, sample};

mod build;
mod built_in;
mod catalogue;
mod handshake;
mod head;
mod identity;
mod properties;
mod scheme;
mod signature;
mod vector;
mod vendor_keys;

pub(super) const NOW: UnixMillis = 1_731_700_000_000;
pub(super) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(super) const PROVIDERS: [&str; 7] = ["stripe", "github", "shopify", "slack", "twilio", "standard-webhooks", "svix"];

/// A spec with everything the provider needs.
pub(super) fn spec(provider: &str, secrets: &[&str]) -> SourceSpec {
    let mut spec = SourceSpec::named("src", provider).unwrap();
    spec.secrets = secrets.iter().map(|secret| Secret::new(*secret)).collect();
    spec.settings.insert("public_url".to_owned(), Secret::new("https://hooks.example.com"));
    spec
}

pub(super) fn source(provider: &str) -> Source {
    Source::build(spec(provider, &[SECRET])).unwrap()
}

/// A source described whole, as in a `[[source]]` table.
pub(super) fn custom(keys: &str, secrets: &[&str]) -> Result<Source, SourceError> {
    let mut spec = spec("custom", secrets);
    for (key, value) in &keys.parse::<toml::Table>().unwrap() {
        spec.description.set(key, value).map_err(|problem| SourceError { problems: vec![problem] })?;
    }
    Source::build(spec)
}

pub(super) fn request(headers: &[(&str, &str)], body: &[u8]) -> Request {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    Request { method: Method::POST, target: "/in/src".to_owned(), headers: map, body: Bytes::copy_from_slice(body) }
}

/// The provider's sample event, signed now.
pub(super) fn signed(source: &Source, id: &str) -> Request {
    let draft = sample(source, &Sample { id, event_type: None, filler_bytes: 0 }, NOW);
    source.sign(draft, NOW).unwrap()
}

/// A draft with these headers and body, signed now.
pub(super) fn sign(source: &Source, headers: &[(&str, &str)], body: &[u8]) -> Request {
    sign_at(source, headers, body, NOW)
}

pub(super) fn sign_at(source: &Source, headers: &[(&str, &str)], body: &[u8], now: UnixMillis) -> Request {
    let Request { target, headers, body, .. } = request(headers, body);
    source.sign(Draft { target, headers, body }, now).unwrap()
}

pub(super) fn set(request: &mut Request, name: &'static str, value: &str) {
    request.headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
}

pub(super) fn header<'a>(request: &'a Request, name: &str) -> &'a str {
    request.headers.get(name).unwrap().to_str().unwrap()
}

/// The verdict in a line: `accept id type`, `held reason`, `reply text`, `signature mismatch`.
pub(super) fn line(source: &Source, request: &Request) -> String {
    line_at(source, request, NOW)
}

/// The verdict, with which the head alone must agree.
pub(super) fn judged(source: &Source, request: &Request, token: Option<&str>, now: UnixMillis) -> Verdict {
    let verdict = source.judge(request, token, now);
    let head = source.judge_head(&Request { body: Bytes::new(), ..request.clone() }, token, now);
    let is_agreed = match (&verdict, head) {
        // Whoever needs a key and is refused by the head would be refused with the key, too.
        (Verdict::Reject(_) | Verdict::NeedsKey(_), _) | (_, HeadVerdict::ReadOn) => true,
        (Verdict::Handshake(_) | Verdict::Secret(_), HeadVerdict::HandshakeOrElse(_)) => true,
        _ => false,
    };
    assert!(is_agreed, "{}: the head says {head:?}, all of it {verdict:?}", source.provider());
    verdict
}

pub(super) fn line_at(source: &Source, request: &Request, now: UnixMillis) -> String {
    match judged(source, request, None, now) {
        Verdict::Accept(accepted) => accepted.events.iter().map(event_line).collect::<Vec<_>>().join(", "),
        Verdict::Handshake(reply) => format!("reply {}", String::from_utf8_lossy(&reply.body)),
        Verdict::Secret(brought) => format!("secret {}", String::from_utf8_lossy(brought.secret.expose())),
        Verdict::Reject(no) => format!("{} {}", no.step.as_str(), no.reason.as_str()),
        Verdict::Visit(visit) => format!("visit {}", visit.url),
        Verdict::NeedsKey(wanted) => format!("fetch {}", wanted.url),
    }
}

fn event_line(event: &Identified) -> String {
    match event.held {
        Some(reason) => {
            assert!(event.event_id.starts_with("body_"));
            format!("held {}", reason.as_str())
        }
        None => format!("accept {} {}", event.event_id, event.event_type).trim_end().to_owned(),
    }
}

pub(super) fn only(source: &Source, request: &Request) -> Identified {
    match judged(source, request, None, NOW) {
        Verdict::Accept(accepted) if accepted.events.len() == 1 => accepted.events.into_iter().next().unwrap(),
        other => panic!("not one event: {other:?}"),
    }
}
