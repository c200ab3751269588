//! Handlers beside other queues, and the outbox beside a bare client.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use testkit::postgres::Cluster;
use testkit::{Backend, TestDatabase};

use crate::args::Args;
use crate::install;
use crate::kept::One;
use crate::report;
use crate::spread::Spread;
use crate::stranger::DATABASE_VARIABLE;
use crate::surroundings::Surroundings;

/// One in so many jobs fails where some do.
const FAIL_EVERY: &str = "1000";
/// How many times as many events where they are handled in batches: our time runs from the start to the last mark, that of
/// others from one execution to another in the middle.
const BATCHED_TIMES: u64 = 5;
const BACKENDS: [(Backend, &str); 2] = [(Backend::Postgres, "postgres"), (Backend::Sqlite, "sqlite")];

/// Jobs or calls a second of every way, by its key, in each round.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Queues {
    pub(crate) rounds: Vec<BTreeMap<String, f64>>,
}

/// Jobs a second of another queue.
#[derive(Debug, Deserialize)]
struct Rate {
    /// Until the last was run.
    ran: f64,
    /// Until the end of the last was written.
    written: f64,
}

/// The ways of handling: a key, and how it is called in tables.
pub(crate) const HANDLING: [(&str, &str); 14] = [
    ("postgres.batches", "Oncebox, Postgres: `sql` handler, concurrency 10"),
    ("postgres.batches_failing", "Oncebox, Postgres: the same, 1 in 1,000 failing"),
    ("postgres.ten_at_once", "Oncebox, Postgres: a transaction for each event, ten at once"),
    ("postgres.one_by_one", "Oncebox, Postgres: a transaction for each event, one at a time"),
    ("sqlite.batches", "Oncebox, SQLite: `sql` handler, concurrency 10"),
    ("sqlite.batches_failing", "Oncebox, SQLite: the same, 1 in 1,000 failing"),
    ("sqlite.ten_at_once", "Oncebox, SQLite: a transaction for each event, ten at once"),
    ("sqlite.one_by_one", "Oncebox, SQLite: a transaction for each event, one at a time"),
    ("graphile", "graphile-worker, concurrency 10"),
    ("graphile-local", "graphile-worker, concurrency 10, local queue of 500, completions in batches"),
    ("graphile-local-written", "graphile-worker, the same, until the last completion is written"),
    ("graphile-local-failing", "graphile-worker, the same, 1 in 1,000 failing"),
    ("pg-boss", "pg-boss, ten loops that fetch one job"),
    ("pg-boss-batches", "pg-boss, ten loops that fetch 100 jobs"),
];

/// The ways of sending.
pub(crate) const RELAY: [(&str, &str); 4] = [
    ("postgres.relay", "Oncebox, Postgres: outbox, 32 calls at once"),
    ("postgres.bare", "the same client without an outbox, in turns with it"),
    ("sqlite.relay", "Oncebox, SQLite: outbox, 32 calls at once"),
    ("sqlite.bare", "the same client without an outbox, in turns with it"),
];

/// Measures the handlers.
pub(crate) async fn handling(args: &Args, cluster: &Cluster) -> anyhow::Result<String> {
    let node = install::node().context("name the parts without handling with --parts to leave it out")?;
    let strangers = [
        ("graphile", false),
        ("graphile-local", false),
        ("graphile-local", true),
        ("pg-boss", false),
        ("pg-boss-batches", false),
    ];
    run(args, cluster, "handling", &HANDLING, |round, rates| {
        // Whoever is first in one round is later in the next.
        for turn in 0..BACKENDS.len() + strangers.len() {
            let at = (round + turn) % (BACKENDS.len() + strangers.len());
            if let Some((backend, name)) = BACKENDS.get(at) {
                rates.extend(handled(args, cluster, *backend, name)?);
            } else {
                let (queue, fails) = strangers[at - BACKENDS.len()];
                let key = format!("{queue}{}", if fails { "-failing" } else { "" });
                let rate = stranger(args, cluster, &node, queue, fails).with_context(|| key.clone())?;
                rates.insert(format!("{key}-written"), rate.written);
                rates.insert(key, rate.ran);
            }
        }
        Ok(())
    })
}

/// Measures the outbox.
pub(crate) async fn relay(args: &Args, cluster: &Cluster) -> anyhow::Result<String> {
    run(args, cluster, "relay", &RELAY, |round, rates| {
        for turn in 0..BACKENDS.len() {
            let (backend, name) = BACKENDS[(round + turn) % BACKENDS.len()];
            let figures = lab("relay", args.jobs, None, args, cluster, backend)?;
            for side in ["relay", "bare"] {
                let rate = figures[side]["median"].as_f64().context("`lab relay` printed no rate")?;
                rates.insert(format!("{name}.{side}"), rate);
            }
        }
        Ok(())
    })
}

fn run(
    args: &Args,
    cluster: &Cluster,
    part: &str,
    ways: &[(&str, &str)],
    round: impl Fn(usize, &mut BTreeMap<String, f64>) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let surroundings = Surroundings::look(args, cluster)?;
    let mut queues = Queues::default();
    for number in 0..usize::try_from(args.rounds)? {
        eprintln!("round {} of {}: {part}", number + 1, args.rounds);
        let mut rates = BTreeMap::new();
        round(number, &mut rates)?;
        queues.rounds.push(rates);
        One { surroundings: surroundings.clone(), figures: &queues }.keep(part)?;
    }
    if args.json {
        return Ok(serde_json::to_string_pretty(&queues)?);
    }
    Ok(report::queues(&queues, ways, &surroundings))
}

fn handled(
    args: &Args,
    cluster: &Cluster,
    backend: Backend,
    name: &str,
) -> anyhow::Result<impl Iterator<Item = (String, f64)>> {
    let mut rates = BTreeMap::new();
    // Later figures replace earlier ones: in batches the first events are over before anything is warm.
    for (jobs, more) in [(args.jobs, None), (args.jobs * BATCHED_TIMES, Some("--batches"))] {
        let figures = lab("handling", jobs, more, args, cluster, backend)?;
        let ways = figures["ways"].as_array().context("`lab handling` printed no ways")?;
        let rate = |way: &Value| Some((format!("{name}.{}", way["key"].as_str()?), way["median"].as_f64()?));
        let of_ways: Option<Vec<_>> = ways.iter().map(rate).collect();
        rates.extend(of_ways.context("`lab handling` printed a way without a rate")?);
    }
    Ok(rates.into_iter())
}

/// One round of a measurement of `lab`, in a process and on a database of its own.
fn lab(
    what: &str,
    jobs: u64,
    more: Option<&str>,
    args: &Args,
    cluster: &Cluster,
    backend: Backend,
) -> anyhow::Result<Value> {
    let database = fresh(cluster, backend);
    let (events, body) = (jobs.to_string(), args.body_size.to_string());
    let line =
        [what, "--json", "--rounds", "1", "--events", &events, "--body-size", &body, "--database", database.url()];
    Ok(serde_json::from_slice(&printed(Command::new(lab_program()?).args(line).args(more))?)?)
}

fn stranger(args: &Args, cluster: &Cluster, node: &PathBuf, queue: &str, fails: bool) -> anyhow::Result<Rate> {
    let database = fresh(cluster, Backend::Postgres);
    let mut command = Command::new("node");
    command.args(["queue.mjs", "--queue", queue, "--jobs", &args.jobs.to_string()]);
    command.args(if fails { &["--fail-every", FAIL_EVERY][..] } else { &[] });
    command.current_dir(node).env(DATABASE_VARIABLE, database.url());
    serde_json::from_slice(&printed(&mut command)?).context("it printed no rates")
}

pub(super) fn fresh(cluster: &Cluster, backend: Backend) -> TestDatabase {
    match backend {
        Backend::Postgres => TestDatabase::fresh_on(cluster),
        Backend::Sqlite => TestDatabase::fresh(Backend::Sqlite),
    }
}

/// `lab`, which was built with this program.
pub(super) fn lab_program() -> anyhow::Result<PathBuf> {
    let lab = std::env::current_exe().context("cannot find this program")?.with_file_name("lab");
    ensure!(lab.is_file(), "{} is not there: cargo build --release -p lab", lab.display());
    Ok(lab)
}

/// What a command printed; its complaints are ours.
pub(super) fn printed(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let shown = format!("{command:?}");
    let output = command.output().with_context(|| format!("cannot run {shown}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{shown} ended with {}\n{complaint}", output.status);
    Ok(output.stdout)
}

impl Queues {
    /// One way over the rounds.
    pub(crate) fn spread(&self, way: &str) -> Option<Spread> {
        Spread::of(self.rounds.iter().map(|round| round.get(way).copied()))
    }

    /// One way divided by another, each pair from one round.
    pub(crate) fn ratio(&self, way: &str, other: &str) -> Option<Spread> {
        Spread::of(self.rounds.iter().map(|round| Some(round.get(way)? / round.get(other)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_compared_within_a_round() {
        let round = |ours: f64, theirs: f64| BTreeMap::from([("a".to_owned(), ours), ("b".to_owned(), theirs)]);
        let queues = Queues { rounds: vec![round(10.0, 1.0), round(20.0, 4.0), round(30.0, 1.0)] };
        assert_eq!(queues.ratio("a", "b").map(|ratio| ratio.median), Some(10.0));
        assert_eq!(queues.spread("b").map(|rate| rate.most), Some(4.0));
        assert_eq!((queues.ratio("a", "c"), queues.spread("c")), (None, None));
    }

    #[test]
    fn a_command_that_fails_is_an_error_with_its_complaint() {
        let mut command = Command::new("sh");
        let error = printed(command.args(["-c", "echo no >&2; exit 3"])).expect_err("it fails").to_string();
        assert!(error.contains("exit status: 3\nno"), "{error}");
    }
}
