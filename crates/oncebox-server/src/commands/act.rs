//! `oncebox replay`, `release`, `discard` and `forget`: count, ask, act, and say how to go on if it was cut off.

use std::convert::Infallible;
use std::process::ExitCode;
use std::time::Duration;

use oncebox::clock::Clock;
use oncebox::store::ActionKind;

use super::events::moment;
use super::{unless_refused, wrong_usage};
use crate::cli::action::ActionArgs;
use crate::operator::Operator;
use crate::query::actions::{ActionRequest, FilterRequest, new_id};
use crate::terminal::{self, Progress};
use crate::view::Done;

/// The pause between two looks at how far an action came.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Runs the command.
pub(crate) async fn run(kind: ActionKind, args: &ActionArgs) -> anyhow::Result<ExitCode> {
    let filter = filter(args);
    if filter == FilterRequest::default() {
        return Err(wrong_usage(format!(
            "say which: a key as in `oncebox {0} stripe/evt_1`, or a filter as in `oncebox {0} --source stripe`; \
             nothing acts on everything",
            kind.as_str()
        )));
    }
    let operator = Operator::open(&args.operator).await?;
    if let (Operator::Database(..), ActionKind::Replay, Some(_), Some(_)) =
        (&operator, kind, &filter.handler, &filter.since)
    {
        eprintln!(
            "no server was asked, so only dead letters are replayed: stored events go to a new handler by a server"
        );
    }
    let mut request = ActionRequest { filter, dry_run: true, action_id: None, who: Some(name_of_caller()) };
    let counted = operator.act(kind, &request).await?.count;
    let counted_things = things(kind, &request.filter, counted);
    if args.care.dry_run {
        let done = Done { count: counted, dry_run: true, action_id: args.care.action_id.clone(), repeated: false };
        return print(args, &done, &format!("{counted_things} would be {}", past(kind)));
    }
    // Under an id of the caller's own the action may be one that was cut off after its last step.
    if counted == 0 && args.care.action_id.is_none() {
        let done = Done { count: 0, dry_run: false, action_id: None, repeated: false };
        return print(args, &done, &format!("there is nothing to {}", kind.as_str()));
    }
    if !args.care.yes && !is_through(&operator, args).await? && !agreed(kind, &counted_things)? {
        terminal::print("nothing was changed")?;
        return Ok(ExitCode::FAILURE);
    }
    let id = args.care.action_id.clone().unwrap_or_else(|| new_id(&Clock::system()));
    (request.dry_run, request.action_id) = (false, Some(id.clone()));
    let bar = Progress::new(u64::try_from(counted).unwrap_or(0), past(kind));
    let done = tokio::select! {
        done = operator.act(kind, &request) => done,
        never = watch(&operator, &id, bar) => match never {},
    };
    let done = done.map_err(|error| {
        unless_refused(error, || format!("if it was cut off, go on with the same command and --action-id {id}"))
    })?;
    let did = format!("{} {} (action {id})", things(kind, &request.filter, done.count), past(kind));
    print(args, &done, &if done.repeated { format!("already done: {did}") } else { did })
}

/// True for an action that ended before: to submit it again changes nothing, so nobody need be asked.
async fn is_through(operator: &Operator, args: &ActionArgs) -> anyhow::Result<bool> {
    let Some(id) = &args.care.action_id else { return Ok(false) };
    Ok(operator.action(id).await?.is_some_and(|action| action.finished_at.is_some()))
}

/// Who the audit log names.
pub(crate) fn name_of_caller() -> String {
    std::env::var("USER").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "somebody".to_owned())
}

fn filter(args: &ActionArgs) -> FilterRequest {
    FilterRequest {
        source: args.filter.source.clone(),
        r#type: args.filter.event_type.clone(),
        state: args.state.clone(),
        handler: args.filter.handler.clone(),
        since: args.filter.since.map(moment),
        until: args.filter.until.map(moment),
        key: args.key.clone(),
        destination: args.destination.clone(),
        message: args.message.clone(),
    }
}

fn agreed(kind: ActionKind, things: &str) -> anyhow::Result<bool> {
    let question = format!("{} {things}?", kind.as_str());
    match terminal::agrees(&question)? {
        Some(agreed) => Ok(agreed),
        None => {
            Err(wrong_usage(format!("this would {} {things}; add --yes, or look first with --dry-run", kind.as_str())))
        }
    }
}

pub(super) async fn watch(operator: &Operator, id: &str, mut bar: Progress) -> Infallible {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        // A look that fails costs a step of the bar and nothing else.
        if let Ok(Some(action)) = operator.action(id).await {
            bar.reach(u64::try_from(action.acted).unwrap_or(0));
        }
    }
}

fn print(args: &ActionArgs, done: &Done, sentence: &str) -> anyhow::Result<ExitCode> {
    if args.operator.json {
        terminal::print_json(done)?;
    } else {
        terminal::print(sentence)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is counted, in words. A replay for a handler since a time may create deliveries that were never dead, and an
/// event that is held and concerns no handler counts itself.
fn things(kind: ActionKind, filter: &FilterRequest, count: i64) -> String {
    let (one, many) = match kind {
        _ if filter.destination.is_some() || filter.message.is_some() => ("message", "messages"),
        ActionKind::Replay if filter.handler.is_none() || filter.since.is_none() => ("dead letter", "dead letters"),
        ActionKind::Release if filter.handler.is_some() => ("held delivery", "held deliveries"),
        ActionKind::Release => ("held delivery or event", "held deliveries or events"),
        ActionKind::Discard if filter.handler.is_none() && filter.state.as_deref() != Some("dead") => {
            ("delivery or event", "deliveries or events")
        }
        ActionKind::Replay | ActionKind::Discard | ActionKind::Requeue => ("delivery", "deliveries"),
        ActionKind::Erase => ("event", "events"),
        ActionKind::Forget => ("identity", "identities"),
    };
    format!("{count} {}", if count == 1 { one } else { many })
}

fn past(kind: ActionKind) -> &'static str {
    match kind {
        ActionKind::Replay => "replayed",
        ActionKind::Release => "released",
        ActionKind::Discard => "discarded",
        ActionKind::Forget => "forgotten",
        ActionKind::Requeue => "put back in line",
        ActionKind::Erase => "erased",
    }
}
