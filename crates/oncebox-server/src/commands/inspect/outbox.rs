//! `oncebox outbox`: the messages that handlers wrote, newest first, or one of them with its attempts.

use std::process::ExitCode;

use anyhow::bail;

use crate::cli::action::OutboxArgs;
use crate::commands::inspect::events::seconds;
use crate::commands::inspect::list;
use crate::operator::Operator;
use crate::query::view::{MessageAttemptView, MessageDetailView, MessageView};
use crate::terminal;

/// Longer texts show only their ends.
const KEY_CHARS_MAX: usize = 60;
const ERROR_CHARS_MAX: usize = 80;
/// Of a body or an answer on a terminal; `--json` has it whole.
const BODY_CHARS_MAX: usize = 2000;
const NONE: &str = "no messages";

pub(crate) async fn run(args: &OutboxArgs) -> anyhow::Result<ExitCode> {
    if let Some(id) = &args.id {
        let Some(message) = Operator::open(&args.operator).await?.message(id).await? else {
            bail!("there is no message {id}")
        };
        return terminal::show(args.operator.json, &message, || one(&message));
    }
    list(&args.operator, ("outbox", args), table, NONE).await
}

/// Messages as a table, for this list and for the dead letters.
pub(crate) fn table(messages: &[MessageView]) -> String {
    let names = ["written", "destination", "state", "attempt", "status", "key", "id", "last error"];
    let row = |line: &MessageView| {
        [
            terminal::cell(seconds(&line.created_at)),
            terminal::cell(&line.destination),
            terminal::state(&line.state),
            terminal::cell(line.attempt.to_string()),
            terminal::cell(line.status.map(|status| status.to_string()).unwrap_or_default()),
            terminal::cell(terminal::shorten(&line.idempotency_key, KEY_CHARS_MAX)),
            terminal::cell(&line.id),
            terminal::cell(terminal::fitted(why(line), ERROR_CHARS_MAX)),
        ]
    };
    terminal::listed(names, messages.iter().map(row))
}

/// What keeps it from going out weighs more than what went wrong last.
fn why(line: &MessageView) -> &str {
    line.waits_because.as_deref().or(line.last_error.as_deref()).unwrap_or("")
}

fn one(detail: &MessageDetailView) -> String {
    let message = &detail.message;
    let mut lines = vec![format!("message {}", terminal::plain(&message.id))];
    let status = message.status.map(|status| status.to_string());
    for (name, value) in [
        ("state", Some(message.state.as_str())),
        ("to", Some(message.destination.as_str())),
        ("method", Some(detail.method.as_str())),
        ("path", Some(detail.path.as_str()).filter(|path| !path.is_empty())),
        ("key", Some(message.idempotency_key.as_str())),
        ("event", message.key.as_deref()),
        ("handler", message.handler.as_deref()),
        ("written", Some(message.created_at.as_str())),
        ("next try", message.next_attempt_at.as_deref()),
        ("sent", message.sent_at.as_deref()),
        ("status", status.as_deref()),
        ("waits", message.waits_because.as_deref()),
        ("last error", message.last_error.as_deref()),
        ("body", Some(detail.body.as_str())),
        ("answer", detail.answer.as_deref()),
    ] {
        if let Some(value) = value {
            // The lines of a body stand below each other.
            let value = terminal::plain_lines(&terminal::fitted(value, BODY_CHARS_MAX).replace("\r\n", "\n"));
            lines.push(format!("  {name:<11} {}", value.trim_end().replace('\n', "\n              ")));
        }
    }
    if !detail.attempts.is_empty() {
        let row = |attempt: &MessageAttemptView| {
            [
                terminal::cell(attempt.attempt.to_string()),
                terminal::cell(seconds(&attempt.ended_at)),
                terminal::state(&attempt.outcome),
                terminal::cell(attempt.status.map(|status| status.to_string()).unwrap_or_default()),
                terminal::cell(terminal::fitted(attempt.error.as_deref().unwrap_or(""), ERROR_CHARS_MAX)),
            ]
        };
        let names = ["attempt", "ended", "outcome", "status", "error"];
        let table = terminal::listed(names, detail.attempts.iter().map(row));
        lines.push(format!("\nAttempts that were not taken\n{table}"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::view::Items;

    fn message() -> MessageView {
        MessageView {
            id: "i".into(),
            destination: "crm".into(),
            idempotency_key: "d/crm/notify".into(),
            state: "dead".into(),
            attempt: 3,
            created_at: "2026-11-15T12:00:00.123Z".into(),
            sent_at: None,
            next_attempt_at: None,
            status: Some(400),
            last_error: Some("answered 400\nBad Request".into()),
            waits_because: None,
            key: None,
            handler: None,
            step: None,
        }
    }

    #[test]
    fn the_lines_of_a_body_stand_below_each_other() {
        let detail = MessageDetailView {
            message: message(),
            method: "POST".into(),
            path: String::new(),
            headers: Vec::new(),
            body: "{\r\n  \"name\": \"Ada\u{1b}\"\n}\n".into(),
            order_key: None,
            answer: None,
            attempts: Vec::new(),
        };
        let text = one(&detail);
        let body = "  body        {\n                \"name\": \"Ada\u{fffd}\"\n              }";
        assert!(text.ends_with(body), "{text}");
    }

    #[test]
    fn the_table_says_where_to_and_why_not() {
        let line = message();
        let page = Items { items: vec![line], next_cursor: Some("c".into()), searched_until: None };
        let text = page.told(table, NONE);
        let row: Vec<&str> = text.lines().nth(1).map(|line| line.split_whitespace().collect()).unwrap_or_default();
        let expected = "2026-11-15T12:00:00Z crm dead 3 400 d/crm/notify i answered 400\u{fffd}Bad Request";
        assert_eq!(row.join(" "), expected);
        assert!(text.ends_with("add --cursor c"));
        assert_eq!(Items::whole(Vec::new()).told(table, NONE), "no messages");
    }
}
