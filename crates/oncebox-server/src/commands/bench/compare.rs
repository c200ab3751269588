//! `bench --compare`: contenders in turns on one database, so that a busy machine is busy for all of them.
//!
//! Each ratio is taken within a round and then the median over the rounds; absolute figures of different runs say
//! little, ratios of one run say much.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use oncebox::secret::Secret;
use serde::Serialize;
use serde_json::json;

use super::child::{Commits, Folder, Server, made_up_secret};
use super::figures::{Figures, median, median_of};
use super::load::Load;
use super::script::Script;
use super::{LOG_LEVEL, kind};
use crate::cli::send::BenchArgs;
use crate::config::store::StoreUrl;
use crate::terminal::{self, Progress};

/// The contenders of one round, or their medians.
#[derive(Clone, Debug, Default, Serialize)]
struct Round {
    /// New events, commits shared.
    group: Figures,
    /// The same over one connection.
    group_alone: Figures,
    /// Known events only.
    duplicates: Figures,
    /// Verified and answered, never stored.
    ceiling: Figures,
    /// New events, one per commit.
    naive: Figures,
    /// The same over one connection.
    naive_alone: Figures,
}

const CONTENDERS: u64 = 6;

type Pick = fn(&Round) -> &Figures;

/// Names for people, in the order of the table.
const NAMES: [(&str, Pick); 6] = [
    ("group commit", |round| &round.group),
    ("one event per commit", |round| &round.naive),
    ("duplicates only", |round| &round.duplicates),
    ("verify only (ceiling)", |round| &round.ceiling),
    ("group commit, 1 connection", |round| &round.group_alone),
    ("one per commit, 1 connection", |round| &round.naive_alone),
];

/// Runs the comparison.
pub(super) async fn run(args: &BenchArgs, folder: &Folder, database: &StoreUrl) -> anyhow::Result<ExitCode> {
    let bench = Bench { args, folder, database, secret: made_up_secret()? };
    let mut rounds = Vec::new();
    let mut progress = Progress::of_long_steps(args.rounds * CONTENDERS, "measurements");
    for _ in 0..args.rounds {
        rounds.push(bench.round(&mut progress).await?);
    }
    drop(progress);
    let ratios = ratios(&rounds, database);
    let medians = medians(&rounds).context("no round was run")?;
    if args.json {
        terminal::print_json(&json!({
            "database": kind(database), "log_level": LOG_LEVEL, "connections": args.connections,
            "seconds": args.seconds, "body_bytes": args.body_size, "medians": medians,
            "ratios": ratios, "rounds": rounds,
        }))?;
    } else {
        terminal::print(text(args, database, &medians, &ratios))?;
    }
    let failed: u64 = NAMES.iter().map(|(_, pick)| pick(&medians).failed).sum();
    if failed > 0 {
        bail!("{failed} requests were not answered with 2xx");
    }
    Ok(ExitCode::SUCCESS)
}

struct Bench<'a> {
    args: &'a BenchArgs,
    folder: &'a Folder,
    database: &'a StoreUrl,
    secret: Secret,
}

impl Bench<'_> {
    async fn round(&self, progress: &mut Progress) -> anyhow::Result<Round> {
        let (size, all) = (self.args.body_size, self.args.connections);
        let events = Arc::new(Script::stripe(&self.secret, size, 0.0)?);
        let repeats = Arc::new(Script::stripe(&self.secret, size, 1.0)?);
        let handshakes = Arc::new(Script::handshake(&self.secret, size)?);
        let mut round = Round::default();
        let server = Server::start(self.folder, self.database, Commits::Shared, &self.secret).await?;
        for (figures, script, connections) in [
            (&mut round.group, &events, all),
            (&mut round.duplicates, &repeats, all),
            (&mut round.ceiling, &handshakes, all),
            (&mut round.group_alone, &events, 1),
        ] {
            *figures = self.measure(&server, script, connections).await?;
            progress.step();
        }
        server.stop().await?;
        let server = Server::start(self.folder, self.database, Commits::OnePerEvent, &self.secret).await?;
        for (figures, connections) in [(&mut round.naive, all), (&mut round.naive_alone, 1)] {
            *figures = self.measure(&server, &events, connections).await?;
            progress.step();
        }
        server.stop().await?;
        Ok(round)
    }

    async fn measure(&self, server: &Server, script: &Arc<Script>, connections: u64) -> anyhow::Result<Figures> {
        let (address, seconds) = (server.address(), self.args.seconds);
        Load { address, connections, seconds, process: Some(server.process()) }.run(script).await
    }
}

/// One figure that compares two contenders.
#[derive(Debug, Serialize)]
struct Ratio {
    name: &'static str,
    what: &'static str,
    value: Option<f64>,
}

fn ratios(rounds: &[Round], database: &StoreUrl) -> Vec<Ratio> {
    let of = |name, what, ratio: &dyn Fn(&Round) -> Option<f64>| Ratio {
        name,
        what,
        value: median(rounds.iter().filter_map(ratio).filter(|value| value.is_finite()).collect()),
    };
    let ceiling = if kind(database) == "postgres" { "P1" } else { "P2" };
    vec![
        of(ceiling, "rate, group commit ÷ verify only", &|round| Some(round.group.rate / round.ceiling.rate)),
        of("P3", "rate, group commit ÷ one per commit", &|round| Some(round.group.rate / round.naive.rate)),
        of("P4", "CPU per event, group commit ÷ one per commit", &|round| {
            Some(round.group.cpu_us()? / round.naive.cpu_us()?)
        }),
        of("P6", "rate, duplicates ÷ new events", &|round| Some(round.duplicates.rate / round.group.rate)),
        of("P7", "p50 at 1 connection, group commit ÷ one per commit", &|round| {
            Some(round.group_alone.p50_ms / round.naive_alone.p50_ms)
        }),
        of("P8", "p99, group commit ÷ one per commit", &|round| Some(round.group.p99_ms / round.naive.p99_ms)),
    ]
}

fn medians(rounds: &[Round]) -> Option<Round> {
    let of = |pick: Pick| median_of(&rounds.iter().map(|round| pick(round).clone()).collect::<Vec<_>>());
    Some(Round {
        group: of(|round| &round.group)?,
        group_alone: of(|round| &round.group_alone)?,
        duplicates: of(|round| &round.duplicates)?,
        ceiling: of(|round| &round.ceiling)?,
        naive: of(|round| &round.naive)?,
        naive_alone: of(|round| &round.naive_alone)?,
    })
}

fn text(args: &BenchArgs, database: &StoreUrl, medians: &Round, ratios: &[Ratio]) -> String {
    let head = format!(
        "embedded server on {}, log level {LOG_LEVEL}; medians of {} of {} s, {}, bodies of {} bytes",
        kind(database),
        terminal::counted(args.rounds, "round"),
        args.seconds,
        terminal::counted(args.connections, "connection"),
        args.body_size
    );
    let mut table =
        terminal::table(&["contender", "rate/s", "p50 ms", "p99 ms", "p99.9 ms", "CPU µs server", "Postgres", "MiB"]);
    let shown = |value: Option<f64>, digits: usize| value.map(|value| format!("{value:.digits$}")).unwrap_or_default();
    for (name, pick) in NAMES {
        let one = pick(medians);
        table.add_row([
            terminal::cell(name),
            terminal::cell(format!("{:.0}", one.rate)),
            terminal::cell(format!("{:.2}", one.p50_ms)),
            terminal::cell(format!("{:.2}", one.p99_ms)),
            terminal::cell(format!("{:.2}", one.p999_ms)),
            terminal::cell(shown(one.server_cpu_us, 1)),
            terminal::cell(shown(one.postgres_cpu_us, 1)),
            terminal::cell(shown(one.rss_mib, 0)),
        ]);
    }
    let mut ratio_table = terminal::table(&["", "ratio", ""]);
    for ratio in ratios {
        let value = ratio.value.map_or_else(|| "not known".to_owned(), |value| format!("{value:.2}"));
        ratio_table.add_row([terminal::cell(ratio.name), terminal::cell(value), terminal::cell(ratio.what)]);
    }
    format!("{head}\n\n{}\n\n{}", table.trim_fmt(), ratio_table.trim_fmt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_medians_of_rounds() {
        let round = |group: f64, naive: f64| Round {
            group: Figures { rate: group, p99_ms: 1.0, server_cpu_us: Some(10.0), ..Figures::default() },
            naive: Figures { rate: naive, p99_ms: 4.0, server_cpu_us: Some(40.0), ..Figures::default() },
            ceiling: Figures { rate: 2.0 * group, ..Figures::default() },
            duplicates: Figures { rate: 1.5 * group, ..Figures::default() },
            ..Round::default()
        };
        let rounds = [round(100.0, 50.0), round(300.0, 100.0), round(90.0, 10.0)];
        let database = StoreUrl::Sqlite("x.db".into());
        let found: Vec<_> = ratios(&rounds, &database).into_iter().map(|one| (one.name, one.value)).collect();
        let expected = [
            ("P2", Some(0.5)),
            ("P3", Some(3.0)),
            ("P4", Some(0.25)),
            ("P6", Some(1.5)),
            ("P7", None),
            ("P8", Some(0.25)),
        ];
        assert_eq!(found, expected);
        assert_eq!(medians(&rounds).map(|medians| medians.group.rate), Some(100.0));
    }
}
