//! Arguments of `bench fill` and `bench growth`.

use clap::{Args, Subcommand};

use super::private::{private, store_url};
use super::values::{amount, size};
use crate::config::store::StoreUrl;

/// What else `bench` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Fill a database with made-up events of the past days
    Fill(FillArgs),
    /// Compare a small inbox with a large one, in turns
    Growth(GrowthArgs),
}

/// Arguments of `bench fill`.
#[derive(Args, Debug)]
#[command(after_help = "The same seed makes the same events. Killed midway, the same command goes on where it stopped.
Never point it at a database you need.

Examples:
  oncebox bench fill --events 1M --database sqlite:large.db
  oncebox bench fill --events 10M --payloads 1M --database postgres://postgres@localhost/bench")]
pub(crate) struct FillArgs {
    /// How many events: 20000, 10k, 10M
    #[arg(long, value_name = "N", value_parser = amount)]
    pub(crate) events: u64,
    /// How many of the newest still have their payload
    #[arg(long, value_name = "N", default_value = "100k", value_parser = amount)]
    pub(crate) payloads: u64,
    /// The database to fill; ONCEBOX_DATABASE is not read here on purpose
    #[arg(long, value_name = "URL", default_value = "sqlite:oncebox-bench.db", value_parser = private(store_url))]
    pub(crate) database: StoreUrl,
    /// What the events are made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// The size of each payload's body
    #[arg(long, value_name = "SIZE", default_value = "1KiB", value_parser = size)]
    pub(crate) body_size: usize,
    /// Fill a database that holds other events too
    #[arg(long)]
    pub(crate) add: bool,
    /// Events in one transaction
    #[arg(long, value_name = "N", hide = true, value_parser = amount)]
    pub(crate) slice: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `bench growth`.
#[derive(Args, Debug)]
#[command(
    after_help = "Both databases are filled to their size first, where they are not yet; then rounds of load go to
one and the other in turns. Without --database both are temporary SQLite files. Prints rate,
latency, processor time and bytes written for each event, their ratios, and the room that an
event takes.

Examples:
  oncebox bench growth --rows 1M
  oncebox bench growth --database sqlite:large.db --rows 10M --rounds 7
  oncebox bench growth --database postgres://localhost/large --small-database postgres://localhost/small"
)]
pub(crate) struct GrowthArgs {
    /// The large database; ONCEBOX_DATABASE is not read here on purpose
    #[arg(long, value_name = "URL", value_parser = private(store_url))]
    pub(crate) database: Option<StoreUrl>,
    /// The small one, of the same kind; an SQLite file is made where none is named
    #[arg(long, value_name = "URL", value_parser = private(store_url))]
    pub(crate) small_database: Option<StoreUrl>,
    /// Events in the large one
    #[arg(long, value_name = "N", default_value = "10M", value_parser = amount)]
    pub(crate) rows: u64,
    /// Events in the small one
    #[arg(long, value_name = "N", default_value = "10k", value_parser = amount)]
    pub(crate) small_rows: u64,
    /// How many of the newest events still have their payload
    #[arg(long, value_name = "N", default_value = "100k", value_parser = amount)]
    pub(crate) payloads: u64,
    /// Connections at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub(crate) connections: u64,
    /// How long a round lasts on each
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: u64,
    /// How many rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) rounds: u64,
    /// The size of each body
    #[arg(long, value_name = "SIZE", default_value = "1KiB", value_parser = size)]
    pub(crate) body_size: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
