//! What people want to know about a provider before they use it, in plain lines made from its description.
//!
//! The command `providers`, the generated documentation and the config's guards read these, so none of them can say
//! something else than what the engine does.

use std::time::Duration;

use crate::provider::description::describe::{CarriedAt, Handshake, IdentityRule, MACS, RepeatScope, word_of};
use crate::provider::scheme::{Composite, Part, Place};
use crate::provider::{Description, SETTINGS};

/// What people want to know about a provider before they use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts<'a> {
    /// The vendor's name.
    pub title: &'a str,
    /// What to click at the vendor.
    pub setup: &'a str,
    /// Which secret to copy.
    pub secret_hint: &'a str,
    /// Where the vendor describes it.
    pub docs: &'a str,
    /// How sure we are of authentication, id and retries: S source, D documentation, T third party, M memory.
    pub confidence: &'a str,
    /// How long the sender keeps trying.
    pub retry_window: Option<Duration>,
    /// How long the sender waits for an answer.
    pub deadline: Option<Duration>,
    /// The largest body the sender makes, in bytes, where that is above the ordinary limit.
    pub body_limit: Option<usize>,
    /// What events belong together and which is newer, in a line; a hint, since few vendors promise it.
    pub order: Option<String>,
    /// How a request is authenticated, in a line.
    pub signature: String,
    /// What identifies an event, in a line.
    pub identity: String,
    /// Where the type stands, in a line; empty where there is none.
    pub event_type: String,
    /// What the signature leaves open, a line each; empty where it covers body, id, type and time.
    pub not_covered: Vec<String>,
    /// What whoever saw a request can still do with it, and why nothing stops that; empty where there is nothing.
    pub open: &'a str,
    /// Which requests are answered without being stored, a line each.
    pub handshakes: Vec<String>,
    /// Settings that the scheme reads besides the secret.
    pub settings: Vec<&'static str>,
    /// One request may carry many events.
    pub batch: bool,
    /// A retry may change bytes of the body.
    pub body_varies: bool,
}

impl Description {
    /// What people want to know before they use it.
    pub fn facts(&self) -> Facts<'_> {
        let seconds = |seconds: Option<u32>| seconds.map(|seconds| Duration::from_secs(u64::from(seconds)));
        Facts {
            title: &self.title,
            setup: &self.setup,
            secret_hint: &self.secret_hint,
            docs: &self.docs,
            confidence: &self.confidence,
            retry_window: seconds(self.retry_window),
            deadline: seconds(self.deadline),
            body_limit: self.body_limit(),
            order: self.order.as_ref().map(|(entity, version)| format!("{entity}, by {version}")),
            signature: signature_line(self),
            identity: identity_line(self),
            event_type: joined(&self.event_type, "."),
            not_covered: not_covered(self),
            open: &self.open,
            handshakes: self.handshake.iter().map(handshake_line).collect(),
            settings: settings(self),
            batch: self.each.is_some(),
            body_varies: self.body_varies,
        }
    }
}

fn signature_line(description: &Description) -> String {
    if let Some(scheme) = description.scheme {
        return scheme.line.to_owned();
    }
    let Some(mac) = description.mac else { return "nothing is signed".to_owned() };
    let mut line = word_of(MACS, mac).to_owned();
    if let Some(msg) = description.msg.as_ref().filter(|_| !mac.is_token()) {
        line.push_str(&format!(" over {}", msg.source));
    }
    match description.sig.as_ref().map(|sig| &sig.at) {
        Some(CarriedAt::Headers(names)) => line.push_str(&format!(", in {}", names.join(" or "))),
        Some(CarriedAt::Place(_) | CarriedAt::Every(..)) => line.push_str(", in the request"),
        None => {}
    }
    if let Some(ts) = &description.ts {
        line.push_str(&format!(", at most {} s old", ts.window.past));
    }
    line
}

fn identity_line(description: &Description) -> String {
    match description.identity {
        rule @ (IdentityRule::Digest | IdentityRule::None) => rule.line().to_owned(),
        IdentityRule::Id => {
            let describe = |id: &Composite| id.parts().iter().map(ToString::to_string).collect::<Vec<_>>().join(" + ");
            let mut lines: Vec<String> = description.id.iter().map(describe).collect();
            lines.extend(description.otherwise.map(|rule| rule.line().to_owned()));
            lines.join(", else ")
        }
    }
}

/// What an attacker who sees a request could still change or repeat.
fn not_covered(description: &Description) -> Vec<String> {
    let mut lines = Vec::new();
    if description.mac.is_none() && description.scheme.is_none() {
        return vec!["nothing is signed: give the source a path_token".to_owned()];
    }
    if !description.body_covered() {
        let mut line = "the body: the sender is proved, its bytes are not".to_owned();
        if description.names_delivery() {
            line.push_str("; what was signed for one delivery brings one event, and others under it are held");
        }
        lines.push(line);
    }
    let outside: Vec<String> =
        description.id_places().filter(|place| !place.is_in_body()).map(Place::to_string).collect();
    if !outside.is_empty() && !description.id_signed {
        let same = match (description.body_covered(), description.signs_time()) {
            (true, true) => "the same body with the same signed time or token under another id is held",
            _ => "the same body under another id is held",
        };
        lines.push(format!("the id ({}): {same}", outside.join(", ")));
    }
    lines.extend(open_type(description));
    if !description.signs_time() {
        lines.push("the time: a captured request stays valid, and the ledger is what stops it".to_owned());
    }
    lines
}

/// The type where it stands outside the body and is not signed.
fn open_type(description: &Description) -> Option<String> {
    let is_open = |place: &&Place| !place.is_in_body() && !description.signs_place(place);
    let places = description.event_type.iter().flat_map(Part::places);
    let open: Vec<String> = places.filter(is_open).map(Place::to_string).collect();
    let shared = match description.repeat_scope {
        RepeatScope::Body => "",
        RepeatScope::Type => {
            ": at most 4 types share a body, within 10 minutes, and only types that came with a body of their own before \
             or are listed in topics; others are held"
        }
    };
    (!open.is_empty()).then(|| format!("the type ({}){shared}", open.join(", ")))
}

fn handshake_line(handshake: &Handshake) -> String {
    let mut line = handshake.method.to_string();
    match &handshake.when {
        Some((part, Some(value))) => line.push_str(&format!(" where {part} is {value}")),
        Some((part, None)) => line.push_str(&format!(" with {part}")),
        None => {}
    }
    line.push_str(if handshake.signed { ", signature checked" } else { ", unsigned" });
    line
}

fn settings(description: &Description) -> Vec<&'static str> {
    let carriers = [&description.sig, &description.sig2].into_iter().flatten().filter_map(|sig| sig.setting.as_ref());
    let required = description.require.iter().map(|required| &required.setting);
    let checked = description.handshake.iter().flat_map(|handshake| handshake.check.iter().map(|(_, setting)| setting));
    let claimed =
        description.jwt.iter().flat_map(|rule| rule.aud.iter().chain(rule.equal.iter().map(|(_, name)| name)));
    let named: Vec<&String> = carriers.chain(required).chain(checked).chain(claimed).collect();
    let in_token = description.jwt.as_ref().is_some_and(|rule| rule.url.is_some() || rule.url_hash.is_some());
    let signs_url = description.msg.as_ref().is_some_and(|msg| msg.needs_url()) || in_token;
    let own = description.scheme.map(|scheme| scheme.settings).unwrap_or_default();
    let is_read = |name: &&str| {
        named.iter().any(|known| known == name) || own.contains(name) || signs_url && *name == "public_url"
    };
    SETTINGS.iter().copied().filter(is_read).collect()
}

fn joined(parts: &[Part], separator: &str) -> String {
    parts.iter().map(ToString::to_string).collect::<Vec<_>>().join(separator)
}
