//! What is printed when a part is done: medians of the rounds, and the ratios of each round.

use comfy_table::Table;
use lab::figures::table;

use crate::contender::{Kind, Measured, Shape};
use crate::part::ledger::{Ledger, Ledgers};
use crate::part::queue::Queues;
use crate::part::turns::{Figure, Turns, of};
use crate::spread::{Spread, number};
use crate::surroundings::Surroundings;

/// Servers under load.
pub(crate) fn receiving(turns: &Turns, with: &Surroundings) -> String {
    let shapes = turns.shapes();
    let mut figures = table(&[
        "contender",
        "conns",
        "handlers",
        "repeats",
        "bytes",
        "events/s",
        "p50 ms",
        "p99 ms",
        "CPU µs = server + db",
        "MiB",
        "failed",
    ]);
    for shape in &shapes {
        for (at, entrant) in turns.entrants.iter().enumerate() {
            let median =
                |figure: fn(&Measured) -> f64| turns.spread(at, of(*shape, figure)).map(|spread| spread.median);
            let Some(rate) = median(|one| one.figures.rate) else { continue };
            let shown = |figure: fn(&Measured) -> f64| median(figure).map(number).unwrap_or_default();
            figures.add_row([
                entrant.name.clone(),
                shape.connections.to_string(),
                shape.handlers.to_string(),
                format!("{} %", shape.repeat_percent),
                shape.body_size.to_string(),
                number(rate),
                shown(|one| one.figures.p50_ms),
                shown(|one| one.figures.p99_ms),
                cpu(turns, at, *shape),
                shown(|one| one.mib),
                format!("{:.0}", median(|one| one.failed as f64).unwrap_or_default()),
            ]);
        }
    }
    let head = format!(
        "rounds: {}, each of {} s; medians; accepted answers equal stored rows",
        turns.rounds.len(),
        with.seconds
    );
    let ratios = shapes.first().map(|shape| ratios(turns, *shape)).unwrap_or_default();
    format!("\n{head}\n\n{}\n\n{}", figures.trim_fmt(), ratios.trim_fmt())
}

/// Processor time for an event: the sum and its parts.
pub(crate) fn cpu(turns: &Turns, at: usize, shape: Shape) -> String {
    let shown = |figure: fn(&Measured) -> f64| turns.spread(at, of(shape, figure)).map(|spread| number(spread.median));
    let parts = (
        shown(|one| one.figures.cpu_us()),
        shown(|one| one.figures.server_cpu_us),
        shown(|one| one.figures.postgres_cpu_us),
    );
    match parts {
        (Some(sum), Some(_), Some(database)) if database == "0.00" => sum,
        (Some(sum), Some(server), Some(database)) => format!("{sum} = {server} + {database}"),
        _ => String::new(),
    }
}

/// Each is taken within a round.
fn ratios(turns: &Turns, first: Shape) -> Table {
    let many = first.connections;
    let header =
        ["rate ÷ ceiling", "rate ÷ naive", "CPU ÷ naive", "p99 ÷ naive"].map(|ratio| format!("{ratio}, {many}"));
    let mut columns = vec!["contender"];
    columns.extend(header.iter().map(String::as_str));
    columns.push("p50 ÷ naive, 1");
    let mut table = table(&columns);
    let (ceiling, naive) = (turns.place(Kind::Ceiling), turns.place(Kind::Naive));
    let one = Shape { connections: 1, ..first };
    for (at, entrant) in turns.entrants.iter().enumerate().filter(|(at, _)| Some(*at) != ceiling) {
        let ratio = |shape: Shape, figure: fn(&Measured) -> f64, other: Option<usize>| {
            let figure: Figure<'_> = &of(shape, figure);
            let spread = other.and_then(|other| turns.ratio((at, figure), (other, figure)));
            spread.as_ref().map(Spread::to_string).unwrap_or_default()
        };
        table.add_row([
            entrant.name.clone(),
            ratio(first, |one| one.figures.rate, ceiling),
            ratio(first, |one| one.figures.rate, naive),
            ratio(first, |one| one.figures.cpu_us(), naive),
            ratio(first, |one| one.figures.p99_ms, naive),
            ratio(one, |one| one.figures.p50_ms, naive),
        ]);
    }
    table
}

/// Queues.
pub(crate) fn queues(queues: &Queues, ways: &[(&str, &str)], with: &Surroundings) -> String {
    let mut figures = table(&["way", "a second"]);
    for (key, name) in ways {
        if let Some(spread) = queues.spread(key) {
            figures.add_row([(*name).to_owned(), spread.to_string()]);
        }
    }
    format!(
        "\nrounds: {}, each of {}; median (lowest – highest)\n\n{}",
        queues.rounds.len(),
        with.jobs,
        figures.trim_fmt()
    )
}

/// Ledgers.
pub(crate) fn ledgers(ledgers: &Ledgers) -> String {
    let line = |name: &str, ledger: &Ledger| {
        let shown = |value: Option<Spread>| value.map_or("?".to_owned(), |value| value.to_string());
        let (rate, written) =
            (shown(ledger.ratio(|one| Some(one.figures.rate))), shown(ledger.ratio(|one| one.written)));
        format!("{name}: {} ÷ {} events: rate {rate}, bytes written {written}", ledger.rows, ledger.small_rows)
    };
    format!("\n{}\n{}", line("Postgres", &ledgers.postgres), line("SQLite", &ledgers.sqlite))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::turns::samples::{SHAPE, turns};

    #[test]
    fn everybody_has_a_line_and_ours_has_ratios() {
        let kinds = [
            (Kind::Ceiling, [1000.0; 3]),
            (Kind::Naive, [100.0, 200.0, 100.0]),
            (Kind::OnceboxPostgres, [300.0, 300.0, 300.0]),
        ];
        let text = receiving(&turns(&kinds, &[SHAPE]), &Surroundings::default());
        assert!(text.contains("Oncebox, Postgres") && text.contains("15.0 = 10.0 + 5.00"), "{text}");
        assert!(text.contains("0.30 (0.30 – 0.30)") && text.contains("3.00 (1.50 – 3.00)"), "{text}");
    }

    #[test]
    fn a_contest_without_the_others_has_no_ratios() {
        let text = receiving(&turns(&[(Kind::OnceboxSqlite, [1.0, 2.0, 3.0])], &[SHAPE]), &Surroundings::default());
        assert!(text.contains("Oncebox, SQLite") && !text.contains('–'), "{text}");
    }
}
