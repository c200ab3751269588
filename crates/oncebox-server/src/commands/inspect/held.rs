//! `oncebox held`: what waits for a person, newest first.

use std::process::ExitCode;

use crate::cli::action::HeldArgs;
use crate::commands::inspect::events::seconds;
use crate::commands::inspect::list;
use crate::query::view::EventView;
use crate::terminal;

/// Longer texts show only their ends.
const TEXT_CHARS_MAX: usize = 36;

pub(crate) async fn run(args: &HeldArgs) -> anyhow::Result<ExitCode> {
    list(&args.operator, ("held", args), table, "nothing is held").await
}

fn table(events: &[EventView]) -> String {
    let row = |event: &EventView| {
        // An accepted event is here because one of its deliveries is held.
        let reason = event.reason.as_deref().filter(|_| event.state == "held").unwrap_or("a delivery is held");
        [
            terminal::cell(seconds(&event.received_at)),
            terminal::cell(&event.source),
            terminal::cell(terminal::shorten(&event.r#type, TEXT_CHARS_MAX)),
            terminal::cell(terminal::shorten(&event.event_id, TEXT_CHARS_MAX)),
            terminal::cell(reason),
            terminal::cell(&event.key),
        ]
    };
    terminal::listed(["received", "source", "type", "event id", "reason", "key"], events.iter().map(row))
}
