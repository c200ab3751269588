//! `lab instructions`: how many instructions of ours an event costs, counted by callgrind and compared with a file.
//!
//! A count does not depend on how busy the machine is, so a test can hold it. What every receiver must do, to check the
//! signature and to hash the body, is subtracted: it takes other instructions on other processors.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use futures_util::future::join_all;
use http::{HeaderMap, HeaderValue, Method};
use oncebox::Clock;
use oncebox::gateway::delivery::routing::{Route, Routes};
use oncebox::gateway::event::KeyMaker;
use oncebox::gateway::ingest::{Answer, Batcher, Context, Ingest, Settings};
use oncebox_verify::{Request, Secret, Source, SourceSpec, Verdict, sha256};

use crate::args::{InstructionsArgs, Work};
use crate::database::Database;
use crate::server::HANDLER;
use crate::stripe::{self, Requests};

/// Requests of the short run and of the long one: what both pay once is in neither difference.
const RUNS: [u64; 2] = [100, 500];
/// Requests that share a commit.
const BATCH: usize = 50;
const BODY_SIZE: usize = 1024;
const SOURCE: &str = "stripe";
/// How much more than the file says is still the same.
const TOLERANCE: f64 = 1.10;

/// Does the work that is counted, or counts it.
pub async fn run(args: &InstructionsArgs) -> anyhow::Result<String> {
    match (args.work, args.count) {
        (Some(work), Some(count)) => do_work(work, count).await,
        _ => compare(&args.file, args.write),
    }
}

fn compare(file: &Path, write: bool) -> anyhow::Result<String> {
    let bare = per_request(Work::Bare)?;
    let mut counted = Vec::new();
    for (name, work) in [("judge", Work::Judge), ("accept", Work::Accept)] {
        counted.push((name, per_request(work)?.saturating_sub(bare)));
    }
    let shown: String = counted.iter().map(|(name, count)| format!("{name} {count}\n")).collect();
    if write {
        std::fs::write(file, &shown).with_context(|| format!("cannot write {}", file.display()))?;
        return Ok(shown);
    }
    let known = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    for (name, count) in counted {
        check(name, count, &known).with_context(|| format!("see {}", file.display()))?;
    }
    Ok(shown)
}

/// Fails where a count has grown too much.
fn check(name: &str, count: u64, known: &str) -> anyhow::Result<()> {
    let line = known.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let before: u64 = line.and_then(|text| text.parse().ok()).with_context(|| format!("no count of `{name}`"))?;
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    let ratio = count as f64 / before as f64;
    ensure!(
        ratio <= TOLERANCE,
        "`{name}` takes {count} instructions a request, {ratio:.2} times the {before} of before; where that is meant, \
         run `lab instructions --write`"
    );
    Ok(())
}

/// The instructions of one request more.
fn per_request(work: Work) -> anyhow::Result<u64> {
    let [few, many] = RUNS.map(|count| count_instructions(work, count));
    Ok(many?.saturating_sub(few?) / (RUNS[1] - RUNS[0]))
}

fn count_instructions(work: Work, count: u64) -> anyhow::Result<u64> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    command.args(["instructions", "--work", work.as_str(), "--count", &count.to_string()]);
    let output = command.output().context("cannot run valgrind (Debian: apt-get install valgrind)")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{}` failed under valgrind:\n{said}", work.as_str());
    read_count(&said).with_context(|| format!("valgrind printed no count:\n{said}"))
}

/// What callgrind says at the end: `Collected : 123456`.
fn read_count(said: &str) -> Option<u64> {
    said.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
}

async fn do_work(work: Work, count: u64) -> anyhow::Result<String> {
    let mut spec = SourceSpec::named(SOURCE, "stripe").context("no such provider")?;
    spec.secrets = vec![Secret::new(stripe::SECRET)];
    let source = Arc::new(Source::build(spec).map_err(|problem| anyhow::anyhow!("{problem:?}"))?);
    let mut requests = Requests::new("/in/stripe", 0, BODY_SIZE);
    let requests = (0..count).map(|_| request(requests.next())).collect::<anyhow::Result<Vec<_>>>()?;
    match work {
        Work::Bare => check_bare(&requests)?,
        Work::Judge => {
            let judge = |request| source.judge(request, None, stripe::now() * 1000);
            ensure!(requests.iter().all(|request| matches!(judge(request), Verdict::Accept(_))), "not accepted");
        }
        Work::Accept => accept(&source, requests).await?,
    }
    Ok(String::new())
}

fn check_bare(requests: &[Request]) -> anyhow::Result<()> {
    let key = stripe::key();
    for request in requests {
        let signature = request.headers.get("stripe-signature").context("no signature")?.to_str()?;
        ensure!(stripe::is_signed(&key, signature, &request.body, stripe::now()), "a wrong signature");
        std::hint::black_box(sha256(&request.body));
    }
    Ok(())
}

/// The whole path up to the answer, on SQLite.
async fn accept(source: &Arc<Source>, requests: Vec<Request>) -> anyhow::Result<()> {
    let (database, _folder) = Database::named_or_temporary(None)?;
    let store = database.open().await?;
    let settings = Settings { batch: BATCH, writers: 1 };
    let (ingest, batcher) = Batcher::start(store.clone(), settings, Clock::system(), Arc::new(KeyMaker::default()));
    let route = Route { handler: HANDLER.into(), sources: Vec::new(), types: Vec::new(), serial: None };
    let routes = Routes::new(vec![route]);
    let mut requests = requests.into_iter().peekable();
    while requests.peek().is_some() {
        let answers = requests.by_ref().take(BATCH).map(|request| send(&ingest, source, &routes, request));
        if !join_all(answers).await.into_iter().all(|answer| matches!(answer, Answer::Stored(_))) {
            bail!("a request was not stored");
        }
    }
    drop(ingest);
    batcher.finish().await;
    store.close().await;
    Ok(())
}

async fn send(ingest: &Ingest, source: &Arc<Source>, routes: &Routes, request: Request) -> Answer {
    ingest.accept(Context { source, path_token: None, remote: "192.0.2.1".into(), routes }, request).await
}

/// Reads what the load would send.
fn request(wire: &[u8]) -> anyhow::Result<Request> {
    let end = wire.windows(4).position(|part| part == b"\r\n\r\n").context("no head")?;
    let mut headers = HeaderMap::new();
    for line in std::str::from_utf8(&wire[..end])?.lines().skip(1) {
        let (name, value) = line.split_once(": ").context("no header")?;
        headers.append(http::HeaderName::try_from(name)?, HeaderValue::from_str(value)?);
    }
    let body = wire[end + 4..].to_vec().into();
    Ok(Request { method: Method::POST, target: "/in/stripe".to_owned(), headers, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_refused() {
        let known = "judge 1000\naccept 2000\n";
        assert!(check("judge", 1099, known).is_ok());
        assert!(check("accept", 900, known).is_ok());
        let grown = check("judge", 1101, known).expect_err("it grew").to_string();
        assert!(
            grown.starts_with("`judge` takes 1101 instructions a request, 1.10 times the 1000 of before"),
            "{grown}"
        );
        assert!(check("other", 1, known).is_err());
    }

    #[test]
    fn callgrind_is_read() {
        assert_eq!(read_count("==7== Events    : Ir\n==7== Collected : 6422\n==7==\n"), Some(6422));
        assert_eq!(read_count("==7== nothing\n"), None);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_work_is_done() {
        for work in [Work::Bare, Work::Judge, Work::Accept] {
            do_work(work, 60).await.expect("work");
        }
    }
}
