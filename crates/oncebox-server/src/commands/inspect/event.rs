//! `oncebox event`: one event with everything that belongs to it.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use crate::cli::operator::EventArgs;
use crate::commands::inspect::{events, outbox};
use crate::operator::Operator;
use crate::query::view::{DeliveryView, EventDetailView, EventView, PayloadView, millis};
use crate::terminal;

/// A body longer than this is cut; `--raw` has all of it.
const BODY_CHARS_MAX: usize = 4096;

pub(crate) async fn run(args: &EventArgs) -> anyhow::Result<ExitCode> {
    let operator = Operator::open(&args.operator).await?;
    let Some(detail) = operator.event(&args.key).await? else {
        bail!("there is no event {}; see `oncebox events`", terminal::plain(&args.key));
    };
    if args.raw {
        return print_raw(&detail);
    }
    let body = if io::stdout().is_terminal() { Body::Pretty } else { Body::AsItIs };
    terminal::show(args.operator.json, &detail, || text(&detail, body))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Pretty,
    AsItIs,
}

fn print_raw(detail: &EventDetailView) -> anyhow::Result<ExitCode> {
    let Some(payload) = &detail.payload else { bail!("the bytes of this event are removed: {}", gone(detail)) };
    let bytes = match (&payload.body, &payload.body_base64) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(text)) => data_encoding::BASE64.decode(text.as_bytes()).context("the body cannot be read")?,
        (None, None) => Vec::new(),
    };
    let mut out = io::stdout().lock();
    out.write_all(&bytes)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn text(detail: &EventDetailView, body: Body) -> String {
    let event = &detail.event;
    let mut sections = vec![facts(event), arrivals(detail), deliveries(detail)];
    sections.extend(attempts(detail));
    if !detail.messages.is_empty() {
        sections.push(format!("Messages\n{}", outbox::table(&detail.messages)));
    }
    sections.extend(advice(detail));
    if !detail.namesakes.is_empty() {
        sections.push(format!("Other events with this id\n{}", events::table(&detail.namesakes)));
    }
    sections.push(match &detail.payload {
        Some(payload) => payload_text(event, payload, body),
        None => format!("Payload\n removed: {}", gone(detail)),
    });
    sections.join("\n\n")
}

/// Why there are no bytes.
fn gone(detail: &EventDetailView) -> String {
    let is_ahead = |time: &str| millis(time).is_some_and(|time| time > oncebox::Clock::system().now());
    match &detail.payload_kept_until {
        Some(until) if is_ahead(until) => "a person erased them; see `oncebox actions`".to_owned(),
        Some(until) => format!("they were kept until {until}; the event cannot run again"),
        None => "they are no longer kept; the event cannot run again".to_owned(),
    }
}

fn facts(event: &EventView) -> String {
    let mut table = terminal::table(&[]);
    let facts = [
        ("event", Some(format!("{}/{}", event.source, event.event_id))),
        ("key", Some(event.key.clone())),
        ("type", Some(event.r#type.clone())),
        ("identity", Some(identity(event))),
        ("body", Some(format!("sha256 {}", event.body_sha256))),
        ("reason", event.reason.as_deref().map(|reason| reason_text(reason).to_owned())),
        ("original", event.original.clone()),
    ];
    for (name, value) in facts.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        table.add_row([name, &value].map(terminal::cell));
    }
    table.add_row([terminal::cell("state"), terminal::state(&event.state)]).trim_fmt()
}

/// What made the requests one event, and how many there were.
fn identity(event: &EventView) -> String {
    let made_of = match event.identity.as_str() {
        "id" => "source + id",
        "id+body" => "source + id + body (the id is outside the signature)",
        "body" => "source + body (there is no id to go by)",
        "arrival" => "none: every arrival is an event of its own",
        other => other,
    };
    let again = event.arrivals - 1;
    let duplicates = match again {
        0 => "no duplicates".to_owned(),
        1 => "1 of them a duplicate".to_owned(),
        many => format!("{many} of them duplicates"),
    };
    format!("{made_of}; {}, {duplicates}", terminal::counted(event.arrivals, "arrival"))
}

fn reason_text(reason: &str) -> &str {
    match reason {
        "no_id" => "no_id: the id is not where the provider puts it",
        "unusable_id" => "unusable_id: the id is there but cannot be used",
        "ambiguous_id" => "ambiguous_id: the id stands more than once",
        "unreadable" => "unreadable: the body cannot be read",
        "stale" => "stale: it happened before the ledger's memory begins, so nobody can tell whether it is new",
        "repeated_body" => "repeated_body: the same bytes came before under another id",
        "repeated_delivery" => "repeated_delivery: what was signed for one delivery came again with another event",
        "repeated_topic" => "repeated_topic: the same bytes came before under another type that nobody signed",
        other => other,
    }
}

fn arrivals(detail: &EventDetailView) -> String {
    let event = &detail.event;
    let from = detail.payload.as_ref().map_or("", |payload| payload.remote.as_str());
    let mut table = terminal::table(&[]);
    table.add_row(["first", &event.received_at, from].map(terminal::cell));
    for (index, arrival) in detail.recent_arrivals.iter().enumerate() {
        let name = if index == 0 { "last" } else { "" };
        table.add_row([name, &arrival.at, &arrival.remote].map(terminal::cell));
    }
    let shown = i64::try_from(detail.recent_arrivals.len()).unwrap_or(i64::MAX).saturating_add(1);
    let hidden = event.arrivals.saturating_sub(shown);
    let more = if hidden > 0 { format!("\n ({hidden} more in between)") } else { String::new() };
    format!("Arrivals\n{}{more}", table.trim_fmt())
}

fn deliveries(detail: &EventDetailView) -> String {
    if detail.deliveries.is_empty() {
        return "Deliveries\n none".to_owned();
    }
    let row = |one: &DeliveryView| {
        [
            terminal::cell(&one.handler),
            terminal::state(&one.state),
            terminal::cell(one.attempt.to_string()),
            terminal::maybe(one.next_attempt_at.as_deref()),
            terminal::maybe(one.finished_at.as_deref()),
            terminal::maybe(one.last_error.as_deref()),
        ]
    };
    let names = ["handler", "state", "attempt", "next attempt", "finished", "last error"];
    format!("Deliveries\n{}", terminal::listed(names, detail.deliveries.iter().map(row)))
}

/// What a person can do about a delivery that stopped.
fn advice(detail: &EventDetailView) -> Option<String> {
    let (key, has) = (&detail.event.key, |state| detail.deliveries.iter().any(|one| one.state == state));
    if has("held") || detail.event.state == "held" {
        return Some(format!("Run it with `oncebox release {key}`, or drop it with `oncebox discard {key}`"));
    }
    has("dead").then(|| format!("Try again with `oncebox replay {key}`, or drop it with `oncebox discard {key}`"))
}

/// What happened, in the order it did. The attempt by which a delivery is done now is the delivery itself.
fn attempts(detail: &EventDetailView) -> Option<String> {
    let ended = detail.attempts.iter().map(|one| {
        let status = one.status.map(|status| status.to_string()).unwrap_or_default();
        (one.ended_at.as_str(), one.handler.as_str(), one.attempt, one.outcome.as_str(), status, one.error.as_deref())
    });
    let done = detail.deliveries.iter().filter(|one| one.state == "done").filter_map(|one| {
        Some((one.finished_at.as_deref()?, one.handler.as_str(), one.attempt, "done", String::new(), None))
    });
    let mut lines: Vec<_> = ended.chain(done).collect();
    if lines.is_empty() {
        return None;
    }
    lines.sort();
    let rows = lines.into_iter().map(|(at, handler, attempt, outcome, status, error)| {
        let attempt = attempt.to_string();
        let [at, handler, attempt, status] = [at, handler, &attempt, &status].map(terminal::cell);
        [at, handler, attempt, terminal::state(outcome), status, terminal::maybe(error)]
    });
    let table = terminal::listed(["ended", "handler", "attempt", "outcome", "status", "error"], rows);
    Some(format!("Attempts\n{table}"))
}

fn payload_text(event: &EventView, payload: &PayloadView, body: Body) -> String {
    let mut text = "Payload\n".to_owned();
    for (name, value) in &payload.headers {
        let _ = writeln!(text, " {}: {}", terminal::plain(name), terminal::plain(value));
    }
    let Some(whole) = &payload.body else {
        let _ = write!(text, "\n {} bytes that are no text; see them with: {}", payload.body_bytes, raw(event));
        return text;
    };
    let pretty = match body {
        Body::Pretty => pretty(whole),
        Body::AsItIs => None,
    };
    let whole = pretty.as_deref().unwrap_or(whole);
    let _ = write!(text, "\n{}", terminal::plain_lines(&whole.chars().take(BODY_CHARS_MAX).collect::<String>()));
    if whole.chars().nth(BODY_CHARS_MAX).is_some() {
        let _ = write!(text, "…\n (cut; all {} bytes with: {})", payload.body_bytes, raw(event));
    }
    text
}

fn raw(event: &EventView) -> String {
    format!("oncebox event {} --raw", event.key)
}

/// Numbers and the order of names stay as they are, so that nothing is shown that was not sent.
fn pretty(text: &str) -> Option<String> {
    if text.len() > 4 * BODY_CHARS_MAX {
        return None;
    }
    let raw: &serde_json::value::RawValue = serde_json::from_str(text).ok()?;
    let mut out = String::new();
    indent(raw.get(), &mut out);
    Some(out)
}

/// Breaks valid JSON into lines without reading its values.
fn indent(json: &str, out: &mut String) {
    let (mut depth, mut quoted, mut escaped, mut previous) = (0usize, false, false, ' ');
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        (0..depth.min(64)).for_each(|_| out.push_str("  "));
    };
    for c in json.chars().filter(|c| !c.is_control()) {
        if quoted {
            out.push(c);
            quoted = c != '"' || escaped;
            escaped = c == '\\' && !escaped;
            previous = c;
            continue;
        }
        match c {
            ' ' => continue,
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if !matches!(previous, '{' | '[') {
                    line(out, depth);
                }
                out.push(c);
            }
            _ => {
                if matches!(previous, '{' | '[') {
                    line(out, depth);
                }
                out.push(c);
                match c {
                    '{' | '[' => depth += 1,
                    ',' => line(out, depth),
                    ':' => out.push(' '),
                    '"' => quoted = true,
                    _ => {}
                }
            }
        }
        previous = c;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_broken_into_lines_and_otherwise_left_alone() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(pretty(text).as_deref(), expected, "{text}");
        check(
            r#"{"b":1.50,"a":[1,{}],"s":"x, \"{y\""}"#,
            Some("{\n  \"b\": 1.50,\n  \"a\": [\n    1,\n    {}\n  ],\n  \"s\": \"x, \\\"{y\\\"\"\n}"),
        );
        check("{ }", Some("{}"));
        check("[]", Some("[]"));
        check("a=b", None);
        check("{", None);
    }
}
