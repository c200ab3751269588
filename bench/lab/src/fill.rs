//! `oncebox bench fill`: a database as it looks after weeks, made from a seed.
//!
//! Event number n of a seed is the same whenever it is made: its source, id and type come from both, its key begins with
//! a time that rises with n, as the keys of a real inbox do. Identities are digests and so lie everywhere in the ledger.

mod maker;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use oncebox::clock::Clock;
use oncebox::store::{Access, Filled, Store};
use serde_json::json;
use tokio::task::JoinSet;

use crate::cli::growth::FillArgs;
use crate::config::store::StoreUrl;
use crate::database;
use crate::terminal::{self, Progress};
use maker::Maker;

/// Slices under way: one is made while another is written.
const AT_ONCE: usize = 2;
/// The handler that has done every event, the same as the one of the load's server.
const HANDLER: &str = "bench";
/// Events in one transaction. SQLite writes whole pages, so that there a larger one writes each leaf of the ledger fewer
/// times.
const SLICE_POSTGRES: u64 = 100_000;
const SLICE_SQLITE: u64 = 500_000;

/// What to fill a database with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filling {
    pub(super) events: u64,
    pub(super) payloads: u64,
    pub(super) seed: u64,
    pub(super) body_size: usize,
    pub(super) slice: u64,
    /// Whether other events may be there.
    pub(super) add: bool,
}

/// What filling came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    pub(super) written: u64,
    pub(super) elapsed: Duration,
}

/// Runs the command.
pub(super) async fn run(args: &FillArgs) -> anyhow::Result<ExitCode> {
    terminal::note(format!("warning: {} is filled with made-up events; never use one that you need", args.database));
    let filling = Filling {
        events: args.events,
        payloads: args.payloads,
        seed: args.seed,
        body_size: args.body_size,
        slice: args.slice.unwrap_or_else(|| slice_on(&args.database)).max(1),
        add: args.add,
    };
    let store = open(&args.database).await?;
    let filled = fill(&store, filling).await;
    store.close().await;
    let filled = filled?;
    let rate = rate(filled);
    if args.json {
        terminal::print_json(&json!({
            "events": args.events, "written": filled.written, "seconds": filled.elapsed.as_secs_f64(), "rate": rate,
            "seed": args.seed,
        }))?;
    } else {
        let known = args.events - filled.written;
        terminal::print(format!(
            "{} events written in {:.1} s ({rate:.0}/s), {known} were there",
            filled.written,
            filled.elapsed.as_secs_f64(),
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// How many events go into one transaction on this database.
pub(super) fn slice_on(url: &StoreUrl) -> u64 {
    match url {
        StoreUrl::Sqlite(_) => SLICE_SQLITE,
        StoreUrl::Postgres(_) => SLICE_POSTGRES,
    }
}

/// Opens a database that is ours to fill.
pub(super) async fn open(url: &StoreUrl) -> anyhow::Result<Store> {
    let store = database::open(&database::config_of(url), Access::Server).await?;
    store.migrate().await.context("cannot bring the schema up to date")?;
    Ok(store)
}

/// Writes what is not there yet.
pub(super) async fn fill(store: &Store, filling: Filling) -> anyhow::Result<Fill> {
    let maker = Arc::new(Maker::new(filling, Clock::system().now()));
    refuse_foreign(store, &maker, filling).await?;
    let started = Instant::now();
    let mut progress = Progress::new(filling.events, "events");
    let (mut written, mut passed) = (0, 0);
    let mut slices = JoinSet::new();
    let mut starts = (0..filling.events).step_by(usize::try_from(filling.slice).context("a slice too large")?);
    loop {
        while slices.len() < AT_ONCE
            && let Some(from) = starts.next()
        {
            let (store, maker, count) = (store.clone(), maker.clone(), filling.slice.min(filling.events - from));
            slices.spawn(async move { slice(&store, &maker, from, count).await });
        }
        let Some(ended) = slices.join_next().await else { break };
        let (count, new) = ended.context("a slice's task failed")??;
        written += new;
        passed += count;
        progress.reach(passed);
    }
    Ok(Fill { written, elapsed: started.elapsed() })
}

/// How many events the slice has, and how many of them are new.
async fn slice(store: &Store, maker: &Arc<Maker>, from: u64, count: u64) -> anyhow::Result<(u64, u64)> {
    let making = maker.clone();
    let events = tokio::task::spawn_blocking(move || (from..from + count).map(|n| making.event(n)).collect()).await;
    match store.fill(events.context("making events failed")?, HANDLER).await.context("cannot fill the database")? {
        Filled::Written => Ok((count, count)),
        Filled::Known => Ok((count, 0)),
        Filled::Partly => bail!(
            "some of the events from number {from} on are there and some are not: this database was filled to another \
             number; fill it to that one, or begin with an empty database"
        ),
    }
}

/// A database of somebody else's is not filled by mistake.
async fn refuse_foreign(store: &Store, maker: &Maker, filling: Filling) -> anyhow::Result<()> {
    let some =
        store.events(&oncebox::store::EventFilter::default(), 1).await.context("cannot look into the database")?;
    if filling.add || some.items.is_empty() {
        return Ok(());
    }
    if store.ledger_keys(&[maker.event(0).identity()]).await?.iter().all(Option::is_none) {
        bail!(
            "this database holds events that are not of seed {}; begin with an empty one, or say --add",
            filling.seed
        );
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn rate(filled: Fill) -> f64 {
    filled.written as f64 / filled.elapsed.as_secs_f64().max(0.001)
}
