//! `oncebox reconcile`: the events marked done whose effect is missing, and on request another run of them.
//!
//! It works on the database itself, beside a running server: a server takes no SQL from outside.

use std::io;
use std::process::ExitCode;

use anyhow::Context as _;
use jiff::Timestamp;
use oncebox::Clock;
use oncebox::gateway::store::{DoneFilter, Store};
use serde::Serialize;

use crate::cli::reconcile::ReconcileArgs;
use crate::commands::inspect::events::seconds;
use crate::operator::{database_of, name_of_caller, refuse};
use crate::query::actions::new_id;
use crate::query::names;
use crate::query::reconcile::{self, Comparison, Known, Requeued};
use crate::query::view::MissingView;
use crate::terminal;
use crate::usage::{self, unless_refused, wrong_usage};

/// More lines than this are counted and not printed; `--json` has all of them.
const LINES_MAX: usize = 100;

/// What `--json` prints.
#[derive(Debug, Default, Serialize)]
struct Report {
    compared: usize,
    missing: usize,
    items: Vec<MissingView>,
    requeued: Option<i64>,
    action_id: Option<String>,
    repeated: bool,
}

pub(crate) async fn run(args: &ReconcileArgs) -> anyhow::Result<ExitCode> {
    let clock = Clock::system();
    let known = known(args, &clock)?;
    let (store, configured) = database_of(&args.operator).await?;
    let names = names::check(&store, configured.as_ref(), Some(&args.source), args.handler.as_deref());
    names.await.map_err(|error| refuse(&error))?;
    let filter = DoneFilter {
        source: args.source.clone(),
        handler: args.handler.clone(),
        since: args.since.map(|when| when.moment(clock.now())),
        until: args.until.map(|when| when.moment(clock.now())),
    };
    let found = reconcile::compare(&store, &filter, known).await.map_err(|error| refuse(&error))?;
    let items: Vec<MissingView> = found.missing.iter().map(Into::into).collect();
    let mut report = Report { compared: found.compared, missing: items.len(), items, ..Report::default() };
    if !args.operator.json {
        let knows = if args.ids.is_some() { "list" } else { "query" };
        terminal::print(head_and_table(&args.source, knows, &found))?;
    }
    if found.known == 0 && found.compared > 0 {
        terminal::note("warning: there is not one id to compare with, so that everything looks missing");
    }
    let mut left = i64::try_from(found.missing.len()).unwrap_or(i64::MAX);
    if args.requeue && (left == 0 || may_requeue(&store, args, &found).await?) {
        let id = args.action_id.clone().unwrap_or_else(|| new_id(&clock));
        let who = format!("{} by reconcile", name_of_caller());
        let requeued = reconcile::requeue(&store, &clock, &args.source, &found.missing, (id.clone(), who)).await;
        let requeued = requeued.map_err(|error| refuse(&error)).map_err(|error| {
            unless_refused(error, || "what was not put back in line is found again by the same command".to_owned())
        })?;
        if !args.operator.json {
            terminal::print(told(&requeued, &id))?;
        }
        left = requeued.left;
        (report.requeued, report.action_id) = (Some(requeued.count), Some(id));
        report.repeated = requeued.repeated;
    }
    if args.operator.json {
        terminal::print_json(&report)?;
    }
    Ok(if left == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where the ids come from. A list is as old as its file; one that is piped in is no younger than this command.
fn known(args: &ReconcileArgs, clock: &Clock) -> anyhow::Result<Known> {
    let Some(path) = &args.ids else { return Ok(Known::Query(args.against.clone().unwrap_or_default())) };
    let now = clock.now();
    let (text, made_at) = if path.as_os_str() == "-" {
        (io::read_to_string(io::stdin()).context("cannot read the ids from standard input")?, now)
    } else {
        let read = || format!("cannot read the ids from {}", path.display());
        let written = std::fs::metadata(path).and_then(|file| file.modified()).with_context(read)?;
        let written = Timestamp::try_from(written).map_or(now, Timestamp::as_millisecond);
        (std::fs::read_to_string(path).with_context(read)?, written)
    };
    // Not trimmed: an id is compared as it is.
    let ids = text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    Ok(Known::List(ids, made_at))
}

/// True where a person agreed, or the action is through and nothing would happen. What is done runs again, so nobody may
/// be taken to agree; and where not one id is known, a query that went wrong is likelier than a loss of everything.
async fn may_requeue(store: &Store, args: &ReconcileArgs, found: &Comparison) -> anyhow::Result<bool> {
    if args.yes {
        return Ok(true);
    }
    if let Some(id) = &args.action_id
        && store.action(id).await?.is_some_and(|action| action.finished_at.is_some())
    {
        return Ok(true);
    }
    let events = terminal::counted(i64::try_from(found.missing.len()).unwrap_or(i64::MAX), "event");
    if found.known == 0 {
        return Err(wrong_usage(format!("this would run {events} again, all there are; if that is meant, add --yes")));
    }
    let refusal = format!("this would run {events} again; add --yes, or look first without --requeue");
    usage::agreed(&format!("run {events} again?"), refusal)
}

fn told(requeued: &Requeued, id: &str) -> String {
    let before = if requeued.repeated { "already done: " } else { "" };
    let events = terminal::counted(requeued.count, "event");
    let left = match requeued.left {
        left if left > 0 && !requeued.repeated => format!("; {left} cannot run again: their payload is no longer kept"),
        _ => String::new(),
    };
    format!("{before}{events} put back in line (action {id}){left}")
}

fn head_and_table(source: &str, knows: &str, found: &Comparison) -> String {
    let (compared, known, missing) = (found.compared, found.known, found.missing.len());
    let head = format!(
        "{compared} {} of {} done, the {knows} knows {}, {missing} {} missing",
        if compared == 1 { "delivery" } else { "deliveries" },
        format_args!("{} {}", terminal::plain(source), if compared == 1 { "is" } else { "are" }),
        terminal::counted(i64::try_from(known).unwrap_or(i64::MAX), "id"),
        if missing == 1 { "is" } else { "are" },
    );
    if missing == 0 {
        return head;
    }
    let rows = found.missing.iter().take(LINES_MAX).map(MissingView::from).map(|one| {
        let done = one.finished_at.as_deref().map(seconds).unwrap_or_default();
        [done, one.handler, one.r#type, one.event_id, one.key].map(terminal::cell)
    });
    let table = terminal::listed(["done", "handler", "type", "event id", "key"], rows);
    let more =
        if missing > LINES_MAX { format!("\n({} more; --json has all)", missing - LINES_MAX) } else { String::new() };
    format!("{head}\n{table}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_in_words() {
        let check = |compared, known, expected: &str| {
            let found = Comparison { compared, known, missing: Vec::new() };
            assert_eq!(head_and_table("stripe", "query", &found), expected);
        };
        check(1, 1, "1 delivery of stripe is done, the query knows 1 id, 0 are missing");
        check(6, 4, "6 deliveries of stripe are done, the query knows 4 ids, 0 are missing");
    }
}
