//! `oncebox erase`: count, ask, erase, and say how to go on if it was cut off.

use std::process::ExitCode;

use oncebox::Clock;

use crate::cli::database::EraseArgs;
use crate::commands::operate::actions::{carried_out, is_through};
use crate::operator::{Operator, name_of_caller};
use crate::query::actions::new_id;
use crate::query::erase::{EraseRequest, Erased, SubjectRequest};
use crate::terminal::{self, Progress, counted};
use crate::usage;

pub(crate) async fn run(args: &EraseArgs) -> anyhow::Result<ExitCode> {
    let operator = Operator::open(&args.operator).await?;
    let mut request =
        EraseRequest { filter: filter(args), dry_run: true, action_id: None, who: Some(name_of_caller()) };
    if !is_through(&operator, &args.care).await? {
        let found = operator.erase(&request).await?;
        if args.care.dry_run {
            return print(args, &found, &format!("{} would be erased", things(&found)));
        }
        // Under an id of the caller's own it may be one that was cut off after its last step.
        if found.count == 0 && args.care.action_id.is_none() {
            return print(args, &Erased { dry_run: false, ..found }, "there is nothing to erase");
        }
        if !args.care.yes && !agreed(&found)? {
            terminal::print("nothing was changed")?;
            return Ok(ExitCode::FAILURE);
        }
        request.action_id = Some(args.care.action_id.clone().unwrap_or_else(|| new_id(&Clock::system())));
    } else {
        request.action_id.clone_from(&args.care.action_id);
    }
    request.dry_run = false;
    let erased = erase(&operator, &request).await?;
    let did = format!("{} erased (action {})", things(&erased), erased.action_id.as_deref().unwrap_or_default());
    print(args, &erased, &if erased.repeated { format!("already done: {did}") } else { did })
}

async fn erase(operator: &Operator, request: &EraseRequest) -> anyhow::Result<Erased> {
    let id = request.action_id.clone().unwrap_or_default();
    let known = operator.action(&id).await?.and_then(|action| action.counted).unwrap_or(0);
    let bar = Progress::new(u64::try_from(known).unwrap_or(0), "erased");
    carried_out(operator, &id, bar, operator.erase(request)).await
}

fn filter(args: &EraseArgs) -> SubjectRequest {
    SubjectRequest {
        key: args.key.clone(),
        source: args.source.clone(),
        pointer: args.pointer.clone(),
        value: args.value.clone(),
        since: args.since.map(|when| when.to_string()),
        until: args.until.map(|when| when.to_string()),
    }
}

fn things(found: &Erased) -> String {
    let events = counted(found.count, "event");
    match found.waiting {
        Some(waiting) if waiting > 0 => format!("{events}, {waiting} of their deliveries and messages not done yet,"),
        _ => events,
    }
}

fn agreed(found: &Erased) -> anyhow::Result<bool> {
    let things = things(found);
    let refusal = format!("this would erase {things}; add --yes, or look first with --dry-run");
    usage::agreed(&format!("erase {things} for ever?"), refusal)
}

fn print(args: &EraseArgs, erased: &Erased, sentence: &str) -> anyhow::Result<ExitCode> {
    terminal::show(args.operator.json, erased, || sentence)
}
