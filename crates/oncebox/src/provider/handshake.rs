//! Handshakes: requests by which a vendor checks that the URL is ours. They are answered and never stored.
//!
//! An echo is short printable ASCII under a content type of ours, so that nobody can use the URL to show a page of
//! theirs. A request that does not fit falls through and is judged as an event.

use bytes::Bytes;
use http::{Method, StatusCode};
use subtle::ConstantTimeEq;

use super::Problem;
use super::describe::Handshake;
use super::place::{Part, Place, Reading, View, Wants};
use crate::request::Request;
use crate::secret::Secret;
use crate::source::SourceSpec;
use crate::verdict::{Reason, Rejection, Reply, Step};

/// Longest text that is echoed.
const ECHO_BYTES_MAX: usize = 1024;

/// A provider's handshakes with the settings they need.
#[derive(Debug, Default)]
pub(crate) struct Greeting {
    rules: Vec<Rule>,
    wants: Wants,
}

#[derive(Debug)]
struct Rule {
    handshake: Handshake,
    expected: Vec<Secret>,
}

impl Greeting {
    /// Compiles a spec's handshakes; adds settings that are missing to `problems`.
    pub(crate) fn compile(spec: &SourceSpec, problems: &mut Vec<Problem>) -> Self {
        let mut rules = Vec::new();
        for handshake in &spec.description.handshake {
            let mut expected = Vec::new();
            for (_, setting) in &handshake.check {
                match spec.settings.get(setting).filter(|value| !value.is_blank()) {
                    Some(value) => expected.push(value.clone()),
                    None => problems.push(Problem {
                        key: setting.clone(),
                        message: "this provider's handshake needs this setting".to_owned(),
                        cure: "add it to the source, with the value you gave to the vendor".to_owned(),
                    }),
                }
            }
            rules.push(Rule { handshake: handshake.clone(), expected });
        }
        let places: Vec<&Place> = rules.iter().flat_map(Rule::places).collect();
        let wants = Wants::new(places);
        Self { rules, wants }
    }

    /// The methods handshakes come by.
    pub(crate) fn methods(&self) -> impl Iterator<Item = &Method> {
        self.rules.iter().map(|rule| &rule.handshake.method)
    }

    /// Answers a handshake; none when the request is not one. `signed` says whether its signature was checked.
    pub(crate) fn answer(&self, request: &Request, signed: bool) -> Option<Result<Reply, Rejection>> {
        let fits = |rule: &&Rule| rule.handshake.signed == signed && rule.handshake.method == request.method;
        if !self.rules.iter().any(|rule| fits(&rule)) {
            return None;
        }
        let view = View::new(request, &self.wants);
        self.rules.iter().filter(fits).find_map(|rule| rule.answer(&view))
    }
}

impl Rule {
    fn places(&self) -> impl Iterator<Item = &Place> {
        let checked = self.handshake.check.iter().map(|(part, _)| part);
        let echoed = self.handshake.reply.as_ref().ok();
        let when = self.handshake.when.as_ref().map(|(part, _)| part);
        when.into_iter().chain(checked).chain(echoed).flat_map(Part::places)
    }

    fn answer(&self, view: &View<'_, '_>) -> Option<Result<Reply, Rejection>> {
        if let Some((place, wanted)) = &self.handshake.when {
            let Reading::Text(found) = place.read(view) else { return None };
            if wanted.as_ref().is_some_and(|wanted| *wanted != found) {
                return None;
            }
        }
        let is_met = |((part, _), expected): (&(Part, String), &Secret)| matches!(part.read(view), Reading::Text(text) if bool::from(text.as_bytes().ct_eq(expected.expose())));
        if !self.handshake.check.iter().zip(&self.expected).all(is_met) {
            return Some(Err(Rejection { step: Step::Signature, reason: Reason::Mismatch, off_by_seconds: None }));
        }
        let text = match &self.handshake.reply {
            Err(fixed) => fixed.clone(),
            Ok(part) => echo(&part.read(view))?,
        };
        let body = match &self.handshake.wrap {
            Some(name) => serde_json::json!({ name: text }).to_string(),
            None => text,
        };
        let content_type = self.handshake.content_type;
        Some(Ok(Reply { status: StatusCode::OK, content_type, headers: Vec::new(), body: Bytes::from(body) }))
    }
}

fn echo(reading: &Reading<'_>) -> Option<String> {
    match reading {
        Reading::Text(text)
            if (1..=ECHO_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) =>
        {
            Some(text.clone().into_owned())
        }
        _ => None,
    }
}
