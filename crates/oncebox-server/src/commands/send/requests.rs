//! The requests of a run, signed one after the other as they are taken, so that a million of them need no memory.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use oncebox::gateway::clock::{Clock, UnixMillis};
use oncebox_verify::{Request, Sample, Source, Verdict};
use uuid::Uuid;

#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The id of the one event; a fresh one for each when absent.
    pub(super) id: Option<String>,
    pub(super) event_type: Option<String>,
    /// How many different events.
    pub(super) events: u64,
    /// How often each.
    pub(super) copies: u64,
    /// Signed so long ago.
    pub(super) age: Duration,
    /// Change the body after signing.
    pub(super) tamper: bool,
}

/// The requests in order: all copies of an event, then the next one.
#[derive(Debug)]
pub(super) struct Requests {
    source: Source,
    target: String,
    plan: Plan,
    clock: Clock,
    current: Option<Arc<Request>>,
    copies_left: u64,
    events_left: u64,
}

impl Requests {
    /// Nothing is signed before it is taken.
    pub(super) fn new(source: Source, target: String, plan: Plan) -> Self {
        let events_left = plan.events;
        Self { source, target, plan, clock: Clock::system(), current: None, copies_left: 0, events_left }
    }

    /// True when a request spoiled by this plan would be taken all the same, because nothing that is signed tells.
    pub(super) fn are_taken(&self, path_token: Option<&str>) -> bool {
        let judge = |request: Request| self.source.judge(&request, path_token, self.clock.now());
        self.sign().is_ok_and(|request| matches!(judge(request), Verdict::Accept(_)))
    }

    fn sign(&self) -> anyhow::Result<Request> {
        let fresh = || oncebox_verify::id_for(self.source.provider(), &Uuid::now_v7().simple().to_string());
        let id = self.plan.id.clone().unwrap_or_else(fresh);
        let now = self.clock.now() - UnixMillis::try_from(self.plan.age.as_millis()).unwrap_or(UnixMillis::MAX / 2);
        let sample = Sample { id: &id, event_type: self.plan.event_type.as_deref(), filler_bytes: 0 };
        let mut draft = oncebox_verify::sample(&self.source, &sample, now);
        draft.target.clone_from(&self.target);
        let mut request = self.source.sign(draft, now).context("cannot sign as this provider does")?;
        if self.plan.tamper {
            request.body = tampered(&request.body);
        }
        Ok(request)
    }
}

impl Iterator for Requests {
    type Item = anyhow::Result<Arc<Request>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.copies_left == 0 {
            self.events_left = self.events_left.checked_sub(1)?;
            match self.sign() {
                Ok(request) => self.current = Some(Arc::new(request)),
                Err(refusal) => {
                    self.events_left = 0;
                    return Some(Err(refusal));
                }
            }
            self.copies_left = self.plan.copies;
        }
        self.copies_left -= 1;
        self.current.clone().map(Ok)
    }
}

/// One byte of the body changed.
fn tampered(body: &Bytes) -> Bytes {
    let mut bytes = body.to_vec();
    match bytes.last_mut() {
        Some(last) => *last ^= 1,
        None => bytes.push(b' '),
    }
    bytes.into()
}

#[cfg(test)]
mod tests {
    use oncebox_verify::Description;
    use oncebox_verify::Secret;
    use oncebox_verify::SourceSpec;

    use super::*;
    use crate::config::store::StoreUrl;
    use crate::dev::secrets::DevSecrets;

    fn requests(provider: &str, plan: Plan) -> (Source, Requests) {
        let folder = tempfile::tempdir().expect("a folder");
        let store = StoreUrl::Sqlite(folder.path().join("oncebox.db"));
        let secrets = DevSecrets::load_or_create(&store, &[provider]).expect("secrets");
        let build = || {
            let mut spec = SourceSpec::named(provider, provider).expect("a provider");
            spec.secrets = vec![secrets.get(provider).expect("a secret").clone()];
            spec.settings = crate::dev::agreed(provider);
            spec.settings.insert("public_url".to_owned(), Secret::new("http://127.0.0.1:8080"));
            if spec.description.needs_path_token() {
                spec.path_token = spec.secrets.pop();
            }
            Source::build(spec).unwrap_or_else(|problems| panic!("{provider}: {problems:?}"))
        };
        (build(), Requests::new(build(), format!("/in/{provider}"), plan))
    }

    fn plan() -> Plan {
        Plan { id: None, event_type: None, events: 1, copies: 1, age: Duration::ZERO, tamper: false }
    }

    #[test]
    fn copies_are_the_same_bytes_and_events_differ() {
        let (_, requests) = requests("stripe", Plan { events: 2, copies: 3, ..plan() });
        let sent: Vec<Arc<Request>> = requests.map(|request| request.expect("signed")).collect();
        let bodies: Vec<&Bytes> = sent.iter().map(|request| &request.body).collect();
        assert_eq!(sent.len(), 6);
        assert!(bodies[..3].iter().all(|body| *body == bodies[0]) && bodies[3..].iter().all(|body| *body == bodies[3]));
        assert_ne!(bodies[0], bodies[3]);
    }

    #[test]
    fn good_ones_are_accepted_and_bad_ones_are_not() {
        for provider in crate::dev::dev_slugs() {
            let accepted = |plan: Plan| {
                let (source, mut requests) = requests(provider, plan);
                let request = requests.next().expect("a request").expect("signed");
                matches!(source.judge(&request, None, Clock::system().now()), Verdict::Accept(_))
            };
            let description = Description::named(provider).expect("a provider");
            if description.needs_path_token() {
                continue;
            }
            assert!(accepted(plan()), "{provider}");
            if description.body_covered() {
                assert!(!accepted(Plan { tamper: true, ..plan() }), "{provider} tampered");
            }
        }
        let (source, mut requests) = requests("stripe", Plan { age: Duration::from_secs(600), ..plan() });
        let request = requests.next().expect("a request").expect("signed");
        assert!(matches!(source.judge(&request, None, Clock::system().now()), Verdict::Reject(_)));
    }
}
