//! The document: what was measured and how, in tables and plain words, from the figures that were kept.

mod markdown;
mod target;

use crate::contender::{Measured, Shape};
use crate::kept::{Kept, One};
use crate::part::growth::{BASE, Direction, directions};
use crate::part::ledger::{Ledger, Ledgers, Round};
use crate::part::queue::{self, Queues};
use crate::part::turns::{Turns, of};
use crate::report::cpu;
use crate::spread::{Spread, number};
use crate::surroundings::Surroundings;
use markdown::Markdown;
use target::TARGETS;

const INTRODUCTION: &str = include_str!("../text/introduction.md");
const RECEIVING: &str = include_str!("../text/receiving.md");
const HANDLING: &str = include_str!("../text/handling.md");
const OUTBOX: &str = include_str!("../text/outbox.md");
const GROWTH: &str = include_str!("../text/growth.md");
const LEDGER: &str = include_str!("../text/ledger.md");
const NOT_MEASURED: &str = "Not measured yet.\n";

/// All of it.
pub(crate) fn of_kept(kept: &Kept) -> String {
    let parts = [
        INTRODUCTION.to_owned(),
        targets(kept),
        surroundings(kept),
        part(RECEIVING, kept.receiving.as_ref(), receiving),
        part(HANDLING, kept.handling.as_ref(), |queues| ways(queues, &queue::HANDLING, "jobs/s")),
        part(OUTBOX, kept.relay.as_ref(), |queues| ways(queues, &queue::RELAY, "calls/s")),
        part(GROWTH, kept.growth.as_ref(), growth),
        part(LEDGER, kept.ledger.as_ref(), ledgers),
    ];
    parts.map(|part| part.trim_end().to_owned()).join("\n\n") + "\n"
}

fn part<T>(text: &str, one: Option<&One<T>>, tables: impl Fn(&T) -> String) -> String {
    format!("{text}\n{}", one.map_or(NOT_MEASURED.to_owned(), |one| tables(&one.figures)))
}

fn targets(kept: &Kept) -> String {
    let mut table = Markdown::new(&["figure", "", "measured", "at least", "aim", "reached"]);
    let mut reasons = Vec::new();
    for target in &TARGETS {
        let measured = target.measured(kept);
        let reached = match measured {
            None => "not measured",
            Some(measured) if target.is_reached(measured) => "yes",
            Some(_) => "no",
        };
        if let (Some(reason), "no") = (target.reason(), reached) {
            let line = format!("- {}: {reason}", target.row);
            reasons.extend((!reasons.contains(&line)).then_some(line));
        }
        let [least, aim] = target.bounds();
        let measured = measured.as_ref().map(Spread::to_string).unwrap_or_default();
        table.row([target.figure.to_owned(), target.row.to_owned(), measured, least, aim, reached.to_owned()]);
    }
    let why = if reasons.is_empty() { String::new() } else { format!("\nWhy not:\n\n{}\n", reasons.join("\n")) };
    format!("{}{why}", table.text())
}

/// When, where and with what each part was measured; parts that share it share a line.
fn surroundings(kept: &Kept) -> String {
    let mut groups: Vec<(Surroundings, Vec<String>)> = Vec::new();
    let mut add = |name: &str, rounds: usize, with: &Surroundings| {
        let name = format!("{name} ({rounds} round{})", if rounds == 1 { "" } else { "s" });
        match groups.iter_mut().find(|(other, _)| other == with) {
            Some((_, names)) => names.push(name),
            None => groups.push((with.clone(), vec![name])),
        }
    };
    for (name, one) in [("receiving", &kept.receiving), ("growth", &kept.growth)] {
        if let Some(one) = one {
            add(name, one.figures.rounds.len(), &one.surroundings);
        }
    }
    for (name, one) in [("handling", &kept.handling), ("outbox", &kept.relay)] {
        if let Some(one) = one {
            add(name, one.figures.rounds.len(), &one.surroundings);
        }
    }
    if let Some(one) = &kept.ledger {
        add("large ledger", one.figures.postgres.large.rounds.len(), &one.surroundings);
    }
    let lines = groups.iter().map(|(with, names)| {
        format!(
            "- {}: {}, commit {}, {}; measurements of {} s after a warm-up of 2 s, bodies of {} bytes, {} jobs for a \
             queue.\n  Versions: {}.",
            names.join(", "),
            with.date,
            with.commit,
            with.machine,
            with.seconds,
            with.body_size,
            number(with.jobs as f64),
            with.versions()
        )
    });
    format!("## When, where and with what\n\n{}\n", lines.collect::<Vec<_>>().join("\n"))
}

fn receiving(turns: &Turns) -> String {
    let mut text = String::new();
    for shape in turns.shapes() {
        let what = if shape.repeat_percent == 100 { "every event sent before" } else { "new events" };
        text.push_str(&format!("### {} connections, {what}\n\n", shape.connections));
        let mut table = Markdown::new(&["server", "events/s", "p50 ms", "p99 ms", "CPU µs = server + database", "MiB"]);
        for (at, entrant) in turns.entrants.iter().enumerate() {
            if let Some(cells) = cells(turns, at, shape) {
                let failed = turns.spread(at, of(shape, |one| one.failed as f64)).filter(|failed| failed.most > 0.0);
                let failed = failed.map(|failed| format!(", {} answers failed", number(failed.median)));
                let name = format!("{}{}", entrant.name, failed.unwrap_or_default());
                table.row(std::iter::once(name).chain(cells));
            }
        }
        text.push_str(&format!("{}\n", table.text()));
    }
    text.push_str("### Memory before the first request\n\n");
    let mut table = Markdown::new(&["server", "MiB"]);
    for (at, entrant) in turns.entrants.iter().enumerate() {
        let idle = turns.spread(at, |turn| Some(turn.idle_mib)).as_ref().map(Spread::to_string).unwrap_or_default();
        table.row([entrant.name.clone(), idle]);
    }
    text + &table.text()
}

/// Rate with its spread, and the medians of the others; none where it was not measured.
fn cells(turns: &Turns, at: usize, shape: Shape) -> Option<[String; 5]> {
    let spread = |figure: fn(&Measured) -> f64| turns.spread(at, of(shape, figure));
    let median = |figure: fn(&Measured) -> f64| spread(figure).map(|spread| number(spread.median)).unwrap_or_default();
    Some([
        spread(|one| one.figures.rate)?.to_string(),
        median(|one| one.figures.p50_ms),
        spread(|one| one.figures.p99_ms)?.to_string(),
        cpu(turns, at, shape),
        median(|one| one.mib),
    ])
}

fn ways(queues: &Queues, ways: &[(&str, &str)], unit: &str) -> String {
    let mut table = Markdown::new(&["way", unit]);
    for (key, name) in ways {
        if let Some(spread) = queues.spread(key) {
            table.row([(*name).to_owned(), spread.to_string()]);
        }
    }
    table.text()
}

fn growth(turns: &Turns) -> String {
    directions().iter().map(|direction| grown(turns, direction)).collect::<Vec<_>>().join("\n")
}

fn grown(turns: &Turns, direction: &Direction) -> String {
    let header =
        ["server", direction.column, "events/s", "÷ first", "p50 ms", "p99 ms", "CPU µs = server + database", "MiB"];
    let mut table = Markdown::new(&header);
    for (at, entrant) in turns.entrants.iter().enumerate() {
        for (name, shape) in &direction.shapes {
            let Some([rate, p50, p99, cpu, mib]) = cells(turns, at, *shape) else { continue };
            let figure = of(*shape, |one| one.figures.rate);
            let first = of(direction.shapes.first().map_or(BASE, |(_, shape)| *shape), |one| one.figures.rate);
            let ratio = turns.ratio((at, &figure), (at, &first));
            let ratio = ratio.map(|ratio| number(ratio.median)).unwrap_or_default();
            table.row([entrant.name.clone(), name.clone(), rate, ratio, p50, p99, cpu, mib]);
        }
    }
    format!("### {}\n\n{}", direction.title, table.text())
}

fn ledgers(ledgers: &Ledgers) -> String {
    let mut table = Markdown::new(&["", "small", "large", "large ÷ small"]);
    let mut room = Markdown::new(&["bytes of an event, indexes included", "Postgres", "SQLite"]);
    for (name, ledger) in [("Postgres", &ledgers.postgres), ("SQLite", &ledgers.sqlite)] {
        rows(&mut table, name, ledger);
    }
    let (postgres, sqlite) = (&ledgers.postgres.bytes_per_event, &ledgers.sqlite.bytes_per_event);
    for (tier, one, other) in [
        ("ledger", postgres.ledger, sqlite.ledger),
        ("event record", postgres.event, sqlite.event),
        ("payload", postgres.payload, sqlite.payload),
        ("finished delivery", postgres.delivery, sqlite.delivery),
    ] {
        room.row([tier.to_owned(), number(one), number(other)]);
    }
    format!("{}\n{}", table.text(), room.text())
}

type Figure = fn(&Round) -> Option<f64>;

fn rows(table: &mut Markdown, name: &str, ledger: &Ledger) {
    let cell = |spread: Option<Spread>| spread.as_ref().map(Spread::to_string).unwrap_or_default();
    let sizes = [ledger.small_rows, ledger.rows].map(|rows| number(rows as f64));
    table.row([format!("{name}: events in the ledger"), sizes[0].clone(), sizes[1].clone(), String::new()]);
    let figures: [(&str, Figure); 5] = [
        ("events/s", |one| Some(one.figures.rate)),
        ("p99 ms", |one| Some(one.figures.p99_ms)),
        ("CPU µs of an event, server and database", |one| Some(one.figures.cpu_us())),
        ("MiB of the server", |one| Some(one.mib)),
        ("bytes written for an event", |one| one.written),
    ];
    for (what, figure) in figures {
        let (small, large) = (ledger.small.spread(figure), ledger.large.spread(figure));
        table.row([format!("{name}: {what}"), cell(small), cell(large), cell(ledger.ratio(figure))]);
    }
}

#[cfg(test)]
mod tests;
