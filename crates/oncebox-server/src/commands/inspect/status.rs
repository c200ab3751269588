//! `oncebox status`: the three numbers, the queues, and whatever a person should look at.

use std::process::ExitCode;

use comfy_table::Cell;

use crate::cli::operator::StatusArgs;
use crate::operator::Operator;
use crate::query::retention::WindowView;
use crate::query::view::{DestinationStats, StatsView};
use crate::terminal::{self, Tone};

pub(crate) async fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let operator = Operator::open(&args.operator).await?;
    let stats = operator.stats().await?;
    let from = if operator.is_server() { "a running server" } else { "the database itself; no server was asked" };
    terminal::show(args.operator.json, &stats, || text(&stats, from))
}

fn text(stats: &StatsView, from: &str) -> String {
    let mut sections = vec![numbers(stats, from)];
    let dangers = dangers(stats);
    if !dangers.is_empty() {
        sections.push(dangers.join("\n"));
    }
    sections.push(queues(stats).unwrap_or_else(|| "Deliveries\n none".to_owned()));
    sections.extend(outbox(stats));
    sections.extend(health(stats));
    sections.push(sources(stats).unwrap_or_else(|| "Events\n none".to_owned()));
    sections.join("\n\n")
}

/// The three numbers people watch.
fn numbers(stats: &StatsView, from: &str) -> String {
    let first_try = stats.first_try_error_rate.map_or_else(|| "nothing was tried yet".to_owned(), percent);
    let at_least = |is_least: bool| if is_least { "at least " } else { "" };
    let (rows, change) = (stats.ledger_rows, stats.ledger_rows_daily_change);
    let least = (at_least(stats.ledger_rows_is_least), at_least(stats.ledger_rows_daily_change_is_least));
    let usual = stats.retention.iter().find(|one| one.source.is_none()).map(|usual| {
        let differs = |one: &&WindowView| (&one.ledger, &one.payload) != (&usual.ledger, &usual.payload);
        let own = stats.retention.iter().filter(differs).count();
        let others = terminal::counted(own as u64, "source");
        let others = if own == 0 { String::new() } else { format!("; {others} with another: `oncebox retention`") };
        ("retention", format!("ledger {}, payload {}{others}", usual.ledger, usual.payload))
    });
    let facts = [
        ("first-try error rate", first_try),
        ("duplicate rate", percent(stats.duplicate_rate)),
        ("ledger rows", format!("{}{rows} ({}{change:+} in the last day)", least.0, least.1)),
        ("store", format!("{} (from {from})", stats.store)),
    ];
    terminal::facts(facts.into_iter().chain(usual))
}

fn dangers(stats: &StatsView) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |tone, line: String| lines.push(terminal::paint(&line, tone));
    if let Some(danger) = &stats.unsafe_because {
        let danger = terminal::plain(danger);
        add(Tone::Bad, format!("UNSAFE database: {danger}; acknowledged events may be lost"));
    }
    if let Some(risk) = &stats.failover_risk {
        add(Tone::Warning, format!("{}; see store.survive", terminal::plain(risk)));
    }
    if let Some(why) = &stats.retention_stopped {
        add(Tone::Bad, format!("retention is STOPPED: {}; see `oncebox retention`", terminal::plain(why)));
    }
    if stats.retention_forced {
        let line =
            "retention is FORCED: the ledger may forget an event that its sender still repeats, which then runs again";
        add(Tone::Bad, line.to_owned());
    }
    for source in &stats.unverified_sources {
        add(Tone::Bad, format!("UNSAFE source {}: nobody verifies who sends", terminal::plain(source)));
    }
    for (state, sentence) in [
        ("held", "held: waiting for a person; see `oncebox held`"),
        (
            "conflict",
            "in conflict: a known id came with another body; see `oncebox events --state conflict`, then \
             `oncebox release KEY` or `oncebox discard KEY`",
        ),
    ] {
        let count: i64 = stats.sources.iter().filter(|one| one.state == state).map(|one| one.events).sum();
        if count > 0 {
            add(Tone::Warning, format!("{} {sentence}", terminal::counted(count, "event")));
        }
    }
    let dead: i64 = stats.handlers.iter().filter(|one| one.state == "dead").map(|one| one.count).sum();
    let dead = dead + stats.outbox.iter().filter(|one| one.state == "dead").map(|one| one.count).sum::<i64>();
    if dead > 0 {
        let dead = terminal::counted(dead, "dead letter");
        add(Tone::Bad, format!("{dead}: see `oncebox dead-letters`, then `oncebox replay`"));
    }
    stats.destinations.iter().filter_map(destination).for_each(|line| add(Tone::Warning, line));
    for one in stats.handler_health.iter().filter(|one| one.paused) {
        let name = terminal::plain(&one.handler);
        add(Tone::Warning, format!("{name} is paused: its events wait; `oncebox resume {name}`"));
    }
    lines
}

/// What keeps the messages of a destination from going out.
fn destination(one: &DestinationStats) -> Option<String> {
    let name = terminal::plain(&one.destination);
    match &one.spared_until {
        _ if !one.is_configured => Some(format!(
            "destination {name} is not configured, and messages wait for it: add it, or `oncebox discard --destination \
             {name}`"
        )),
        Some(until) => Some(format!("destination {name} is out of reach: spared until {}", terminal::plain(until))),
        None => None,
    }
}

fn queues(stats: &StatsView) -> Option<String> {
    let rows = stats.handlers.iter().map(|one| {
        let oldest = one.oldest_due_at.as_deref().filter(|_| matches!(one.state.as_str(), "ready" | "claimed"));
        let (handler, count) = (terminal::cell(&one.handler), terminal::cell(one.count.to_string()));
        [handler, terminal::state(&one.state), count, terminal::maybe(oldest)]
    });
    section("Deliveries", ["handler", "state", "deliveries", "oldest due"], rows)
}

/// How first attempts went, for handlers that made any.
fn health(stats: &StatsView) -> Option<String> {
    let tried = stats.handler_health.iter().filter_map(|one| Some((one, one.first_try_error_rate?)));
    let rows = tried.map(|(one, rate)| {
        let counts = [one.first_tries, one.first_tries_failed].map(|count| count.to_string());
        [&one.handler, &counts[0], &counts[1], &percent(rate)].map(terminal::cell)
    });
    section("First tries", ["handler", "first tries", "failed", "error rate"], rows)
}

/// What handlers want sent, where anybody ever wanted that.
fn outbox(stats: &StatsView) -> Option<String> {
    let rows = stats.outbox.iter().map(|one| {
        [terminal::cell(&one.destination), terminal::state(&one.state), terminal::cell(one.count.to_string())]
    });
    section("Outbox", ["destination", "state", "messages"], rows)
}

fn sources(stats: &StatsView) -> Option<String> {
    let rows = stats.sources.iter().map(|one| {
        let [events, arrivals] = [one.events, one.arrivals].map(|count| terminal::cell(count.to_string()));
        [terminal::cell(&one.source), terminal::state(&one.state), events, arrivals]
    });
    section("Events", ["source", "state", "events", "arrivals"], rows)
}

/// A table under its title; none without rows.
fn section<const N: usize>(title: &str, names: [&str; N], rows: impl Iterator<Item = [Cell; N]>) -> Option<String> {
    let mut rows = rows.peekable();
    rows.peek()?;
    Some(format!("{title}\n{}", terminal::listed(names, rows)))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::view::{HandlerHealth, HandlerStats, OutboxStats, SourceStats};

    #[test]
    fn dangers_stand_in_words() {
        let stats = StatsView {
            store: "postgres".into(),
            unsafe_because: Some("fsync is off".into()),
            failover_risk: None,
            first_try_error_rate: None,
            duplicate_rate: 0.98,
            ledger_rows: 3,
            ledger_rows_is_least: false,
            ledger_rows_daily_change: 2,
            ledger_rows_daily_change_is_least: false,
            retention_stopped: Some("the clock jumped".into()),
            retention: [(None, "30d"), (Some("open"), "2d"), (Some("shut"), "30d")]
                .map(|(source, ledger)| WindowView {
                    source: source.map(str::to_owned),
                    ledger: ledger.into(),
                    payload: "1d".into(),
                })
                .into(),
            retention_forced: true,
            handler_health: vec![HandlerHealth::new("log".into(), true, 4, 1)],
            unverified_sources: vec!["open".into()],
            sources: vec![SourceStats { source: "open".into(), state: "held".into(), events: 2, arrivals: 3 }],
            counted_since: None,
            destinations: [("typo", false, None), ("crm", true, Some("2026-11-15T12:00:00.000Z"))]
                .map(|(name, is_configured, until)| DestinationStats {
                    destination: name.into(),
                    is_configured,
                    spared_until: until.map(str::to_owned),
                })
                .into(),
            outbox: vec![OutboxStats { destination: "crm".into(), state: "dead".into(), count: 2 }],
            handlers: vec![HandlerStats {
                handler: "log".into(),
                state: "ready".into(),
                count: 4,
                more: false,
                oldest_due_at: Some("2026-11-15T12:00:00.000Z".into()),
            }],
        };
        let text = text(&stats, "a running server");
        for part in [
            " retention             ledger 30d, payload 1d; 1 source with another: `oncebox retention`",
            "retention is FORCED",
            " duplicate rate        98.0 %",
            "3 (+2 in the last day)",
            "UNSAFE database: fsync is off",
            "UNSAFE source open",
            "retention is STOPPED: the clock jumped",
            "2 events held",
            "log is paused",
            "destination typo is not configured, and messages wait for it",
            "destination crm is out of reach: spared until 2026-11-15T12:00:00.000Z",
            "2 dead letters",
            " crm          dead   2",
            " log      ready  4           2026-11-15T12:00:00.000Z",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
    }
}
