//! `oncebox reconcile`: the events marked done whose effect is missing, and on request another run of them.
//!
//! It works on the database itself, beside a running server: a server takes no SQL from outside.

use std::process::ExitCode;

use jiff::Timestamp;
use oncebox::clock::{Clock, UnixMillis};
use oncebox::store::DoneFilter;
use serde::Serialize;

use super::act::name_of_caller;
use super::events::seconds;
use super::unless_refused;
use crate::cli::action::ReconcileArgs;
use crate::cli::values::When;
use crate::operator::{database_of, refuse};
use crate::query::actions::new_id;
use crate::query::names;
use crate::query::reconcile::{self, Comparison};
use crate::terminal;
use crate::view::MissingView;

/// More lines than this are counted and not printed; `--json` has all of them.
const LINES_MAX: usize = 100;

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report {
    compared: usize,
    missing: usize,
    items: Vec<MissingView>,
    requeued: Option<i64>,
    action_id: Option<String>,
    repeated: bool,
}

/// Runs the command.
pub(crate) async fn run(args: &ReconcileArgs) -> anyhow::Result<ExitCode> {
    let (store, configured) = database_of(&args.operator).await?;
    let names = names::check(&store, configured.as_ref(), Some(&args.source), args.handler.as_deref());
    names.await.map_err(refuse)?;
    let clock = Clock::system();
    let filter = DoneFilter {
        source: args.source.clone(),
        handler: args.handler.clone(),
        since: args.since.map(|when| point(when, clock.now())),
        until: args.until.map(|when| point(when, clock.now())),
    };
    let found = reconcile::compare(&store, &filter, &args.against).await.map_err(refuse)?;
    let mut report = report(&found);
    if !args.operator.json {
        terminal::print(text(&args.source, &found))?;
    }
    if args.requeue && (found.missing.is_empty() || args.yes || agreed(&found)?) {
        let id = args.action_id.clone().unwrap_or_else(|| new_id(&clock));
        let who = format!("{} by reconcile", name_of_caller());
        let requeued = reconcile::requeue(&store, &clock, &args.source, &found.missing, (id.clone(), who)).await;
        let requeued = requeued.map_err(refuse).map_err(|error| {
            unless_refused(error, || "what was not put back in line is found again by the same command".to_owned())
        })?;
        if !args.operator.json {
            let before = if requeued.repeated { "already done: " } else { "" };
            let events = terminal::counted(requeued.count, "event");
            terminal::print(format!("{before}{events} put back in line (action {id})"))?;
        }
        (report.requeued, report.action_id) = (Some(requeued.count), Some(id));
        report.repeated = requeued.repeated;
    }
    if args.operator.json {
        terminal::print_json(&report)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `--requeue` is consent enough for a script; a person is asked once more.
fn agreed(found: &Comparison) -> anyhow::Result<bool> {
    let events = terminal::counted(i64::try_from(found.missing.len()).unwrap_or(i64::MAX), "event");
    Ok(terminal::agrees(&format!("run {events} again?"))?.unwrap_or(true))
}

fn report(found: &Comparison) -> Report {
    Report {
        compared: found.compared,
        missing: found.missing.len(),
        items: found.missing.iter().map(Into::into).collect(),
        requeued: None,
        action_id: None,
        repeated: false,
    }
}

fn text(source: &str, found: &Comparison) -> String {
    let (compared, known, missing) = (found.compared, found.known, found.missing.len());
    let head = format!(
        "{compared} {} of {} done, the query knows {}, {missing} {} missing",
        if compared == 1 { "delivery" } else { "deliveries" },
        format_args!("{} {}", terminal::plain(source), if compared == 1 { "is" } else { "are" }),
        terminal::counted(i64::try_from(known).unwrap_or(i64::MAX), "id"),
        if missing == 1 { "is" } else { "are" },
    );
    if missing == 0 {
        return head;
    }
    let mut table = terminal::table(&["done", "handler", "type", "event id", "key"]);
    for one in found.missing.iter().take(LINES_MAX).map(MissingView::from) {
        table.add_row([
            terminal::cell(one.finished_at.as_deref().map(seconds).unwrap_or_default()),
            terminal::cell(&one.handler),
            terminal::cell(&one.r#type),
            terminal::cell(&one.event_id),
            terminal::cell(&one.key),
        ]);
    }
    let more =
        if missing > LINES_MAX { format!("\n({} more; --json has all)", missing - LINES_MAX) } else { String::new() };
    format!("{head}\n{}{more}", table.trim_fmt())
}

fn point(when: When, now: UnixMillis) -> UnixMillis {
    match when {
        When::Ago(age) => now.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX)),
        When::At(time) => Timestamp::as_millisecond(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_in_words() {
        let check = |compared, known, expected: &str| {
            let found = Comparison { compared, known, missing: Vec::new() };
            assert_eq!(text("stripe", &found), expected);
        };
        check(1, 1, "1 delivery of stripe is done, the query knows 1 id, 0 are missing");
        check(6, 4, "6 deliveries of stripe are done, the query knows 4 ids, 0 are missing");
    }
}
