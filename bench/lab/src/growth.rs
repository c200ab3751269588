//! `lab growth`: the same load on a small inbox and on a large one, in turns, and the room that an event takes.
//!
//! What grows with the ledger is the tree of identities, which lie everywhere in it: more pages to read, and more pages to
//! write whole after each checkpoint. Ratios are medians over paired rounds, so that a slow moment of the machine falls on
//! both sides.

mod report;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Serialize;
use testkit::program::Program;

use crate::args::GrowthArgs;
use crate::database::{Connection, Database};
use crate::figures::Figures;
use crate::fill::{self, Filling};
use crate::load::Load;
use crate::{load, server, usage};
use report::Report;

/// What the events of both are made from.
const SEED: u64 = 1;

/// One round on one inbox.
#[derive(Clone, Debug, Default, Serialize)]
struct Round {
    figures: Figures,
    /// Events that were accepted in the measured time.
    accepted: usize,
    /// Bytes of log (Postgres) or of log and checkpoints (SQLite) written for each event.
    written: Option<f64>,
    /// Resident memory of the server at its end.
    mib: f64,
}

/// The bytes that one event takes in each table, indexes included.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Room {
    ledger: f64,
    event: f64,
    payload: f64,
    delivery: f64,
}

/// Runs the command.
pub async fn run(args: &GrowthArgs) -> anyhow::Result<String> {
    let build = build(args)?;
    let (large, _large_folder) = Database::named_or_temporary(args.database.as_deref())?;
    let must_be_named = args.small_database.is_none() && matches!(large, Database::Postgres(_));
    ensure!(!must_be_named, "name a second, empty database with --small-database; both are filled");
    let (small, _small_folder) = Database::named_or_temporary(args.small_database.as_deref())?;
    ensure!(small.kind() == large.kind(), "both databases must be of one kind");
    let kind = large.kind();
    let small = Inbox::start(args, args.small_rows, small, &build).await?;
    let large = Inbox::start(args, args.rows, large, &build).await?;
    let (mut at_small, mut at_large) = (Vec::new(), Vec::new());
    for number in 0..args.rounds {
        eprintln!("round {} of {}", number + 1, args.rounds);
        // Who goes first changes, so that neither always has the other's checkpoint to bear.
        for turn in [number % 2 == 0, number % 2 != 0] {
            let (inbox, rounds) = if turn { (&small, &mut at_small) } else { (&large, &mut at_large) };
            rounds.push(inbox.round(args).await?);
        }
    }
    let report = Report::new(args, kind, at_small, at_large, large.room)?;
    if args.json { Ok(serde_json::to_string_pretty(&report.view())?) } else { Ok(report.text()) }
}

/// The program to measure.
fn build(args: &GrowthArgs) -> anyhow::Result<PathBuf> {
    let path = match &args.oncebox {
        Some(path) => std::path::absolute(path)?,
        None => std::env::current_exe().context("cannot find this program")?.with_file_name("oncebox"),
    };
    ensure!(path.is_file(), "{} is not there: cargo build -p oncebox-server, or say --oncebox", path.display());
    Ok(path)
}

/// A filled database with a server on it.
struct Inbox {
    server: Program,
    connection: Connection,
    /// Our own session, where the database is Postgres.
    backend: Option<u32>,
    room: Room,
}

/// What was used up to one moment.
#[derive(Clone, Copy)]
struct Spent {
    server: Duration,
    postgres: Duration,
    written: Option<i64>,
    mib: f64,
}

impl Inbox {
    async fn start(args: &GrowthArgs, events: u64, database: Database, build: &Path) -> anyhow::Result<Self> {
        let (payloads, body_size, slice) = (args.payloads, args.body_size, fill::slice_on(&database));
        fill::fill(&database, Filling { events, payloads, seed: SEED, body_size, slice, add: false }).await?;
        let connection = database.connect().await?;
        let room = Room::measure(&database, &connection).await?;
        let backend = match &connection {
            Connection::Sqlite(_) => None,
            Connection::Postgres(_) => Some(connection.number("SELECT pg_backend_pid()::bigint").await?),
        };
        let backend = backend.and_then(|process| u32::try_from(process).ok());
        let server = server::start(build, &database.url(), 1);
        Ok(Self { server, connection, backend, room })
    }

    async fn round(&self, args: &GrowthArgs) -> anyhow::Result<Round> {
        let load = Load {
            address: self.server.public_addr(),
            path: server::PATH,
            connections: usize::from(args.connections),
            seconds: args.seconds,
            body_size: args.body_size,
            repeat_percent: 0,
        };
        let (mut seen, first, last) = load::run(&load, async || self.spent().await).await?;
        ensure!(seen.others + seen.duplicates == 0, "{} answers were not `accepted`", seen.others + seen.duplicates);
        let accepted = seen.measured.len();
        let written = first.written.zip(last.written).filter(|_| accepted > 0);
        let written = written.map(|(first, last)| (last - first) as f64 / accepted as f64);
        let server = last.server.saturating_sub(first.server);
        let figures = Figures::new(&mut seen, server, last.postgres.saturating_sub(first.postgres));
        Ok(Round { figures, accepted, written, mib: last.mib })
    }

    /// Bytes written are the position of Postgres's log, or what the server sent to disk.
    async fn spent(&self) -> Spent {
        let server = self.server.pid();
        let written = match self.backend {
            Some(_) => self.connection.number(include_str!("../sql/postgres/log_position.sql")).await.ok(),
            None => usage::written_bytes(server),
        };
        let postgres = self.backend.map_or(Duration::ZERO, usage::of_postgres);
        Spent { server: usage::of_process(server), postgres, written, mib: usage::resident_mib(server) }
    }
}

impl Room {
    async fn measure(database: &Database, connection: &Connection) -> anyhow::Result<Self> {
        let each = async |table: &str| {
            let bytes = database.bytes_of(connection, table).await.context("cannot read the sizes of tables")?;
            let rows = database.rows_of(connection, table).await.context("cannot count rows")?;
            anyhow::Ok(if rows > 0 { bytes as f64 / rows as f64 } else { 0.0 })
        };
        Ok(Self {
            ledger: each("ledger").await?,
            event: each("events").await?,
            payload: each("payloads").await?,
            delivery: each("deliveries").await?,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    #[tokio::test]
    async fn databases_are_named_well_or_refused() {
        let program = std::env::current_exe().expect("this program");
        let program = program.to_str().expect("text");
        let url = "postgres://nobody@127.0.0.1:1/x";
        for (databases, part) in [
            (vec!["--database", url], "--small-database"),
            (vec!["--database", url, "--small-database", "sqlite:x.db"], "of one kind"),
        ] {
            let line = [&["lab", "growth", "--oncebox", program], &databases[..]].concat();
            let Command::Growth(args) = Cli::parse_from(line).command else { panic!("it is growth") };
            let error = run(&args).await.expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
