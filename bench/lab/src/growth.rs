//! `oncebox bench growth`: the same load on a small inbox and on a large one, in turns, and the room that an event takes.
//!
//! What grows with the ledger is the tree of identities, which lie everywhere in it: more pages to read, and more pages to
//! write whole after each checkpoint. Ratios are medians over paired rounds, so that a slow moment of the machine falls on
//! both sides.

mod report;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use oncebox::secret::Secret;
use oncebox::store::{Access, Store, TableSize, TierRows};
use serde::Serialize;

use super::child::{Folder, Server, made_up_secret};
use super::figures::Figures;
use super::fill::{self, Filling};
use super::load::Load;
use super::script::Script;
use super::{kind, process};
use crate::cli::growth::GrowthArgs;
use crate::commands::wrong_usage;
use crate::config::store::{StoreConfig, StoreUrl};
use crate::database;
use crate::terminal::{self, Progress};
use report::Report;

/// What the events of both are made from.
const SEED: u64 = 1;

/// One round on one inbox.
#[derive(Clone, Debug, Default, Serialize)]
struct Round {
    figures: Figures,
    /// Bytes of log (Postgres) or of log and checkpoints (SQLite) written for each event.
    written: Option<f64>,
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
pub(super) async fn run(args: &GrowthArgs) -> anyhow::Result<ExitCode> {
    let folders = (Folder::create()?, Folder::create()?);
    let secret = made_up_secret()?;
    let (small_url, large_url) = urls(args, &folders)?;
    terminal::note(format!("warning: {small_url} and {large_url} are filled with made-up events"));
    let small = Inbox::start(args, args.small_rows, &small_url, &folders.0, &secret).await?;
    let large = Inbox::start(args, args.rows, &large_url, &folders.1, &secret).await?;
    let script = Arc::new(Script::stripe(&secret, args.body_size, 0.0)?);
    let (mut at_small, mut at_large) = (Vec::new(), Vec::new());
    let mut progress = Progress::of_long_steps(args.rounds * 2, "measurements");
    for number in 0..args.rounds {
        // Who goes first changes, so that neither always has the other's checkpoint to bear.
        for turn in [number % 2 == 0, number % 2 != 0] {
            let (inbox, rounds) = if turn { (&small, &mut at_small) } else { (&large, &mut at_large) };
            rounds.push(inbox.round(args, &script).await?);
            progress.step();
        }
    }
    drop(progress);
    let room = large.room;
    small.stop().await?;
    large.stop().await?;
    let report = Report::new(args, kind(&large_url), at_small, at_large, room)?;
    if args.json {
        terminal::print_json(&report.view())?;
    } else {
        terminal::print(report.text())?;
    }
    match report.failed() {
        0 => Ok(ExitCode::SUCCESS),
        failed => bail!("{failed} requests were not answered with 2xx"),
    }
}

fn urls(args: &GrowthArgs, folders: &(Folder, Folder)) -> anyhow::Result<(StoreUrl, StoreUrl)> {
    let file = |folder: &Folder| StoreUrl::Sqlite(folder.path().join("bench.db"));
    let large = args.database.clone().unwrap_or_else(|| file(&folders.1));
    let small = match (&args.small_database, &large) {
        (Some(url), _) => url.clone(),
        (None, StoreUrl::Sqlite(_)) => file(&folders.0),
        (None, StoreUrl::Postgres(_)) => {
            return Err(wrong_usage("name a second, empty database with --small-database; both are filled"));
        }
    };
    if kind(&small) != kind(&large) {
        return Err(wrong_usage("both databases must be of one kind"));
    }
    Ok((small, large))
}

/// A filled database with a server on it.
struct Inbox {
    server: Server,
    store: Store,
    process: u32,
    room: Room,
}

impl Inbox {
    async fn start(
        args: &GrowthArgs,
        events: u64,
        url: &StoreUrl,
        folder: &Folder,
        secret: &Secret,
    ) -> anyhow::Result<Self> {
        let (payloads, body_size) = (args.payloads, args.body_size);
        let filling = Filling { events, payloads, seed: SEED, body_size, slice: fill::slice_on(url), add: false };
        let store = fill::open(url).await?;
        fill::fill(&store, filling).await?;
        let room = room(&store).await?;
        store.close().await;
        // Its lock goes with it, and the server wants that.
        drop(store);
        let server = Server::start(folder, url, secret).await?;
        let config = StoreConfig { writers: 1, ..database::config_of(url) };
        let store = database::open(&config, Access::Visitor).await?;
        let process = server.process().id;
        Ok(Self { server, store, process, room })
    }

    async fn round(&self, args: &GrowthArgs, script: &Arc<Script>) -> anyhow::Result<Round> {
        let (address, process) = (self.server.address(), Some(self.server.process()));
        let load = Load { address, connections: args.connections, seconds: args.seconds, process };
        let (figures, written) = load.run_reading(script, async || self.written().await).await?;
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let written = written.filter(|_| figures.accepted > 0).map(|bytes| bytes as f64 / figures.accepted as f64);
        Ok(Round { figures, written })
    }

    /// Bytes written so far: the position of Postgres's log, or what the server sent to disk.
    async fn written(&self) -> Option<i64> {
        match self.store.log_position().await {
            Ok(Some(position)) => Some(position),
            _ => process::written_bytes(self.process),
        }
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.store.close().await;
        self.server.stop().await
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
async fn room(store: &Store) -> anyhow::Result<Room> {
    let sizes: Vec<TableSize> = store.table_sizes().await.context("cannot read the sizes of tables")?;
    let rows: TierRows = store.tier_rows().await.context("cannot count rows")?;
    let each = |table: &str, rows: i64| {
        let size = sizes.iter().find(|size| size.table == table);
        let bytes = size.map_or(0, |size| size.rows_bytes + size.index_bytes);
        if rows > 0 { bytes as f64 / rows as f64 } else { 0.0 }
    };
    Ok(Room {
        ledger: each("ledger", rows.ledger),
        event: each("events", rows.events),
        payload: each("payloads", rows.payloads),
        delivery: each("deliveries", rows.deliveries),
    })
}
