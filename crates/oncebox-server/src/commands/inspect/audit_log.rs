//! `oncebox actions`: what operators did, newest first.

use std::process::ExitCode;

use crate::cli::action::ActionsArgs;
use crate::commands::inspect::events::seconds;
use crate::commands::inspect::list;
use crate::query::view::ActionView;
use crate::terminal::{self, Tone};

pub(crate) async fn run(args: &ActionsArgs) -> anyhow::Result<ExitCode> {
    list(&args.operator, ("actions", args), table, "nobody did anything yet").await
}

fn table(actions: &[ActionView]) -> String {
    let row = |action: &ActionView| {
        let ended = match &action.finished_at {
            Some(at) => terminal::cell(seconds(at)),
            None => terminal::toned("under way or cut off", Some(Tone::Warning)),
        };
        [
            terminal::cell(seconds(&action.started_at)),
            terminal::cell(&action.kind),
            terminal::cell(action.acted.to_string()),
            terminal::cell(&action.who),
            terminal::cell(filter(action)),
            ended,
            terminal::cell(&action.action_id),
        ]
    };
    terminal::listed(["began", "action", "acted", "who", "filter", "ended", "id"], actions.iter().map(row))
}

/// Only what was given, as `name=value`.
fn filter(action: &ActionView) -> String {
    action.about().iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_show_what_was_given() {
        let action = ActionView {
            action_id: "a".into(),
            kind: "replay".into(),
            filter: serde_json::json!({"source": "stripe", "type": null, "since": 1_763_208_000_000_i64}),
            who: "ada".into(),
            counted: None,
            acted: 0,
            started_at: String::new(),
            finished_at: None,
        };
        let text = filter(&action);
        assert!(text.contains("source=stripe") && text.contains("since=2025-11-15T12:00:00.000Z"), "{text}");
        assert!(!text.contains("type"), "{text}");
    }
}
