//! Every provider against the second opinion of the test kit, which signs from the vendors' facts and never from our
//! code: what must be accepted with which ids and types, and every spoilt form that must be refused.
//!
//! All disagreements are reported at once, one per line: the list is what is left to do.

mod captured;
mod keys_wrong;
mod keys_wrong_store;
mod published;

use std::collections::BTreeSet;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use oncebox_verify::{Accepted, Identified, IdentityKind, Request, Secret, Source, SourceSpec, Verdict};
use testkit::oracle::spoil::{changed, spoilt};
use testkit::oracle::{Capture, Case, Expected, Id, ORIGIN, Place, QUERY_FIELD, cases};

/// Providers that no case describes; none so far.
const WITHOUT_CASE: [&str; 0] = [];

#[test]
fn every_provider_judges_as_its_vendor_signs() {
    let cases = cases();
    let mut failures = Vec::new();
    for case in &cases {
        match build(case) {
            Ok(source) => check_case(case, &source, &mut failures),
            Err(problem) => failures.push(format!("{:<28} | cannot be built: {problem}", case.name())),
        }
    }
    let names: BTreeSet<String> =
        failures.iter().filter_map(|line| line.split(" |").next()).map(str::to_owned).collect();
    let table = failures.join("\n");
    assert!(failures.is_empty(), "{} of {} cases disagree:\n{table}\n", names.len(), cases.len());
}

#[test]
fn no_provider_is_without_a_case() {
    let known: BTreeSet<&str> = oncebox_verify::provider_names().into_iter().collect();
    let described: BTreeSet<&str> = cases().iter().map(|case| case.slug).chain(WITHOUT_CASE).collect();
    let (unproven, unknown) = (&known - &described, &described - &known);
    assert!(
        unproven.is_empty() && unknown.is_empty(),
        "without a case: {unproven:?}\nnot in the catalogue: {unknown:?}"
    );
}

/// One number everywhere: the catalogue's.
#[test]
fn the_documentation_counts_the_providers_as_the_catalogue_does() {
    let count = format!("{} providers", oncebox_verify::provider_names().len());
    for (name, text) in [
        ("README.md", include_str!("../../../../README.md")),
        ("docs/embedding.md", include_str!("../../../../docs/embedding.md")),
    ] {
        assert!(text.contains(&count), "{name} does not say {count:?}");
    }
}

/// The driver itself: a source that lets everything in must fail at every spoilt request, or the table proves nothing.
#[test]
fn a_source_that_accepts_everything_is_noticed() {
    for case in cases() {
        let Some(mut open) = spec(&case) else { continue };
        (open.unverified, open.path_token) = (true, None);
        let Ok(source) = Source::build(open) else { continue };
        let mut unnoticed = Vec::new();
        for spoilt in spoilt(&case, 1) {
            let (request, _) = request(&case, &spoilt.capture);
            if matches!(source.judge(&request, None, spoilt.capture.at * 1000), Verdict::Reject(_)) {
                unnoticed.push(spoilt.how);
            }
        }
        assert!(unnoticed.is_empty(), "{}: {unnoticed:?}", case.name());
    }
}

/// The source that an operator would configure for a case.
fn build(case: &Case) -> Result<Source, String> {
    Source::build(spec(case).ok_or("no such provider")?).map_err(|problems| format!("{problems:?}"))
}

fn spec(case: &Case) -> Option<SourceSpec> {
    let mut spec = SourceSpec::named(case.slug, case.slug)?;
    let keys: toml::Table = case.description.parse().unwrap();
    for (key, value) in &keys {
        spec.description.set(key, value).unwrap();
    }
    match case.place {
        Place::Path => spec.path_token = Some(Secret::new(case.secret)),
        Place::Header(_) | Place::Inner => spec.secrets = vec![Secret::new(case.secret)],
    }
    spec.settings = case.settings.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect();
    Some(spec)
}

fn check_case(case: &Case, source: &Source, failures: &mut Vec<String>) {
    let mut fail = |what: &str, found: String| failures.push(format!("{:<28} | {what} | {found}", case.name()));
    let good = case.signed(&case.ctx(1));
    let mut accepted = vec![("as signed", good.clone())];
    accepted.extend(case.accepts.iter().map(|(what, change)| (*what, changed(case, 1, *change))));
    if let Some(window) = case.window {
        accepted.push(("at the end of the window", Capture { at: good.at + window.fresh, ..good.clone() }));
    }
    for (what, capture) in accepted {
        match judge(case, source, &capture) {
            Verdict::Accept(found) => {
                if let Err(difference) = compare(&capture.events, &found) {
                    fail(what, difference);
                }
            }
            other => fail(what, format!("must be accepted: {other:?}")),
        }
    }
    for spoilt in spoilt(case, 1) {
        match judge(case, source, &spoilt.capture) {
            Verdict::Reject(_) => {}
            Verdict::Accept(_) => fail(spoilt.how, "must be refused, was accepted".to_owned()),
            other => fail(spoilt.how, format!("must be refused: {other:?}")),
        }
    }
}

/// What a source says about a capture that comes to its own path.
fn judge(case: &Case, source: &Source, capture: &Capture) -> Verdict {
    let (request, token) = request(case, capture);
    source.judge(&request, token.as_deref(), capture.at * 1000)
}

fn request(case: &Case, capture: &Capture) -> (Request, Option<String>) {
    let mut headers = HeaderMap::new();
    for (name, value) in &capture.headers {
        headers.append(HeaderName::try_from(name.as_str()).unwrap(), HeaderValue::try_from(value.as_str()).unwrap());
    }
    let field = spec(case).and_then(|spec| spec.description.credential_query().map(str::to_owned)).unwrap_or_default();
    let target = capture.url.strip_prefix(ORIGIN).unwrap().replace(QUERY_FIELD, &field);
    let token = match case.place {
        Place::Path => Some(target.rsplit('/').next().unwrap().to_owned()),
        Place::Header(_) | Place::Inner => None,
    };
    let method = Method::from_bytes(capture.method.as_bytes()).unwrap();
    (Request { method, target, headers, body: Bytes::copy_from_slice(&capture.body) }, token)
}

fn compare(expected: &[Expected], found: &Accepted) -> Result<(), String> {
    if expected.len() != found.events.len() {
        let ids: Vec<&str> = found.events.iter().map(|event| event.event_id.as_str()).collect();
        return Err(format!("{} events, not {}: {ids:?}", ids.len(), expected.len()));
    }
    let differences: Vec<String> =
        expected.iter().zip(&found.events).filter_map(|(expected, found)| difference(expected, found)).collect();
    if differences.is_empty() { Ok(()) } else { Err(differences.join("; ")) }
}

fn difference(expected: &Expected, found: &Identified) -> Option<String> {
    if let Some(reason) = found.held
        && !matches!(expected.id, Id::Anything)
    {
        return Some(format!("held because of {reason:?}, not {:?}", expected.id));
    }
    if !expected.id.matches(&found.event_id) || !kind_fits(&expected.id, found.identity_kind) {
        return Some(format!("id {:?} by {:?}, not {:?}", found.event_id, found.identity_kind, expected.id));
    }
    let fits = expected.types.is_empty() || expected.types.contains(&found.event_type);
    (!fits).then(|| format!("type {:?}, not {:?}", found.event_type, expected.types))
}

fn kind_fits(id: &Id, kind: IdentityKind) -> bool {
    match id {
        Id::Parts(_) => matches!(kind, IdentityKind::Id | IdentityKind::IdAndBody),
        Id::Digest => kind == IdentityKind::Body,
        Id::Arrival => kind == IdentityKind::Arrival,
        Id::OneOf(ids) => ids.iter().any(|id| kind_fits(id, kind)),
        Id::Anything => true,
    }
}
