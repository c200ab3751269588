//! `oncebox events`: the stored events, newest first.

use std::process::ExitCode;

use crate::cli::operator::EventsArgs;
use crate::commands::inspect::list;
use crate::query::view::EventView;
use crate::terminal;

/// Ids longer than this show only their ends; the key finds the event anyway.
const ID_CHARS_MAX: usize = 36;
const NONE: &str = "no events";

pub(crate) async fn run(args: &EventsArgs) -> anyhow::Result<ExitCode> {
    list(&args.operator, ("events", args), table, NONE).await
}

/// One line per event, as `event` uses it too.
pub(crate) fn table(events: &[EventView]) -> String {
    let row = |event: &EventView| {
        [
            terminal::cell(seconds(&event.received_at)),
            terminal::cell(&event.source),
            terminal::cell(terminal::shorten(&event.r#type, ID_CHARS_MAX)),
            terminal::cell(terminal::shorten(&event.event_id, ID_CHARS_MAX)),
            terminal::state(&event.state),
            terminal::cell(event.arrivals.to_string()),
            terminal::cell(&event.key),
        ]
    };
    terminal::listed(["received", "source", "type", "event id", "state", "arrivals", "key"], events.iter().map(row))
}

/// A time without its fraction of a second, which would only widen the column.
pub(crate) fn seconds(time: &str) -> String {
    match time.split_once('.') {
        Some((whole, _)) => format!("{whole}Z"),
        None => time.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::view::Items;

    pub(super) fn event(event_id: &str, state: &str) -> EventView {
        EventView {
            source: "stripe".into(),
            event_id: event_id.into(),
            key: "019a8f3e-7c1d-7a33-8f0e-3b1f6f0c2d11".into(),
            r#type: "invoice.paid".into(),
            body_sha256: String::new(),
            state: state.into(),
            arrivals: 50,
            received_at: "2026-11-15T12:00:00.123Z".into(),
            last_arrival_at: "2026-11-15T12:00:01.000Z".into(),
            identity: "id".into(),
            reason: None,
            original: None,
        }
    }

    #[test]
    fn the_table_holds_what_finds_an_event() {
        let page = Items {
            items: vec![event("evt_1\u{1b}", "accepted")],
            next_cursor: Some("c".into()),
            searched_until: None,
        };
        let text = page.told(table, NONE);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1].split_whitespace().collect::<Vec<_>>(),
            [
                "2026-11-15T12:00:00Z",
                "stripe",
                "invoice.paid",
                "evt_1\u{fffd}",
                "accepted",
                "50",
                "019a8f3e-7c1d-7a33-8f0e-3b1f6f0c2d11"
            ]
        );
        assert_eq!(lines[2], "there are more: add --cursor c");
        assert_eq!(Items::whole(Vec::new()).told(table, NONE), "no events");
    }
}
