//! `oncebox tail`: follows what arrives until it is stopped.

use std::process::ExitCode;

use crate::cli::action::TailArgs;
use crate::commands::inspect::events::seconds;
use crate::operator::Operator;
use crate::query::tail::TailQuery;
use crate::query::view::EventView;
use crate::terminal::{self, Tone};

pub(crate) async fn run(args: &TailArgs) -> anyhow::Result<ExitCode> {
    let query = TailQuery {
        source: args.source.clone(),
        r#type: args.event_type.clone(),
        state: args.state.clone(),
        after: None,
    };
    let mut watch = Operator::open(&args.operator).await?.tail(query).await?;
    eprintln!("waiting for events; stop with Ctrl-C");
    loop {
        for event in watch.next().await? {
            terminal::print(if args.operator.json { serde_json::to_string(&event)? } else { line(&event) })?;
        }
    }
}

fn line(event: &EventView) -> String {
    let state = match Tone::of_state(&event.state) {
        Some(tone) => terminal::paint(&event.state, tone),
        None => event.state.clone(),
    };
    let rest = [&event.source, &event.r#type, &event.event_id, &event.key].map(|text| terminal::plain(text));
    format!("{}  {state}  {}", seconds(&event.received_at), rest.join("  "))
}
