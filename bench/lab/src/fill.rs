//! `lab fill`: a database as it looks after weeks, made from a seed.
//!
//! Event number n of a seed is the same whenever it is made: its source, id and type come from both, its key begins with
//! a time that rises with n, as the keys of a real inbox do. Identities are digests and so lie everywhere in the ledger.

mod maker;
mod postgres;
pub mod slice;
mod sqlite;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use oncebox::Clock;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::args::FillArgs;
use crate::database::{Connection, Database};
use crate::server::HANDLER;
use maker::Maker;
use slice::{Filled, PastEvent};

/// Events in one transaction. SQLite writes whole pages, so that there a larger one writes each leaf of the ledger fewer
/// times.
const SLICE_POSTGRES: u64 = 100_000;
const SLICE_SQLITE: u64 = 500_000;

/// What to fill a database with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling {
    pub(crate) events: u64,
    pub(crate) payloads: u64,
    pub(crate) seed: u64,
    pub(crate) body_size: usize,
    pub(crate) slice: u64,
    /// Whether other events may be there.
    pub(crate) add: bool,
}

/// What filling came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    pub(crate) written: u64,
    pub(crate) elapsed: Duration,
}

/// Runs the command.
pub async fn run(args: &FillArgs) -> anyhow::Result<String> {
    let (database, _) = Database::named_or_temporary(Some(&args.database))?;
    let filling = Filling {
        events: args.events,
        payloads: args.payloads,
        seed: args.seed,
        body_size: args.body_size,
        slice: args.slice.unwrap_or_else(|| slice_on(&database)),
        add: args.add,
    };
    let filled = fill(&database, filling).await?;
    let (seconds, rate) = (filled.elapsed.as_secs_f64(), rate(filled));
    if args.json {
        let all = json!({ "events": args.events, "written": filled.written, "seconds": seconds, "rate": rate,
                          "seed": args.seed });
        return Ok(serde_json::to_string_pretty(&all)?);
    }
    let known = args.events - filled.written;
    Ok(format!("{} events written in {seconds:.1} s ({rate:.0}/s), {known} were there", filled.written))
}

/// How many events go into one transaction on this database.
pub(crate) fn slice_on(database: &Database) -> u64 {
    match database {
        Database::Sqlite(_) => SLICE_SQLITE,
        Database::Postgres(_) => SLICE_POSTGRES,
    }
}

/// Writes what is not there yet. Nobody else may have the database open as a server.
pub(crate) async fn fill(database: &Database, filling: Filling) -> anyhow::Result<Fill> {
    // Closed again at once: it holds the lock that a server wants.
    database.open().await?.close().await;
    let mut connection = database.connect().await?;
    let maker = Arc::new(Maker::new(filling, Clock::system().now()));
    refuse_foreign(database, &connection, &maker, filling).await?;
    let started = Instant::now();
    let (mut written, mut from) = (0, 0);
    let mut next = Some(make(&maker, 0, filling));
    while let Some(making) = next.take() {
        let events = making.await.context("making events failed")?;
        let count = events.len() as u64;
        // One slice is made while another is written.
        if from + count < filling.events {
            next = Some(make(&maker, from + count, filling));
        }
        match slice::write(&mut connection, events, HANDLER).await.context("cannot fill the database")? {
            Filled::Written => written += count,
            Filled::Known => {}
            Filled::Partly => bail!(
                "some of the events from number {from} on are there and some are not: this database was filled to \
                 another number; fill it to that one, or begin with an empty database"
            ),
        }
        from += count;
        eprintln!("filled {from} of {}", filling.events);
    }
    Ok(Fill { written, elapsed: started.elapsed() })
}

fn make(maker: &Arc<Maker>, from: u64, filling: Filling) -> JoinHandle<Vec<PastEvent>> {
    let (maker, until) = (maker.clone(), filling.events.min(from + filling.slice));
    tokio::task::spawn_blocking(move || (from..until).map(|number| maker.event(number)).collect())
}

/// A database of somebody else's is not filled by mistake.
async fn refuse_foreign(
    database: &Database,
    connection: &Connection,
    maker: &Maker,
    filling: Filling,
) -> anyhow::Result<()> {
    let any = format!("SELECT count(*) FROM (SELECT 1 FROM {} LIMIT 1) AS found", database.table("events"));
    let is_empty = connection.number(&any).await? == 0;
    if !filling.add && !is_empty && !slice::is_known(connection, maker.event(0).identity()).await? {
        let seed = filling.seed;
        bail!("this database holds events that are not of seed {seed}; begin with an empty one, or say --add");
    }
    Ok(())
}

fn rate(filled: Fill) -> f64 {
    filled.written as f64 / filled.elapsed.as_secs_f64().max(0.001)
}
