//! `oncebox retention`: what is kept for how long, what went, and removing now what is over.

use std::process::ExitCode;

use crate::cli::operator::OperatorArgs;
use crate::cli::retention::{RetentionArgs, RetentionVerb};
use crate::commands::operate::actions::follow;
use crate::operator::Operator;
use crate::query::retention::{RetentionView, RunView};
use crate::terminal::{self, Progress, Tone};

pub(crate) async fn run(args: &RetentionArgs) -> anyhow::Result<ExitCode> {
    match &args.verb {
        None => show(&args.operator).await,
        Some(RetentionVerb::Run { operator }) => run_now(operator).await,
        Some(RetentionVerb::Confirm { operator }) => confirm(operator).await,
    }
}

async fn show(args: &OperatorArgs) -> anyhow::Result<ExitCode> {
    let view = Operator::open(args).await?.retention().await?;
    terminal::show(args.json, &view, || text(&view))
}

async fn run_now(args: &OperatorArgs) -> anyhow::Result<ExitCode> {
    let operator = Operator::open(args).await?;
    let bar = Progress::new(1000, "thousandths");
    let run = tokio::select! {
        run = operator.run_retention() => run?,
        never = follow(bar, async || operator.retention().await.ok()?.progress) => match never {},
    };
    terminal::show(args.json, &run, || sentence(&run))
}

async fn confirm(args: &OperatorArgs) -> anyhow::Result<ExitCode> {
    let confirmed = Operator::open(args).await?.confirm_time().await?;
    let sentence = if confirmed { "confirmed: what is over goes with the next run" } else { "nothing was stopped" };
    terminal::show(args.json, &serde_json::json!({ "confirmed": confirmed }), || sentence)
}

fn text(view: &RetentionView) -> String {
    let mut sections = Vec::new();
    if let (Some(at), Some(why)) = (&view.stopped_at, &view.stopped_because) {
        let line = format!(
            "STOPPED since {at}: {}; nothing is removed. If the time is right now: `oncebox retention confirm`",
            terminal::plain(why)
        );
        sections.push(terminal::paint(&line, Tone::Bad));
    }
    let schedule = view.schedule.as_deref().unwrap_or("as the server's config says; no server was asked");
    let next = view.next_run_at.as_ref().map(|at| format!(", next {at}")).unwrap_or_default();
    sections.push(format!("Runs {schedule}{next}"));
    let rows = view.windows.iter().map(|one| {
        let source = one.source.as_deref().unwrap_or("(any other)");
        [source, &one.ledger, &one.payload].map(terminal::cell)
    });
    sections.push(format!("Kept for\n{}", terminal::listed(["source", "ledger", "payload"], rows)));
    let runs: Vec<String> = view.runs.iter().map(|run| format!(" {}  {}", run.started_at, sentence(run))).collect();
    let runs = if runs.is_empty() { " none yet".to_owned() } else { runs.join("\n") };
    sections.push(format!("Latest runs\n{runs}"));
    sections.join("\n\n")
}

fn sentence(run: &RunView) -> String {
    let removed: Vec<String> = run.removed.iter().map(|(table, rows)| format!("{rows} {table}")).collect();
    let removed =
        if removed.is_empty() { "nothing was over".to_owned() } else { format!("removed {}", removed.join(", ")) };
    let kept = match run.kept {
        0 => String::new(),
        kept => format!("; {} over but needed (dead, held or not ended)", terminal::counted(kept, "payload")),
    };
    let cut = if run.finished_at.is_none() { "; cut off, the next run goes on" } else { "" };
    format!("{removed}{kept}{cut}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::retention::WindowView;

    #[test]
    fn a_stop_stands_in_words() {
        let run = RunView {
            started_at: "2026-11-16T03:00:00.000Z".into(),
            finished_at: Some("2026-11-16T03:00:09.000Z".into()),
            removed: [("payloads".to_owned(), 12)].into(),
            kept: 1,
        };
        let view = RetentionView {
            windows: vec![WindowView { source: None, ledger: "30d".into(), payload: "14d".into() }],
            schedule: Some("daily at 03:00 UTC".into()),
            next_run_at: None,
            stopped_at: Some("2026-11-16T08:00:00.000Z".into()),
            stopped_because: Some("this node's clock jumped forward by 24 hours".into()),
            progress: None,
            runs: vec![run],
        };
        let text = text(&view);
        for part in [
            "STOPPED since 2026-11-16T08:00:00.000Z: this node's clock jumped forward by 24 hours",
            "Runs daily at 03:00 UTC",
            "(any other)  30d     14d",
            "removed 12 payloads; 1 payload over but needed",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
    }
}
