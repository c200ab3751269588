//! What the rounds come to: medians, ratios, and what was aimed at.

use anyhow::Context as _;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Room, Round};
use crate::args::GrowthArgs;
use crate::figures::{median, table};

/// All figures of a run.
#[derive(Debug)]
pub(super) struct Report<'a> {
    args: &'a GrowthArgs,
    database: &'static str,
    small: Side,
    large: Side,
    ratios: Ratios,
    room: Room,
}

/// One inbox: its rounds and their medians.
#[derive(Debug, Serialize)]
struct Side {
    rate: f64,
    p50_ms: f64,
    cpu_us: f64,
    written: Option<f64>,
    rounds: Vec<Round>,
}

/// A figure at the large size divided by the same at the small one: the median over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Ratios {
    rate: Option<f64>,
    p50: Option<f64>,
    cpu: Option<f64>,
    written: Option<f64>,
    /// Over all rounds together: a checkpoint falls into one round and is paid for in it.
    written_in_all: Option<f64>,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        args: &'a GrowthArgs,
        database: &'static str,
        small: Vec<Round>,
        large: Vec<Round>,
        room: Room,
    ) -> anyhow::Result<Self> {
        let ratios = Ratios::of(&small, &large);
        Ok(Self { args, database, small: Side::of(small)?, large: Side::of(large)?, ratios, room })
    }

    pub(super) fn view(&self) -> Value {
        json!({
            "database": self.database, "rows": self.args.rows, "small_rows": self.args.small_rows,
            "connections": self.args.connections, "seconds": self.args.seconds, "body_bytes": self.args.body_size,
            "small": self.small, "large": self.large, "ratios": self.ratios, "bytes_per_event": self.room,
        })
    }

    pub(super) fn text(&self) -> String {
        let args = self.args;
        let head = format!(
            "{}: {} and {} events; {} rounds of {} s, {} connections, bodies of {} bytes; medians",
            self.database, args.small_rows, args.rows, args.rounds, args.seconds, args.connections, args.body_size
        );
        let shown =
            |value: Option<f64>, digits: usize| value.map_or("?".to_owned(), |value| format!("{value:.digits$}"));
        let mut figures = table(&["for each event", "small", "large", "ratio", "aim"]);
        let (small, large, ratios) = (&self.small, &self.large, &self.ratios);
        let cpu = "CPU µs, server + Postgres";
        for (name, one, other, digits, ratio, aim) in [
            ("rate/s", Some(small.rate), Some(large.rate), 0, ratios.rate, "at least 0.85"),
            ("p50 ms", Some(small.p50_ms), Some(large.p50_ms), 2, ratios.p50, "at most 1.15"),
            (cpu, Some(small.cpu_us), Some(large.cpu_us), 1, ratios.cpu, "at most 1.15"),
            ("bytes written", small.written, large.written, 0, ratios.written, "at most 2.5"),
            ("bytes written, all rounds", None, None, 0, ratios.written_in_all, "at most 2.5"),
        ] {
            let cells = [name.to_owned(), shown(one, digits), shown(other, digits), shown(ratio, 2), aim.to_owned()];
            figures.add_row(cells);
        }
        let mut room = table(&["bytes of an event", "with indexes", "aim"]);
        for (tier, bytes, aim) in [
            ("ledger", self.room.ledger, "at most 120"),
            ("event record", self.room.event, "at most 300"),
            ("payload", self.room.payload, ""),
            ("finished delivery", self.room.delivery, ""),
        ] {
            room.add_row([tier.to_owned(), format!("{bytes:.0}"), aim.to_owned()]);
        }
        format!("{head}\n\n{}\n\n{}", figures.trim_fmt(), room.trim_fmt())
    }
}

impl Side {
    fn of(rounds: Vec<Round>) -> anyhow::Result<Self> {
        let of =
            |figure: &dyn Fn(&Round) -> f64| median(rounds.iter().map(figure).collect()).context("no round was run");
        Ok(Self {
            rate: of(&|round| round.figures.rate)?,
            p50_ms: of(&|round| round.figures.p50_ms)?,
            cpu_us: of(&|round| round.figures.cpu_us())?,
            written: median(rounds.iter().filter_map(|round| round.written).collect()),
            rounds,
        })
    }
}

impl Ratios {
    fn of(small: &[Round], large: &[Round]) -> Self {
        let ratio = |figure: &dyn Fn(&Round) -> Option<f64>| {
            let pairs = small.iter().zip(large).filter_map(|(small, large)| Some(figure(large)? / figure(small)?));
            median(pairs.collect())
        };
        let each = |rounds: &[Round]| {
            let (mut bytes, mut events) = (0.0, 0.0);
            for round in rounds {
                let accepted = round.accepted as f64;
                bytes += round.written? * accepted;
                events += accepted;
            }
            (events > 0.0).then_some(bytes / events)
        };
        Self {
            rate: ratio(&|round| Some(round.figures.rate)),
            p50: ratio(&|round| Some(round.figures.p50_ms)),
            cpu: ratio(&|round| Some(round.figures.cpu_us())),
            written: ratio(&|round| round.written),
            written_in_all: each(large).zip(each(small)).map(|(large, small)| large / small),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figures;

    #[test]
    fn ratios_are_medians_of_pairs() {
        let round = |rate: f64, p50_ms: f64, written: f64, accepted: usize| Round {
            figures: Figures { rate, p50_ms, server_cpu_us: 10.0, ..Figures::default() },
            accepted,
            written: Some(written),
            mib: 20.0,
        };
        let small = [round(100.0, 1.0, 1000.0, 10), round(200.0, 2.0, 1000.0, 10), round(100.0, 1.0, 1000.0, 20)];
        let large = [round(90.0, 1.1, 4000.0, 10), round(100.0, 2.0, 1000.0, 10), round(95.0, 1.0, 1500.0, 20)];
        let (rate, p50, cpu) = (Some(0.9), Some(1.0), Some(1.0));
        let expected = Ratios { rate, p50, cpu, written: Some(1.5), written_in_all: Some(2.0) };
        assert_eq!(Ratios::of(&small, &large), expected);
        assert_eq!(Ratios::of(&[], &[]).rate, None);
    }
}
