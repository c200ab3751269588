//! A verdict as `explain` gives it: a line of JSON for scripts, a short block for people.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

use oncebox_verify::{
    HandshakeSecret, Identified, IdentityKind, KeyWanted, Reason, Rejection, Reply, Request, Step, Verdict, Visit,
};
use serde::{Serialize, Serializer};

use crate::terminal::{self, Tone};

#[derive(Debug, Default, Serialize)]
pub(super) struct Ruling {
    verdict: Word,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    step: Option<&'static str>,
    reason: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    off_by_seconds: Option<i64>,
    /// Why a request was probably refused, where that is known; only a refused one has this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<Option<String>>,
    events: Vec<Named>,
    reply: Option<Answer>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    #[default]
    Accept,
    Reject,
    Handshake,
    Error,
}

#[derive(Debug, Serialize)]
struct Named {
    /// None where every arrival is an event: its id is the key that the inbox makes when it arrives.
    id: Option<String>,
    r#type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct Answer {
    status: u16,
    #[serde(serialize_with = "as_map")]
    headers: Vec<(String, String)>,
    body: String,
}

fn as_map<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

impl Ruling {
    /// What a source said, and the likely cause where it refused.
    pub(super) fn new(verdict: Verdict, cause: Option<String>) -> Self {
        match verdict {
            Verdict::Accept(accepted) => {
                let events = accepted.events.into_iter().map(named).collect();
                Self { events, reply: accepted.reply.map(answer), ..Self::default() }
            }
            Verdict::Visit(Visit { reply, .. })
            | Verdict::Handshake(reply)
            | Verdict::Secret(HandshakeSecret { reply, .. }) => {
                Self { verdict: Word::Handshake, reply: Some(answer(reply)), ..Self::default() }
            }
            Verdict::Reject(Rejection { step, reason, off_by_seconds }) => Self {
                verdict: Word::Reject,
                step: Some(step.as_str()),
                reason: Some(Cow::Borrowed(reason.as_str())),
                off_by_seconds,
                cause: Some(cause),
                ..Self::default()
            },
            Verdict::NeedsKey(KeyWanted { url, .. }) => Self {
                verdict: Word::Reject,
                step: Some(Step::Signature.as_str()),
                reason: Some(Cow::Borrowed(Reason::UnknownKey.as_str())),
                cause: Some(Some(format!(
                    "the key at {url} would be fetched; to judge offline, give it with --secret"
                ))),
                ..Self::default()
            },
        }
    }

    /// A request that is refused before its signature is looked at.
    pub(super) fn refused(step: &'static str, reason: &'static str, cause: String) -> Self {
        Self {
            verdict: Word::Reject,
            step: Some(step),
            reason: Some(Cow::Borrowed(reason)),
            cause: Some(Some(cause)),
            ..Self::default()
        }
    }

    /// A line that is no captured request.
    pub(super) fn unreadable(line: u64, what: &str) -> Self {
        Self {
            verdict: Word::Error,
            line: Some(line),
            step: Some("read"),
            reason: Some(Cow::Owned(what.to_owned())),
            ..Self::default()
        }
    }

    pub(super) fn write_for_people(
        &self,
        out: &mut impl Write,
        line: u64,
        request: Option<&Request>,
    ) -> io::Result<()> {
        let (mark, tone, word) = match self.verdict {
            Word::Accept => ("✓", Tone::Good, "accepted"),
            Word::Handshake => ("✓", Tone::Good, "a handshake, answered"),
            Word::Reject => ("✗", Tone::Bad, "rejected"),
            Word::Error => ("✗", Tone::Bad, "not a captured request"),
        };
        let what = request.map(|request| format!(" {} {}", request.method, terminal::plain(&request.target)));
        writeln!(out, "{} line {line}:{} {word}", terminal::paint(mark, tone), what.unwrap_or_default())?;
        for event in &self.events {
            let held = event.held.map(|held| format!(", held: {held}")).unwrap_or_default();
            let id = event.id.as_deref().unwrap_or("(every arrival is an event, its key is its id)");
            writeln!(out, "    event  {} {}{held}", terminal::plain(id), terminal::plain(&event.r#type))?;
        }
        if let Some(reply) = &self.reply {
            writeln!(out, "    reply  {} {}", reply.status, terminal::plain(&reply.body))?;
            for (name, value) in &reply.headers {
                writeln!(out, "           {name}: {}", terminal::plain(value))?;
            }
        }
        if let (Some(step), Some(reason)) = (self.step, &self.reason) {
            writeln!(out, "    failed at {step}: {}", terminal::plain(reason).replace('_', " "))?;
        }
        if let Some(Some(cause)) = &self.cause {
            writeln!(out, "    likely {}", terminal::plain(cause))?;
        }
        Ok(())
    }
}

fn named(event: Identified) -> Named {
    let id = (event.identity_kind != IdentityKind::Arrival).then_some(event.event_id);
    Named { id, r#type: event.event_type, held: event.held.map(|held| held.as_str()) }
}

fn answer(reply: Reply) -> Answer {
    let mut headers = vec![("content-type".to_owned(), reply.content_type.to_owned())];
    let text = |(name, value): (http::HeaderName, http::HeaderValue)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    headers.extend(reply.headers.into_iter().map(text));
    let body = String::from_utf8_lossy(&reply.body).into_owned();
    Answer { status: reply.status.as_u16(), headers, body }
}

#[derive(Debug, Default)]
pub(super) struct Summary {
    accepted: u64,
    rejected: u64,
    handshakes: u64,
    unreadable: u64,
}

impl Summary {
    pub(super) fn add(&mut self, ruling: &Ruling) {
        *match ruling.verdict {
            Word::Accept => &mut self.accepted,
            Word::Reject => &mut self.rejected,
            Word::Handshake => &mut self.handshakes,
            Word::Error => &mut self.unreadable,
        } += 1;
    }

    /// True when every line could be read and none was rejected.
    pub(super) fn is_all_good(&self) -> bool {
        self.rejected == 0 && self.unreadable == 0
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.accepted + self.rejected + self.handshakes + self.unreadable;
        write!(f, "{}: {} accepted, {} rejected", terminal::counted(total, "line"), self.accepted, self.rejected)?;
        for (count, noun) in [(self.handshakes, "handshake"), (self.unreadable, "unreadable line")] {
            if count > 0 {
                write!(f, ", {}", terminal::counted(count, noun))?;
            }
        }
        Ok(())
    }
}
