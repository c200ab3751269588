//! `oncebox dead-letters`: the deliveries and messages that gave up, newest first.

use std::process::ExitCode;

use crate::cli::action::ListArgs;
use crate::commands::inspect::events::seconds;
use crate::commands::inspect::list;
use crate::query::view::{DeadLetterView, DeliveryLineView, MessageView};
use crate::terminal;

/// Longer texts show only their ends.
const TEXT_CHARS_MAX: usize = 36;
/// What a terminal's line has room for beside the rest; elsewhere an error is never cut.
const ERROR_CHARS_MAX: usize = 200;
const NONE: &str = "no dead letters";

pub(crate) async fn run(args: &ListArgs) -> anyhow::Result<ExitCode> {
    list(&args.operator, ("dead-letters", args), sections, NONE).await
}

fn sections(letters: &[DeadLetterView]) -> String {
    let (mut deliveries, mut messages): (Vec<&DeliveryLineView>, Vec<MessageView>) = Default::default();
    for letter in letters {
        match letter {
            DeadLetterView::Delivery(line) => deliveries.push(line),
            DeadLetterView::Message(line) => messages.push(line.clone()),
        }
    }
    let mut sections = Vec::new();
    if !deliveries.is_empty() {
        sections.push(table(&deliveries));
    }
    if !messages.is_empty() {
        sections.push(format!("Messages\n{}", crate::commands::inspect::outbox::table(&messages)));
    }
    sections.join("\n")
}

fn table(lines: &[&DeliveryLineView]) -> String {
    let names = ["gave up", "source", "type", "event id", "handler", "attempt", "key", "last error"];
    let row = |line: &&DeliveryLineView| {
        [
            terminal::cell(line.finished_at.as_deref().map(seconds).unwrap_or_default()),
            terminal::cell(&line.source),
            terminal::cell(terminal::shorten(&line.r#type, TEXT_CHARS_MAX)),
            terminal::cell(terminal::shorten(&line.event_id, TEXT_CHARS_MAX)),
            terminal::cell(&line.handler),
            terminal::cell(line.attempt.to_string()),
            terminal::cell(&line.key),
            terminal::cell(terminal::fitted(line.last_error.as_deref().unwrap_or(""), ERROR_CHARS_MAX)),
        ]
    };
    terminal::listed(names, lines.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::view::Items;

    #[test]
    fn the_table_says_what_gave_up_and_why() {
        let line = DeliveryLineView {
            delivery: "d".into(),
            key: "k".into(),
            source: "stripe".into(),
            event_id: "evt_1".into(),
            r#type: "invoice.paid".into(),
            handler: "billing".into(),
            state: "dead".into(),
            attempt: 12,
            next_attempt_at: None,
            finished_at: Some("2026-11-15T12:00:00.123Z".into()),
            last_error: Some("connection\nrefused".into()),
        };
        let text = Items::whole(vec![DeadLetterView::Delivery(line)]).told(sections, NONE);
        let row: Vec<&str> = text.lines().nth(1).map(|line| line.split_whitespace().collect()).unwrap_or_default();
        let expected = "2026-11-15T12:00:00Z stripe invoice.paid evt_1 billing 12 k connection\u{fffd}refused";
        assert_eq!(row.join(" "), expected);
        assert_eq!(Items::whole(Vec::new()).told(sections, NONE), "no dead letters");
    }
}
