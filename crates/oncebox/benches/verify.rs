//! What judging costs beyond the hash itself: for every HMAC provider a signed body of 1 KiB, judged, against the bare
//! HMAC of the same bytes under a prepared key (of a form: its names and values, which is what is signed). Times and
//! URLs that are signed besides are not counted for the bare one. Judging includes the body's own SHA-256, which the
//! ledger keeps, so nobody gets below 2. Rounds alternate, so that a slow moment hits both; the figure is the ratio of
//! medians.
//!
//! `cargo bench -p oncebox --bench verify`; the aim is a ratio of at most 5 for every provider.
//! Names of providers behind `--` limit it to these.

#![expect(clippy::unwrap_used, reason = "in a measurement a panic is the report")]

use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use oncebox::request::Request;
use oncebox::secret::Secret;
use oncebox::source::{Source, SourceSpec};
use oncebox::verdict::Verdict;
use ring::hmac;
use testkit::oracle::{Case, ORIGIN, cases};

const BODY_BYTES: usize = 1024;
/// Many short rounds: one that another process interrupts does not move the median.
const ROUNDS: usize = 401;
const PER_ROUND: u32 = 20;
const RATIO_MAX: f64 = 5.0;

fn main() {
    let mut ratios: Vec<(f64, String)> = Vec::new();
    println!("{:<32} {:>10} {:>10} {:>7}", "provider", "judge ns", "hmac ns", "ratio");
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for case in cases().into_iter().filter(|case| wanted.is_empty() || wanted.contains(&case.name())) {
        let Some(algorithm) = case.hmac else { continue };
        let Some(source) = source(&case) else {
            println!("{:<32} is not in the catalogue", case.name());
            continue;
        };
        let (judge, bare) = measure(&case, &source, *algorithm);
        let ratio = judge / bare;
        println!("{:<32} {judge:>10.0} {bare:>10.0} {ratio:>7.2}", case.name());
        ratios.push((ratio, case.name()));
    }
    ratios.sort_by(|left, right| left.0.total_cmp(&right.0));
    if let Some((ratio, name)) = ratios.last() {
        let word = if *ratio <= RATIO_MAX { "within" } else { "beyond" };
        println!("worst: {name} with {ratio:.2}, {word} the aim of {RATIO_MAX}");
    }
}

fn source(case: &Case) -> Option<Source> {
    let mut spec = SourceSpec::named(case.slug, case.slug)?;
    spec.secrets = vec![Secret::new(case.secret)];
    spec.settings = case.settings.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect();
    Source::build(spec).ok()
}

/// Medians in nanoseconds per call.
fn measure(case: &Case, source: &Source, algorithm: hmac::Algorithm) -> (f64, f64) {
    let mut ctx = case.ctx(1);
    ctx.filler_bytes = BODY_BYTES;
    let capture = case.signed(&ctx);
    let mut headers = HeaderMap::new();
    for (name, value) in &capture.headers {
        headers.append(HeaderName::try_from(name.as_str()).unwrap(), HeaderValue::try_from(value.as_str()).unwrap());
    }
    let target = capture.url.strip_prefix(ORIGIN).unwrap().to_owned();
    assert!(capture.body.len() + 16 > BODY_BYTES, "{} has a short body", case.name());
    let request = Request { method: Method::POST, target, headers, body: Bytes::from(capture.body) };
    let message = message(&request);
    let (now, key) = (capture.at * 1000, hmac::Key::new(algorithm, case.secret.as_bytes()));
    let verdict = source.judge(&request, None, now);
    assert!(matches!(verdict, Verdict::Accept(_)), "{}: {verdict:?}", case.name());
    let (mut judged, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        judged.push(round(|| drop(black_box(source.judge(black_box(&request), None, now)))));
        bare.push(round(|| _ = black_box(hmac::sign(&key, black_box(&message)))));
    }
    (median(judged), median(bare))
}

fn message(request: &Request) -> Vec<u8> {
    let is_form = request.headers.get("content-type").is_some_and(|kind| kind == "application/x-www-form-urlencoded");
    if !is_form {
        return request.body.to_vec();
    }
    let pairs = url::form_urlencoded::parse(&request.body);
    pairs.flat_map(|(name, value)| [name, value]).collect::<String>().into_bytes()
}

fn round(mut work: impl FnMut()) -> f64 {
    let started = Instant::now();
    for _ in 0..PER_ROUND {
        work();
    }
    started.elapsed().as_secs_f64() * 1e9 / f64::from(PER_ROUND)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
