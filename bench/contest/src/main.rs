//! Oncebox beside what a user would use instead: one command, interleaved rounds, answers checked against rows.
//!
//! Every contender gets the same signed events over the same number of connections, in turns, on one throw-away Postgres
//! with fsync on. A ratio is taken within a round and then the median over the rounds: figures of different runs say little,
//! ratios of one run say much. The run fails when a contender stored another number of events than it accepted.

mod args;
mod contender;
mod document;
mod install;
mod kept;
mod part;
mod report;
mod spread;
mod stranger;
mod surroundings;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Parser as _;
use testkit::postgres::{Cluster, Options};

use args::{Args, Command, Part};
use kept::Kept;

/// One Postgres for all of them: whoever has more memory or another disk would win by that.
const POSTGRES: [&str; 3] = ["shared_buffers=256MB", "max_wal_size=4GB", "min_wal_size=4GB"];
/// Of 16 MiB each.
const WAL_FILES: usize = 240;
/// Sockets of the largest load, and those of a server that it starts.
const OPEN_FILES: u64 = 4096;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse().settled();
    match &args.command {
        Some(Command::Serve { stranger, port }) => stranger.serve(*port).await,
        Some(Command::Document { file }) => write(file),
        None => contest(&args).await,
    }
}

async fn contest(args: &Args) -> anyhow::Result<()> {
    testkit::allow_open_files(OPEN_FILES);
    let builds = builds(&args.builds)?;
    let options = POSTGRES.iter().fold(Options::default(), |options, setting| options.setting(setting));
    let cluster = Cluster::start(options);
    if !args.quick {
        make_wal_files(&cluster).await?;
    }
    for part in args.parts() {
        let shown = match part {
            Part::Receiving => part::receiving::run(args, &builds, &cluster).await,
            Part::Growth => part::growth::run(args, &builds, &cluster).await,
            Part::Handling => part::queue::handling(args, &cluster).await,
            Part::Relay => part::queue::relay(args, &cluster).await,
            Part::Ledger => part::ledger::run(args, &builds, &cluster).await,
        };
        println!("{}\n", shown.with_context(|| format!("{part:?}"))?);
    }
    args.write.as_deref().map_or(Ok(()), write)
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

fn write(file: &Path) -> anyhow::Result<()> {
    let text = document::of_kept(&Kept::read()?);
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    eprintln!("{} is written", file.display());
    Ok(())
}

/// Names and paths; a single build needs no name.
fn builds(given: &[String]) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mut builds = Vec::new();
    for text in given {
        let (name, path) = text.split_once('=').unwrap_or(("", text));
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
    fn a_build_that_is_missing_is_named() {
        let error = builds(&["old=/nowhere/oncebox".to_owned()]).expect_err("there is none").to_string();
        assert!(error.starts_with("/nowhere/oncebox is not there"), "{error}");
    }
}
