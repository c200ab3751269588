//! Oncebox beside what a user would write instead: one command, one interleaved run, answers checked against rows.
//!
//! Every contender gets the same signed events over the same number of connections, in turns, on one throw-away Postgres
//! with fsync on. A ratio is taken within a round and then the median over the rounds: figures of different runs say little,
//! ratios of one run say much. The run fails when a contender stored another number of events than it accepted.

mod contender;
mod report;
mod stranger;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use testkit::postgres::{Cluster, Options};

use contender::{Contender, Kind};
use report::Round;

/// Of 16 MiB each.
const WAL_FILES: usize = 240;

/// Runs Oncebox beside other servers and prints ratios.
#[derive(Debug, Parser)]
#[command(name = "contest")]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// A release build of Oncebox, as PATH or NAME=PATH; may be given several times to compare builds.
    #[arg(long = "oncebox", default_value = "target/release/oncebox")]
    builds: Vec<String>,
    /// How many times every contender has its turn.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long each measurement lasts, after a warm-up.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How many connections send at once; every contender is also measured with one.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// How large a body is.
    #[arg(long, default_value_t = 1024)]
    body_size: usize,
    /// Prints every round as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs one of the other servers; the contest starts it by itself.
    #[command(hide = true)]
    Serve {
        /// Which one.
        stranger: stranger::Stranger,
        /// The port on 127.0.0.1.
        port: u16,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    match args.command {
        Some(Command::Serve { stranger, port }) => stranger.serve(port).await,
        None => contest(&args).await,
    }
}

async fn contest(args: &Args) -> anyhow::Result<()> {
    // One for all of them: whoever has more memory or another disk would win by that.
    let cluster = Cluster::start(
        Options::default().setting("shared_buffers=256MB").setting("max_wal_size=4GB").setting("min_wal_size=4GB"),
    );
    make_wal_files(&cluster).await?;
    let mut contenders = vec![Contender::new(Kind::Ceiling, &cluster), Contender::new(Kind::Naive, &cluster)];
    for (name, path) in builds(&args.builds)? {
        for kind in [Kind::OnPostgres, Kind::OnSqlite] {
            contenders.push(Contender::of_build(kind, &name, &path, &cluster));
        }
    }
    let mut rounds: Vec<Round> = Vec::new();
    for number in 0..args.rounds {
        let mut round = Round::of(contenders.len());
        // Another one begins every time, so that nobody always runs after the same neighbour.
        for turn in 0..contenders.len() {
            let at = (number + turn) % contenders.len();
            let name = contenders[at].name().to_owned();
            eprintln!("round {} of {}: {name}", number + 1, args.rounds);
            round.0[at] = contenders[at].measure(args).await.with_context(|| name)?;
        }
        rounds.push(round);
    }
    let names: Vec<_> = contenders.iter().map(Contender::name).collect();
    report::print(args, &names, &rounds)
}

/// A server that has run for a day writes into WAL files that it has used before. A new one makes each file while somebody
/// waits for a commit, which stops everybody for some milliseconds, several times a second.
async fn make_wal_files(cluster: &Cluster) -> anyhow::Result<()> {
    let (client, connection) = tokio_postgres::connect(&cluster.url("postgres"), tokio_postgres::NoTls).await?;
    let session = tokio::spawn(connection);
    for _ in 0..WAL_FILES {
        client.batch_execute("SELECT pg_logical_emit_message(true, '', ''); SELECT pg_switch_wal()").await?;
    }
    client.batch_execute("CHECKPOINT").await?;
    drop(client);
    session.abort();
    Ok(())
}

/// Names and paths; a single build needs no name.
fn builds(given: &[String]) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mut builds = Vec::new();
    for text in given {
        let (name, path) = text.split_once('=').unwrap_or(("oncebox", text));
        let path = std::path::absolute(path)?;
        anyhow::ensure!(path.is_file(), "{} is not there: cargo build --release -p oncebox-server", path.display());
        builds.push((name.to_owned(), path));
    }
    Ok(builds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_well_formed() {
        use clap::CommandFactory as _;
        Args::command().debug_assert();
    }

    #[test]
    fn a_build_that_is_missing_is_named() {
        let error = builds(&["old=/nowhere/oncebox".to_owned()]).expect_err("there is none").to_string();
        assert!(error.starts_with("/nowhere/oncebox is not there"), "{error}");
    }
}
