//! The figures that the project is held to.

use crate::contender::{Kind, Measured, Shape};
use crate::kept::Kept;
use crate::part::growth::BASE;
use crate::part::ledger::Ledgers;
use crate::part::queue::Queues;
use crate::part::turns::{Figure, Turns, of};
use crate::spread::{Spread, number};

/// Why a figure is not reached, a line for each row.
const REASONS: &str = include_str!("../../reasons.txt");

/// One row.
pub(crate) struct Target {
    pub(crate) row: &'static str,
    pub(crate) figure: &'static str,
    bound: Bound,
    aim: f64,
    measure: fn(&Kept) -> Option<Spread>,
}

/// What a figure must be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}
use Bound::{AtLeast, AtMost};

/// All of them.
pub(crate) const TARGETS: [Target; 20] = [
    target("P1", "accepted/s ÷ ceiling, Postgres, 64 connections", AtLeast(0.35), 0.5, |kept| {
        rate(kept, Kind::OnceboxPostgres, Kind::Ceiling, BASE)
    }),
    target("P1", "accepted/s ÷ ceiling, Postgres, 256 connections", AtLeast(0.38), 0.5, |kept| {
        rate(kept, Kind::OnceboxPostgres, Kind::Ceiling, at(256))
    }),
    target("P2", "accepted/s ÷ ceiling, SQLite, 64 connections", AtLeast(0.3), 0.4, |kept| {
        rate(kept, Kind::OnceboxSqlite, Kind::Ceiling, BASE)
    }),
    target("P3", "accepted/s ÷ naive, Postgres, 64 connections", AtLeast(2.5), 3.5, |kept| {
        rate(kept, Kind::OnceboxPostgres, Kind::Naive, BASE)
    }),
    target("P4", "processor time of an event ÷ naive, Postgres, 64 connections", AtMost(0.33), 0.25, |kept| {
        let cpu = |one: &Measured| one.figures.cpu_us();
        ratio(receiving(kept)?, Kind::OnceboxPostgres, Kind::Naive, BASE, cpu)
    }),
    target("P5", "accepted/s ÷ Fastify + pg, Postgres, 64 connections", AtLeast(4.5), 6.0, |kept| {
        rate(kept, Kind::OnceboxPostgres, Kind::Fastify, BASE)
    }),
    target("P6", "duplicates/s ÷ naive's duplicates/s, Postgres, 64 connections", AtLeast(1.5), 2.5, |kept| {
        rate(kept, Kind::OnceboxPostgres, Kind::Naive, Shape { repeat_percent: 100, ..BASE })
    }),
    target("P7", "p50 ÷ naive, Postgres, 1 connection", AtMost(1.2), 1.0, |kept| {
        ratio(receiving(kept)?, Kind::OnceboxPostgres, Kind::Naive, at(1), |one| one.figures.p50_ms)
    }),
    target("P8", "p99 ÷ naive, Postgres, 64 connections", AtMost(0.7), 0.4, |kept| {
        ratio(receiving(kept)?, Kind::OnceboxPostgres, Kind::Naive, BASE, |one| one.figures.p99_ms)
    }),
    target(
        "P9",
        "handled/s in batches ÷ graphile-worker job by job, both with concurrency 10",
        AtLeast(10.0),
        15.0,
        |kept| handling(kept)?.ratio("postgres.batches", "graphile"),
    ),
    target(
        "P10",
        "handled/s in batches, 1 in 1,000 failing ÷ graphile-worker's local queue without failures",
        AtLeast(1.5),
        3.0,
        |kept| handling(kept)?.ratio("postgres.batches_failing", "graphile-local"),
    ),
    target("P11", "handled/s, SQLite ÷ Postgres", AtLeast(0.8), 2.0, |kept| {
        handling(kept)?.ratio("sqlite.batches", "postgres.batches")
    }),
    target("P12", "outbox calls/s, 32 at once ÷ the bare client, Postgres", AtLeast(0.4), 0.6, |kept| {
        relay(kept)?.ratio("postgres.relay", "postgres.bare")
    }),
    target("P12", "outbox calls/s, 32 at once ÷ the bare client, SQLite", AtLeast(0.4), 0.6, |kept| {
        relay(kept)?.ratio("sqlite.relay", "sqlite.bare")
    }),
    target("P13", "accepted/s, large ledger ÷ small, Postgres", AtLeast(0.9), 0.95, |kept| {
        ledger(kept)?.postgres.ratio(|one| Some(one.figures.rate))
    }),
    target("P13", "write-ahead log of an event, large ledger ÷ small, Postgres", AtMost(2.2), 1.5, |kept| {
        ledger(kept)?.postgres.ratio(|one| one.written)
    }),
    target("P14", "resident memory in MiB, idle, Postgres", AtMost(22.0), 15.0, |kept| {
        let turns = receiving(kept)?;
        turns.spread(turns.place(Kind::OnceboxPostgres)?, |turn| Some(turn.idle_mib))
    }),
    target("P14", "resident memory in MiB, 256 connections, Postgres", AtMost(45.0), 35.0, |kept| {
        let turns = receiving(kept)?;
        turns.spread(turns.place(Kind::OnceboxPostgres)?, of(at(256), |one| one.mib))
    }),
    target("P17", "accepted/s ÷ qhook, both on Postgres, 64 connections", AtLeast(7.0), 10.0, |kept| {
        rate(kept, Kind::OnceboxPostgres, Kind::QhookPostgres, BASE)
    }),
    target("P17", "accepted/s ÷ qhook, both on SQLite, 64 connections", AtLeast(10.0), 14.0, |kept| {
        rate(kept, Kind::OnceboxSqlite, Kind::QhookSqlite, BASE)
    }),
];

const fn target(
    row: &'static str,
    figure: &'static str,
    bound: Bound,
    aim: f64,
    measure: fn(&Kept) -> Option<Spread>,
) -> Target {
    Target { row, figure, bound, aim, measure }
}

impl Target {
    /// What was measured; none where it was not.
    pub(crate) fn measured(&self, kept: &Kept) -> Option<Spread> {
        (self.measure)(kept)
    }

    /// Whether the median is what it must be.
    pub(crate) fn is_reached(&self, measured: Spread) -> bool {
        match self.bound {
            AtLeast(bound) => measured.median >= bound,
            AtMost(bound) => measured.median <= bound,
        }
    }

    /// What it must be, and what is aimed at.
    pub(crate) fn bounds(&self) -> [String; 2] {
        match self.bound {
            AtLeast(bound) => [format!("≥ {}", number(bound)), format!("≥ {}", number(self.aim))],
            AtMost(bound) => [format!("≤ {}", number(bound)), format!("≤ {}", number(self.aim))],
        }
    }

    /// Why it is not reached, as far as that is known.
    pub(crate) fn reason(&self) -> Option<&'static str> {
        REASONS.lines().find_map(|line| line.strip_prefix(self.row)?.strip_prefix(": "))
    }
}

fn at(connections: usize) -> Shape {
    Shape { connections, ..BASE }
}

fn receiving(kept: &Kept) -> Option<&Turns> {
    kept.receiving.as_ref().map(|one| &one.figures)
}

fn handling(kept: &Kept) -> Option<&Queues> {
    kept.handling.as_ref().map(|one| &one.figures)
}

fn relay(kept: &Kept) -> Option<&Queues> {
    kept.relay.as_ref().map(|one| &one.figures)
}

fn ledger(kept: &Kept) -> Option<&Ledgers> {
    kept.ledger.as_ref().map(|one| &one.figures)
}

fn rate(kept: &Kept, ours: Kind, theirs: Kind, shape: Shape) -> Option<Spread> {
    ratio(receiving(kept)?, ours, theirs, shape, |one| one.figures.rate)
}

fn ratio(turns: &Turns, ours: Kind, theirs: Kind, shape: Shape, figure: fn(&Measured) -> f64) -> Option<Spread> {
    let figure: Figure<'_> = &of(shape, figure);
    turns.ratio((turns.place(ours)?, figure), (turns.place(theirs)?, figure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_reached_from_its_side() {
        let spread = |median: f64| Spread { median, least: 0.0, most: 100.0 };
        let find = |row: &str| TARGETS.iter().find(|target| target.row == row).expect("a row");
        assert!(find("P3").is_reached(spread(2.5)) && !find("P3").is_reached(spread(2.4)));
        assert!(find("P4").is_reached(spread(0.33)) && !find("P4").is_reached(spread(0.34)));
        assert_eq!(find("P4").bounds(), ["≤ 0.33", "≤ 0.25"]);
    }

    #[test]
    fn every_reason_is_of_a_row() {
        for line in REASONS.lines().filter(|line| !line.is_empty()) {
            let row = line.split_once(": ").map(|(row, _)| row);
            assert!(TARGETS.iter().any(|target| Some(target.row) == row), "{line}");
        }
    }
}
