//! Handshakes: requests by which a vendor checks that the URL is ours. They are answered and never stored.
//!
//! An echo is short printable ASCII without angle brackets under a content type of ours, so that nobody can use the URL
//! to show a page of theirs. A request that does not fit falls through and is judged as an event.
//!
//! Some want their text signed with our key. Where nobody proved who asks, that must not sign events for strangers: only
//! a plain token is signed, and a body that is one, or empty, is never taken for an event ([`HandshakeRules::may_have_signed`]).

use std::borrow::Cow;

use http::{HeaderName, HeaderValue};
use subtle::ConstantTimeEq;

use crate::provider::Compiling;
use crate::provider::description::describe::Handshake;
use crate::provider::scheme::{Part, Place, Verifier, View, Wants};
use crate::request::Request;
use crate::secret::Secret;
use crate::verdict::{HandshakeSecret, Reason, Reply, Verdict};

/// Longest text that is echoed.
const ECHO_BYTES_MAX: usize = 1024;
/// Longest text that is signed for somebody unknown.
const TOKEN_BYTES_MAX: usize = 256;

/// A text of a reply: what stands before and behind one value of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pattern {
    before: String,
    value: Option<Value>,
    after: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Value {
    part: Part,
    /// Signed with the source's key instead of echoed.
    signed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Text(Pattern),
    Object(Vec<(String, Pattern)>),
}

impl Pattern {
    /// Reads a place, `mac:` and a place, a text with one of them in braces, or a fixed text.
    pub(crate) fn parse(text: &str) -> Self {
        if let Some(value) = Value::parse(text) {
            return Self { value: Some(value), ..Self::default() };
        }
        let cut = text.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
        match cut.and_then(|(before, (inside, after))| Some((before, Value::parse(inside)?, after))) {
            Some((before, value, after)) => {
                Self { before: before.to_owned(), value: Some(value), after: after.to_owned() }
            }
            None => Self { before: text.to_owned(), ..Self::default() },
        }
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        self.value.iter().flat_map(|value| value.part.places())
    }

    fn signs(&self) -> bool {
        self.value.as_ref().is_some_and(|value| value.signed)
    }

    fn fill(&self, asked: &Asked<'_, '_, '_>) -> Option<String> {
        let Some(value) = &self.value else { return Some(self.before.clone()) };
        let text = echo(&value.part, asked.view)?;
        let text = match value.signed {
            false => text,
            true if !asked.proved && !is_token(text.as_bytes()) => return None,
            true => asked.verifier?.answer(&text)?.into(),
        };
        Some(format!("{}{text}{}", self.before, self.after))
    }
}

impl Value {
    fn parse(text: &str) -> Option<Self> {
        let signed = text.strip_prefix("mac:");
        Some(Self { part: Part::parse(signed.unwrap_or(text))?, signed: signed.is_some() })
    }
}

impl Content {
    fn patterns(&self) -> Vec<&Pattern> {
        match self {
            Self::Text(pattern) => vec![pattern],
            Self::Object(fields) => fields.iter().map(|(_, pattern)| pattern).collect(),
        }
    }

    fn fill(&self, asked: &Asked<'_, '_, '_>) -> Option<String> {
        match self {
            Self::Text(pattern) => pattern.fill(asked),
            Self::Object(fields) => {
                let fill = |(name, pattern): &(String, Pattern)| Some((name.clone(), pattern.fill(asked)?.into()));
                let filled = fields.iter().map(fill).collect::<Option<_>>()?;
                Some(serde_json::Value::Object(filled).to_string())
            }
        }
    }
}

struct Asked<'v, 'a, 'w> {
    view: &'v View<'a, 'w>,
    verifier: Option<&'v dyn Verifier>,
    proved: bool,
}

/// A provider's handshakes with the settings they need.
#[derive(Debug, Default)]
pub(crate) struct HandshakeRules {
    rules: Vec<Rule>,
    pub(crate) wants: Wants,
}

#[derive(Debug)]
struct Rule {
    handshake: Handshake,
    expected: Vec<Secret>,
}

impl HandshakeRules {
    pub(crate) fn compile(compiling: &mut Compiling<'_>) -> Self {
        let mut rules = Vec::new();
        for handshake in &compiling.spec.description.handshake {
            let mut expected = Vec::new();
            for (_, setting) in &handshake.check {
                match compiling.setting(setting) {
                    Some(value) => expected.push(value.clone()),
                    None => compiling.problem(
                        setting,
                        "this provider's handshake needs this setting",
                        "add it to the source, with the value you gave to the vendor",
                    ),
                }
            }
            rules.push(Rule { handshake: handshake.clone(), expected });
        }
        let wants = Wants::new(rules.iter().flat_map(Rule::places));
        Self { rules, wants }
    }

    /// Answers a handshake, one that nobody signs or one whose signature was checked; none when the request is not one.
    /// `view` is the request's, with what the handshakes read in it.
    pub(crate) fn answer(
        &self,
        request: &Request,
        view: &View<'_, '_>,
        verifier: Option<&dyn Verifier>,
        proved: bool,
    ) -> Option<Result<Verdict, Reason>> {
        let asked = Asked { view, verifier, proved };
        self.asked_by(request, proved).find_map(|rule| rule.answer(&asked))
    }

    fn asked_by(&self, request: &Request, signed: bool) -> impl Iterator<Item = &Rule> {
        let is_asked = move |rule: &&Rule| rule.handshake.signed == signed && rule.handshake.method == request.method;
        self.rules.iter().filter(is_asked)
    }

    /// True for a handshake that is not answered because of what it wants to hear back: the true reason where its
    /// signature, which handshakes seldom have, is found to be missing.
    pub(crate) fn wants_too_much(&self, request: &Request, view: &View<'_, '_>) -> bool {
        self.asked_by(request, false).any(|rule| rule.is_meant(view) && rule.has_unfit_value(view))
    }

    /// True when a request may be an unsigned handshake, as far as its head tells; `view` is the head's.
    pub(crate) fn may_be_meant(&self, head: &Request, view: &View<'_, '_>) -> bool {
        self.asked_by(head, false).any(|rule| rule.is_told_by_body() || rule.is_meant(view))
    }

    /// True when a handshake that anybody may ask for would have signed this body. A token may end where the body begins
    /// (`1731700000.` for `{ts}.{body}`), so the empty body is one that may have been signed, too.
    pub(crate) fn may_have_signed(&self, body: &[u8]) -> bool {
        let signs = |rule: &Rule| !rule.handshake.signed && rule.handshake.patterns().any(Pattern::signs);
        (body.is_empty() || is_token(body)) && self.rules.iter().any(signs)
    }
}

impl Handshake {
    fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.reply.patterns().into_iter().chain(self.headers.iter().map(|(_, pattern)| pattern))
    }
}

impl Rule {
    fn places(&self) -> impl Iterator<Item = &Place> {
        let checked = self.handshake.check.iter().map(|(part, _)| part);
        let when = self.handshake.when.as_ref().map(|(part, _)| part);
        let parts = when.into_iter().chain(checked).chain(&self.handshake.secret);
        parts.flat_map(Part::places).chain(self.handshake.patterns().flat_map(Pattern::places))
    }

    fn is_told_by_body(&self) -> bool {
        self.handshake.when.as_ref().is_some_and(|(part, _)| part.places().iter().any(Place::is_in_body))
    }

    fn is_meant(&self, view: &View<'_, '_>) -> bool {
        let Some((place, wanted)) = &self.handshake.when else { return true };
        place.read(view).is_ok_and(|found| wanted.as_ref().is_none_or(|wanted| *wanted == found))
    }

    fn has_unfit_value(&self, view: &View<'_, '_>) -> bool {
        let mut values = self.handshake.patterns().filter_map(|pattern| pattern.value.as_ref());
        values.any(|value| value.part.read(view).is_ok_and(|text| !is_echoed(&text)))
    }

    fn answer(&self, asked: &Asked<'_, '_, '_>) -> Option<Result<Verdict, Reason>> {
        let (handshake, view) = (&self.handshake, asked.view);
        if !self.is_meant(view) {
            return None;
        }
        let is_met = |((part, _), expected): (&(Part, String), &Secret)| {
            part.read(view).is_ok_and(|text| text.as_bytes().ct_eq(expected.expose()).into())
        };
        if !handshake.check.iter().zip(&self.expected).all(is_met) {
            return Some(Err(Reason::Mismatch));
        }
        let fill = |(name, pattern): &(HeaderName, Pattern)| {
            Some((name.clone(), HeaderValue::from_str(&pattern.fill(asked)?).ok()?))
        };
        let headers = handshake.headers.iter().map(fill).collect::<Option<Vec<_>>>()?;
        let body = handshake.reply.fill(asked)?;
        let reply = Reply { headers, ..Reply::ok(handshake.content_type, body) };
        Some(Ok(match &handshake.secret {
            None => Verdict::Handshake(reply),
            Some(part) => {
                let secret = Secret::new(echo(part, view)?.into_owned());
                Verdict::Secret(HandshakeSecret { secret, reply })
            }
        }))
    }
}

fn echo<'a>(part: &Part, view: &View<'a, '_>) -> Option<Cow<'a, str>> {
    part.read(view).ok().filter(|text| is_echoed(text))
}

/// No vendor's challenge holds a tag, and a reader that guesses content types must not find one.
fn is_echoed(text: &str) -> bool {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'<' | b'>');
    (1..=ECHO_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain)
}

/// True for what vendors make up as a challenge and what is never an event.
fn is_token(text: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=_.-".contains(byte);
    (1..=TOKEN_BYTES_MAX).contains(&text.len()) && text.iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let check = |text: &str, before: &str, value: Option<(&str, bool)>, after: &str| {
            let value = value.map(|(part, signed)| Value { part: Part::parse(part).unwrap(), signed });
            let expected = Pattern { before: before.to_owned(), value, after: after.to_owned() };
            assert_eq!(Pattern::parse(text), expected, "{text}");
        };
        check("query:a", "", Some(("query:a", false)), "");
        check("mac:json:/a", "", Some(("json:/a", true)), "");
        check("sha256={mac:query:a}!", "sha256=", Some(("query:a", true)), "!");
        check("{\"type\":1}", "{\"type\":1}", None, "");
        check("", "", None, "");
    }
}
