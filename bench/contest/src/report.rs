//! The tables: medians of the rounds, and the ratios of each round.

use comfy_table::Table;
use lab::figures::{Figures, median, table};
use serde::Serialize;
use serde_json::json;

use crate::Args;
use crate::contender::Turn;

/// What every contender reached in one round, in the order of their names.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Round(pub(crate) Vec<Turn>);

impl Round {
    pub(crate) fn of(contenders: usize) -> Self {
        Self(vec![Turn::default(); contenders])
    }
}

/// The places of the two others in a round.
const CEILING: usize = 0;
const NAIVE: usize = 1;

pub(crate) fn print(args: &Args, names: &[&str], rounds: &[Round]) -> anyhow::Result<()> {
    if args.json {
        let all = json!({ "connections": args.connections, "seconds": args.seconds, "body_bytes": args.body_size,
                          "contenders": names, "rounds": rounds });
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    println!(
        "\n{} rounds of {} s, bodies of {} bytes; medians of the rounds; accepted answers equal stored rows\n",
        rounds.len(),
        args.seconds,
        args.body_size
    );
    println!("{}\n", figures(args, names, rounds));
    println!("{}", ratios(args, names, rounds));
    Ok(())
}

fn figures(args: &Args, names: &[&str], rounds: &[Round]) -> Table {
    let mut table =
        table(&["contender", "conns", "accepted/s", "p50 ms", "p99 ms", "CPU µs = server + Postgres", "MiB"]);
    let many: fn(&Turn) -> &Figures = |turn| &turn.many;
    let one: fn(&Turn) -> &Figures = |turn| &turn.one;
    for (connections, pick) in [(args.connections, many), (1, one)] {
        for (at, name) in names.iter().enumerate() {
            let of = |value: &dyn Fn(&Figures) -> f64| {
                median(rounds.iter().map(|round| value(pick(&round.0[at]))).collect()).unwrap_or_default()
            };
            let rss = median(rounds.iter().map(|round| round.0[at].rss_mib).collect()).unwrap_or_default();
            let (server, postgres) = (of(&|one| one.server_cpu_us), of(&|one| one.postgres_cpu_us));
            table.add_row([
                (*name).to_owned(),
                connections.to_string(),
                format!("{:.0}", of(&|one| one.rate)),
                format!("{:.2}", of(&|one| one.p50_ms)),
                format!("{:.2}", of(&|one| one.p99_ms)),
                format!("{:.0} = {server:.0} + {postgres:.0}", of(&Figures::cpu_us)),
                format!("{rss:.0}"),
            ]);
        }
    }
    table
}

/// Each ratio is taken within a round; the table shows the median and the range.
fn ratios(args: &Args, names: &[&str], rounds: &[Round]) -> Table {
    let many = args.connections;
    let columns = [
        format!("rate ÷ ceiling, {many}"),
        format!("rate ÷ naive, {many}"),
        format!("CPU ÷ naive, {many}"),
        format!("p99 ÷ naive, {many}"),
        "p50 ÷ naive, 1".to_owned(),
    ];
    let mut header = vec!["contender"];
    header.extend(columns.iter().map(String::as_str));
    let mut table = table(&header);
    for (at, name) in names.iter().enumerate().skip(NAIVE) {
        let shown = |ratio: &dyn Fn(&[Turn]) -> f64| {
            let values: Vec<f64> = rounds.iter().map(|round| ratio(&round.0)).collect();
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(0.0, f64::max);
            format!("{:.2} ({least:.2}–{most:.2})", median(values).unwrap_or_default())
        };
        table.add_row([
            (*name).to_owned(),
            shown(&|round| round[at].many.rate / round[CEILING].many.rate),
            shown(&|round| round[at].many.rate / round[NAIVE].many.rate),
            shown(&|round| round[at].many.cpu_us() / round[NAIVE].many.cpu_us()),
            shown(&|round| round[at].many.p99_ms / round[NAIVE].many.p99_ms),
            shown(&|round| round[at].one.p50_ms / round[NAIVE].one.p50_ms),
        ]);
    }
    table
}
