//! A ledger of millions beside a small one, by `lab growth`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use lab::figures::Figures;
use serde::{Deserialize, Serialize};
use testkit::Backend;
use testkit::postgres::Cluster;

use super::queue::{fresh, lab_program, printed};
use crate::args::Args;
use crate::kept::One;
use crate::report;
use crate::spread::Spread;
use crate::surroundings::Surroundings;

const SMALL_ROWS: &str = "10k";

/// Both databases.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Ledgers {
    pub(crate) postgres: Ledger,
    pub(crate) sqlite: Ledger,
}

/// What `lab growth` says.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Ledger {
    pub(crate) rows: u64,
    pub(crate) small_rows: u64,
    pub(crate) small: Side,
    pub(crate) large: Side,
    pub(crate) bytes_per_event: Room,
}

/// One size.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Side {
    pub(crate) rounds: Vec<Round>,
}

/// One round at one size.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Round {
    pub(crate) figures: Figures,
    /// Bytes of log (Postgres) or of log and checkpoints (SQLite) for each event.
    pub(crate) written: Option<f64>,
    pub(crate) mib: f64,
}

impl Side {
    /// A figure over the rounds.
    pub(crate) fn spread(&self, figure: impl Fn(&Round) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.rounds.iter().map(figure))
    }
}

impl Ledger {
    /// A figure at the large size divided by the same at the small one, each pair from one round.
    pub(crate) fn ratio(&self, figure: impl Fn(&Round) -> Option<f64>) -> Option<Spread> {
        let pairs = self.large.rounds.iter().zip(&self.small.rounds);
        Spread::of(pairs.map(|(large, small)| Some(figure(large)? / figure(small)?)))
    }
}

/// Bytes of an event in each table.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Room {
    pub(crate) ledger: f64,
    pub(crate) event: f64,
    pub(crate) payload: f64,
    pub(crate) delivery: f64,
}

pub(crate) async fn run(args: &Args, builds: &[(String, PathBuf)], cluster: &Cluster) -> anyhow::Result<String> {
    let surroundings = Surroundings::look(args, cluster)?;
    let postgres = measure(args, builds, cluster, Backend::Postgres)?;
    let sqlite = measure(args, builds, cluster, Backend::Sqlite)?;
    let one = One { surroundings, figures: Ledgers { postgres, sqlite } };
    one.keep("ledger")?;
    if args.json {
        return Ok(serde_json::to_string_pretty(&one.figures)?);
    }
    Ok(report::ledgers(&one.figures))
}

fn measure(args: &Args, builds: &[(String, PathBuf)], cluster: &Cluster, backend: Backend) -> anyhow::Result<Ledger> {
    eprintln!("{backend:?}: a ledger of {} events is filled and measured beside one of {SMALL_ROWS}", args.ledger_rows);
    let (large, small) = (fresh(cluster, backend), fresh(cluster, backend));
    let (rounds, seconds) = (args.rounds.to_string(), args.seconds.to_string());
    let (_, build) = builds.first().context("there is no build of Oncebox")?;
    let mut command = Command::new(lab_program()?);
    command.args(["growth", "--json", "--rows", &args.ledger_rows, "--small-rows", SMALL_ROWS, "--rounds", &rounds]);
    command.args(["--seconds", &seconds, "--body-size", &args.body_size.to_string(), "--database", large.url()]);
    command.args(["--small-database", small.url(), "--oncebox"]).arg(build);
    serde_json::from_slice(&printed(&mut command)?).context("`lab growth` printed something else")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_compared_within_a_round() {
        let round = |rate: f64, written: Option<f64>| Round {
            figures: Figures { rate, ..Figures::default() },
            written,
            mib: 20.0,
        };
        let small = Side { rounds: vec![round(100.0, Some(10.0)), round(200.0, None), round(100.0, Some(10.0))] };
        let large = Side { rounds: vec![round(90.0, Some(20.0)), round(100.0, Some(1.0)), round(95.0, Some(30.0))] };
        let bytes_per_event = Room { ledger: 1.0, event: 1.0, payload: 1.0, delivery: 1.0 };
        let ledger = Ledger { rows: 20, small_rows: 2, small, large, bytes_per_event };
        assert_eq!(ledger.ratio(|one| Some(one.figures.rate)).map(|ratio| ratio.median), Some(0.9));
        assert_eq!(ledger.ratio(|one| one.written).map(|ratio| ratio.least), Some(2.0));
    }
}
