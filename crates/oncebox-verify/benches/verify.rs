//! What judging costs beyond the hash itself: for every HMAC provider a signed body of 1 KiB, judged, against the bare
//! HMAC of the very bytes that its vendor signs, under a prepared key: the body, for many with a time or an id, for some
//! with the method and the URL, of a form its names and values. Where less than half of the body is signed, the bare one
//! is that of the body. Judging includes the body's own SHA-256, which the ledger keeps, so nobody gets below 2. Digest
//! and identity are needed for every event, so a provider whose request holds several is measured with one as well.
//!
//! All providers are measured in turn, many times over, and the best turn counts: a neighbour on the same core slows
//! everything but the hash, for seconds at a time.
//!
//! `cargo bench -p oncebox-verify --bench verify`; the aim is a ratio of at most 5 for every provider.
//! Names of providers behind `--` limit it to these.

#![expect(clippy::unwrap_used, reason = "in a measurement a panic is the report")]

use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use oncebox_verify::{Request, Secret, Source, SourceSpec, Verdict};
use ring::hmac;
use serde_json::Value;
use testkit::oracle::crypto::listening;
use testkit::oracle::{Capture, Case, Ctx, ORIGIN, cases};

const BODY_BYTES: usize = 1024;
const TURNS: usize = 31;
/// Many short rounds in a turn: one that another process interrupts does not move the median.
const ROUNDS: usize = 31;
const PER_ROUND: u32 = 20;
const RATIO_MAX: f64 = 5.0;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let cases = cases().into_iter().filter(|case| wanted.is_empty() || wanted.contains(&case.name()));
    let mut contenders: Vec<Contender> = cases.flat_map(|case| contenders(&case)).collect();
    for _ in 0..TURNS {
        contenders.iter_mut().for_each(Contender::take_turn);
    }
    println!("{:<44} {:>7} {:>10} {:>10} {:>7}", "provider", "events", "judge ns", "hmac ns", "ratio");
    let mut worst = Vec::new();
    for contender in contenders {
        let judge = contender.turns.iter().map(|turn| turn.0).fold(f64::INFINITY, f64::min);
        let bare = contender.turns.iter().map(|turn| turn.1).fold(f64::INFINITY, f64::min);
        let ratio = judge / bare;
        println!("{:<44} {:>7} {judge:>10.0} {bare:>10.0} {ratio:>7.2}", contender.name, contender.events);
        worst.push((ratio, contender.name, contender.events));
    }
    worst.sort_by(|left, right| left.0.total_cmp(&right.0));
    for (kind, is_batch) in [("one event", false), ("several events", true)] {
        let last = worst.iter().rfind(|(_, _, events)| (*events > 1) == is_batch);
        let Some((ratio, name, _)) = last else { continue };
        let word = if *ratio <= RATIO_MAX { "within" } else { "beyond" };
        println!("worst with {kind} in a request: {name} with {ratio:.2}, {word} the aim of {RATIO_MAX}");
    }
}

/// One provider with a signed request, and what was measured so far.
struct Contender {
    name: String,
    source: Source,
    request: Request,
    now: i64,
    key: hmac::Key,
    message: Vec<u8>,
    events: usize,
    /// Medians in nanoseconds per call, of judging and of the bare HMAC.
    turns: Vec<(f64, f64)>,
}

/// The case, and where its request holds several events the same with one.
fn contenders(case: &Case) -> Vec<Contender> {
    let Some(algorithm) = case.hmac else { return Vec::new() };
    let mut ctx = case.ctx(1);
    ctx.filler_bytes = BODY_BYTES;
    let whole = Contender::of(case, case.name(), listening(|| case.signed(&ctx)), *algorithm);
    if whole.events == 1 || serde_json::from_slice::<Value>(&whole.request.body).is_err() {
        return vec![whole];
    }
    // Filled by as much as is left out, so that both have the same size.
    ctx.filler_bytes += BODY_BYTES - with_one_event(case, &ctx).body.len().min(BODY_BYTES);
    let name = format!("{} (one event)", case.name());
    let alone = Contender::of(case, name, listening(|| with_one_event(case, &ctx)), *algorithm);
    vec![alone, whole]
}

fn with_one_event(case: &Case, ctx: &Ctx) -> Capture {
    let mut capture = (case.draft)(ctx);
    let mut body: Value = serde_json::from_slice(&capture.body).unwrap();
    shorten(&mut body);
    capture.body = body.to_string().into_bytes();
    (case.sign)(ctx, &mut capture);
    capture
}

/// Leaves one element in every list but the filler's.
fn shorten(value: &mut Value) {
    match value {
        Value::Array(list) => {
            list.truncate(1);
            list.iter_mut().for_each(shorten);
        }
        Value::Object(fields) => {
            fields.iter_mut().filter(|(name, _)| *name != "further_rows").for_each(|(_, value)| shorten(value));
        }
        _ => {}
    }
}

impl Contender {
    fn of(case: &Case, name: String, (capture, messages): (Capture, Vec<Vec<u8>>), algorithm: hmac::Algorithm) -> Self {
        let source = source(case).unwrap();
        let mut headers = HeaderMap::new();
        for (name, value) in &capture.headers {
            headers
                .append(HeaderName::try_from(name.as_str()).unwrap(), HeaderValue::try_from(value.as_str()).unwrap());
        }
        let target = capture.url.strip_prefix(ORIGIN).unwrap().to_owned();
        assert!(capture.body.len() + 64 > BODY_BYTES, "{name} has a short body");
        let request = Request { method: Method::POST, target, headers, body: Bytes::from(capture.body) };
        let now = capture.at * 1000;
        let Verdict::Accept(accepted) = source.judge(&request, None, now) else {
            panic!("{name} refuses its own request");
        };
        let (key, message) = (hmac::Key::new(algorithm, case.secret.as_bytes()), message(&request, messages));
        let events = accepted.events.len();
        Self { name, source, request, now, key, message, events, turns: Vec::new() }
    }

    fn take_turn(&mut self) {
        let (mut judged, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            judged.push(round(|| drop(black_box(self.source.judge(black_box(&self.request), None, self.now)))));
            bare.push(round(|| _ = black_box(hmac::sign(&self.key, black_box(&self.message)))));
        }
        self.turns.push((median(judged), median(bare)));
    }
}

fn source(case: &Case) -> Option<Source> {
    let mut spec = SourceSpec::named(case.slug, case.slug)?;
    spec.secrets = vec![Secret::new(case.secret)];
    spec.settings = case.settings.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect();
    Source::build(spec).ok()
}

/// What the vendor signs; of several messages the longest.
fn message(request: &Request, messages: Vec<Vec<u8>>) -> Vec<u8> {
    let longest = messages.into_iter().max_by_key(Vec::len).unwrap_or_default();
    if longest.len() * 2 < request.body.len() { request.body.to_vec() } else { longest }
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
