//! The requests of a load: signed one by one from a template, with a share of repeats among them.
//!
//! Only the id inside the body changes from event to event, so that making one costs a copy and a signature: little
//! beside what the server does with it.

use anyhow::Context as _;
use bytes::Bytes;
use data_encoding::HEXLOWER;
use oncebox::Clock;
use oncebox_verify::{Draft, Sample, Secret, Source, SourceSpec};

use crate::http::token::random;

/// Stands in the template where the id goes; as long as an id.
const PLACEHOLDER: &str = "00000000000000000000000000000000";
/// How many earlier requests of a connection may be repeated.
const REMEMBERED: usize = 64;

/// What a load sends.
#[derive(Debug)]
pub(super) struct Script {
    source: Source,
    template: Draft,
    /// Where in its body the id goes.
    places: Vec<usize>,
    duplicates: f64,
    clock: Clock,
}

/// The requests of one connection.
#[derive(Debug)]
pub(super) struct Lines<'s> {
    script: &'s Script,
    remembered: Vec<Vec<u8>>,
    next_repeat: usize,
    owed: f64,
    was_fresh: bool,
    prefix: [u8; 8],
    count: u64,
}

impl Script {
    /// Stripe's events with bodies of this size; `duplicates` is the share of repeats.
    pub(super) fn stripe(secret: &Secret, body_bytes: usize, duplicates: f64) -> anyhow::Result<Self> {
        let source = source("stripe", secret)?;
        let id = oncebox_verify::id_for("stripe", PLACEHOLDER);
        let draft = |filler_bytes: usize| {
            let sample = Sample { id: &id, event_type: None, filler_bytes };
            oncebox_verify::sample(&source, &sample, Clock::system().now())
        };
        let bare = draft(0).body.len();
        let draft = draft(body_bytes.saturating_sub(bare));
        Ok(Self::new(source, draft, duplicates))
    }

    /// The same script for another path.
    pub(super) fn at(mut self, target: &str) -> Self {
        target.clone_into(&mut self.template.target);
        self
    }

    /// The requests of a connection; `number` keeps the ids of connections apart.
    pub(super) fn lines(&self, number: u64) -> anyhow::Result<Lines<'_>> {
        let mut prefix = [0; 8];
        prefix[..6].copy_from_slice(&random::<6>()?);
        prefix[6..].copy_from_slice(&number.to_be_bytes()[6..]);
        Ok(Lines {
            script: self,
            remembered: Vec::new(),
            next_repeat: 0,
            owed: 0.0,
            was_fresh: false,
            prefix,
            count: 0,
        })
    }

    fn new(source: Source, template: Draft, duplicates: f64) -> Self {
        let fits = |at: &usize| template.body[*at..].starts_with(PLACEHOLDER.as_bytes());
        // The filler is of another letter, so only the id itself is found.
        let places = (0..template.body.len()).filter(fits).collect();
        Self { source, template, places, duplicates, clock: Clock::system() }
    }

    fn render(&self, id: &str) -> anyhow::Result<Vec<u8>> {
        let mut body = self.template.body.to_vec();
        for at in &self.places {
            body[*at..*at + id.len()].copy_from_slice(id.as_bytes());
        }
        let draft = Draft { body: Bytes::from(body), ..self.template.clone() };
        let request = self.source.sign(draft, self.clock.now()).context("cannot sign")?;
        let mut bytes = Vec::with_capacity(request.body.len() + 512);
        bytes.extend_from_slice(format!("POST {} HTTP/1.1\r\nhost: bench\r\n", request.target).as_bytes());
        for (name, value) in &request.headers {
            bytes.extend_from_slice(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", request.body.len()).as_bytes());
        bytes.extend_from_slice(&request.body);
        Ok(bytes)
    }
}

impl Lines<'_> {
    pub(super) fn next(&mut self) -> anyhow::Result<&[u8]> {
        self.owed += self.script.duplicates;
        // Until enough is remembered at most every second one is a repeat: a slow run has some, too, and a long one does
        // not repeat the same few for ever. Nothing is owed for it later.
        let may_repeat = self.remembered.len() == REMEMBERED || self.was_fresh;
        if self.owed >= 1.0 && may_repeat {
            (self.owed, self.was_fresh) = (self.owed - 1.0, false);
            self.next_repeat = (self.next_repeat + 1) % self.remembered.len();
            return Ok(&self.remembered[self.next_repeat]);
        }
        (self.owed, self.was_fresh) = (self.owed.fract(), true);
        self.count += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.prefix);
        id[8..].copy_from_slice(&self.count.to_be_bytes());
        let request = self.script.render(&HEXLOWER.encode(&id))?;
        if self.remembered.len() < REMEMBERED {
            self.remembered.push(request);
            return Ok(self.remembered.last().map_or(&[], Vec::as_slice));
        }
        let at = usize::try_from(self.count).unwrap_or_default() % REMEMBERED;
        self.remembered[at] = request;
        Ok(&self.remembered[at])
    }
}

fn source(provider: &str, secret: &Secret) -> anyhow::Result<Source> {
    let mut spec = SourceSpec::named(provider, provider).context("the catalogue lacks this provider")?;
    spec.secrets = vec![secret.clone()];
    Source::build(spec).map_err(|wrong| crate::dev::provider_args::refuse(provider, &wrong.problems))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn check(duplicates: f64, requests: usize, expected: std::ops::RangeInclusive<usize>) {
        let script = Script::stripe(&Secret::new("whsec_x"), 1024, duplicates).expect("a script");
        let mut lines = script.lines(7).expect("lines");
        let mut seen = HashSet::new();
        for _ in 0..requests {
            let line = lines.next().expect("a request");
            let body = line.windows(4).position(|part| part == b"\r\n\r\n").expect("a head") + 4;
            assert_eq!(line.len() - body, 1024);
            seen.insert(line[body..].to_vec());
        }
        assert!(expected.contains(&seen.len()), "{} different of {requests} at {duplicates}", seen.len());
    }

    #[test]
    fn the_share_of_repeats_is_kept() {
        check(0.0, 300, 300..=300);
        check(1.0, 300, REMEMBERED..=REMEMBERED);
        check(0.5, 1064, 530..=534);
        check(0.9, 2, 1..=1);
    }

    #[test]
    fn requests_are_accepted_by_their_source() {
        let secret = Secret::new("whsec_x");
        let script = Script::stripe(&secret, 600, 0.0).expect("a script");
        let mut lines = script.lines(1).expect("lines");
        let line = lines.next().expect("a request").to_vec();
        let text = String::from_utf8(line).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let mut headers = http::HeaderMap::new();
        for (name, value) in head.lines().skip(1).filter_map(|line| line.split_once(": ")) {
            let name = http::HeaderName::try_from(name).expect("a name");
            headers.insert(name, value.parse().expect("a value"));
        }
        let request = oncebox_verify::Request {
            method: http::Method::POST,
            target: script.template.target.clone(),
            headers,
            body: Bytes::from(body.to_owned()),
        };
        let verdict = script.source.judge(&request, None, Clock::system().now());
        assert!(!matches!(verdict, oncebox_verify::Verdict::Reject(_)), "{verdict:?}");
    }
}
