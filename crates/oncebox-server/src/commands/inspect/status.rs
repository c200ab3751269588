//! `oncebox status`: the three numbers, the queues, and whatever a person should look at.

use std::process::ExitCode;

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
    sections.push(queues(stats));
    sections.extend(outbox(stats));
    sections.extend(health(stats));
    sections.push(sources(stats));
    sections.join("\n\n")
}

/// The three numbers people watch.
fn numbers(stats: &StatsView, from: &str) -> String {
    let mut table = terminal::table(&[]);
    let mut add = |name: &str, value: String| {
        table.add_row([terminal::cell(name), terminal::cell(value)]);
    };
    let first_try = stats.first_try_error_rate.map_or_else(|| "nothing was tried yet".to_owned(), percent);
    add("first-try error rate", first_try);
    add("duplicate rate", percent(stats.duplicate_rate));
    let at_least = |is_least: bool| if is_least { "at least " } else { "" };
    let (rows, change) = (stats.ledger_rows, stats.ledger_rows_daily_change);
    let least = (at_least(stats.ledger_rows_is_least), at_least(stats.ledger_rows_daily_change_is_least));
    add("ledger rows", format!("{}{rows} ({}{change:+} in the last day)", least.0, least.1));
    add("store", format!("{} (from {from})", stats.store));
    if let Some(usual) = stats.retention.iter().find(|one| one.source.is_none()) {
        let differs = |one: &&WindowView| (&one.ledger, &one.payload) != (&usual.ledger, &usual.payload);
        let own = stats.retention.iter().filter(differs).count();
        let others = terminal::counted(own as u64, "source");
        let others = if own == 0 { String::new() } else { format!("; {others} with another: `oncebox retention`") };
        add("retention", format!("ledger {}, payload {}{others}", usual.ledger, usual.payload));
    }
    table.trim_fmt()
}

fn dangers(stats: &StatsView) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(danger) = &stats.unsafe_because {
        let line = format!("UNSAFE database: {}; acknowledged events may be lost", terminal::plain(danger));
        lines.push(terminal::paint(&line, Tone::Bad));
    }
    if let Some(why) = &stats.retention_stopped {
        let line = format!("retention is STOPPED: {}; see `oncebox retention`", terminal::plain(why));
        lines.push(terminal::paint(&line, Tone::Bad));
    }
    if stats.retention_forced {
        let line =
            "retention is FORCED: the ledger may forget an event that its sender still repeats, which then runs again";
        lines.push(terminal::paint(line, Tone::Bad));
    }
    for source in &stats.unverified_sources {
        let line = format!("UNSAFE source {}: nobody verifies who sends", terminal::plain(source));
        lines.push(terminal::paint(&line, Tone::Bad));
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
            lines.push(terminal::paint(&format!("{} {sentence}", terminal::counted(count, "event")), Tone::Warning));
        }
    }
    let dead: i64 = stats.handlers.iter().filter(|one| one.state == "dead").map(|one| one.count).sum();
    let dead = dead + stats.outbox.iter().filter(|one| one.state == "dead").map(|one| one.count).sum::<i64>();
    if dead > 0 {
        let line =
            format!("{}: see `oncebox dead-letters`, then `oncebox replay`", terminal::counted(dead, "dead letter"));
        lines.push(terminal::paint(&line, Tone::Bad));
    }
    lines.extend(stats.destinations.iter().filter_map(destination));
    for one in stats.handler_health.iter().filter(|one| one.paused) {
        let name = terminal::plain(&one.handler);
        let line = format!("{name} is paused: its events wait; `oncebox resume {name}`");
        lines.push(terminal::paint(&line, Tone::Warning));
    }
    lines
}

/// What keeps the messages of a destination from going out.
fn destination(one: &DestinationStats) -> Option<String> {
    let name = terminal::plain(&one.destination);
    let line = match &one.spared_until {
        _ if !one.is_configured => format!(
            "destination {name} is not configured, and messages wait for it: add it, or `oncebox discard --destination \
             {name}`"
        ),
        Some(until) => format!("destination {name} is out of reach: spared until {}", terminal::plain(until)),
        None => return None,
    };
    Some(terminal::paint(&line, Tone::Warning))
}

fn queues(stats: &StatsView) -> String {
    if stats.handlers.is_empty() {
        return "Deliveries\n none".to_owned();
    }
    let mut table = terminal::table(&["handler", "state", "deliveries", "oldest due"]);
    for one in &stats.handlers {
        let oldest = one.oldest_due_at.as_deref().filter(|_| is_waiting(&one.state)).unwrap_or("");
        table.add_row([
            terminal::cell(&one.handler),
            terminal::toned(&one.state, Tone::of_state(&one.state)),
            terminal::cell(one.count.to_string()),
            terminal::cell(oldest),
        ]);
    }
    format!("Deliveries\n{}", table.trim_fmt())
}

/// How first attempts went, for handlers that made any.
fn health(stats: &StatsView) -> Option<String> {
    let mut table = terminal::table(&["handler", "first tries", "failed", "error rate"]);
    let tried = stats.handler_health.iter().filter_map(|one| Some((one, one.first_try_error_rate?)));
    for (one, rate) in tried {
        table.add_row([
            terminal::cell(&one.handler),
            terminal::cell(one.first_tries.to_string()),
            terminal::cell(one.first_tries_failed.to_string()),
            terminal::cell(percent(rate)),
        ]);
    }
    (table.row_count() > 0).then(|| format!("First tries\n{}", table.trim_fmt()))
}

/// What handlers want sent, where anybody ever wanted that.
fn outbox(stats: &StatsView) -> Option<String> {
    let mut table = terminal::table(&["destination", "state", "messages"]);
    for one in &stats.outbox {
        table.add_row([
            terminal::cell(&one.destination),
            terminal::toned(&one.state, Tone::of_state(&one.state)),
            terminal::cell(one.count.to_string()),
        ]);
    }
    (table.row_count() > 0).then(|| format!("Outbox\n{}", table.trim_fmt()))
}

fn is_waiting(state: &str) -> bool {
    matches!(state, "ready" | "claimed")
}

fn sources(stats: &StatsView) -> String {
    if stats.sources.is_empty() {
        return "Events\n none".to_owned();
    }
    let mut table = terminal::table(&["source", "state", "events", "arrivals"]);
    for one in &stats.sources {
        table.add_row([
            terminal::cell(&one.source),
            terminal::toned(&one.state, Tone::of_state(&one.state)),
            terminal::cell(one.events.to_string()),
            terminal::cell(one.arrivals.to_string()),
        ]);
    }
    format!("Events\n{}", table.trim_fmt())
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
