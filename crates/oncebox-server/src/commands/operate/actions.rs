//! `oncebox replay`, `backfill`, `release`, `discard` and `forget`: count, ask, act, and say how to go on if it was cut off.

use std::convert::Infallible;
use std::process::ExitCode;
use std::time::Duration;

use oncebox::Clock;
use oncebox::gateway::store::ActionKind;

use crate::cli::action::{
    BackfillArgs, CareArgs, DeliveriesArgs, DiscardArgs, EventFilterArgs, ForgetArgs, MessagesArgs, ReleaseArgs,
    ReplayArgs,
};
use crate::cli::operator::OperatorArgs;
use crate::operator::{Operator, name_of_caller};
use crate::query::actions::{ActionRequest, FilterRequest, new_id};
use crate::query::view::Done;
use crate::terminal::{self, Progress};
use crate::usage::{self, unless_refused, wrong_usage};

/// The pause between two looks at how far an action came.
const POLL_EVERY: Duration = Duration::from_millis(300);

pub(crate) async fn replay(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let filter = FilterRequest { waiting: args.waiting, ..of_either(&args.deliveries, &args.messages) };
    run(ActionKind::Replay, &filter, &args.care, &args.operator).await
}

pub(crate) async fn backfill(args: &BackfillArgs) -> anyhow::Result<ExitCode> {
    let filter = FilterRequest {
        source: args.source.clone(),
        r#type: args.event_type.clone(),
        handler: Some(args.handler.clone()),
        since: Some(args.since.to_string()),
        until: args.until.map(|when| when.to_string()),
        ..FilterRequest::default()
    };
    run(ActionKind::Backfill, &filter, &args.care, &args.operator).await
}

pub(crate) async fn release(args: &ReleaseArgs) -> anyhow::Result<ExitCode> {
    let filter = of_deliveries(&args.deliveries);
    run(ActionKind::Release, &filter, &args.care, &args.operator).await
}

pub(crate) async fn discard(args: &DiscardArgs) -> anyhow::Result<ExitCode> {
    let filter = of_either(&args.deliveries, &args.messages);
    run(ActionKind::Discard, &filter, &args.care, &args.operator).await
}

pub(crate) async fn forget(args: &ForgetArgs) -> anyhow::Result<ExitCode> {
    let (key, state) = (args.key.clone(), args.state.clone());
    let filter = FilterRequest { key, state, ..of_events(&args.events) };
    run(ActionKind::Forget, &filter, &args.care, &args.operator).await
}

async fn run(
    kind: ActionKind,
    filter: &FilterRequest,
    care: &CareArgs,
    args: &OperatorArgs,
) -> anyhow::Result<ExitCode> {
    if *filter == (FilterRequest { waiting: filter.waiting, ..FilterRequest::default() }) {
        return Err(wrong_usage(format!(
            "say which: a key as in `oncebox {0} stripe/evt_1`, or a filter as in `oncebox {0} --source stripe`; \
             nothing acts on everything",
            kind.as_str()
        )));
    }
    let operator = Operator::open(args).await?;
    let mut request =
        ActionRequest { filter: filter.clone(), dry_run: true, action_id: None, who: Some(name_of_caller()) };
    let counted = operator.act(kind, &request).await?.count;
    let told = &told(&operator, kind, filter, counted).await?;
    let counted_things = things(kind, told, counted);
    if care.dry_run {
        let done = Done { count: counted, dry_run: true, action_id: care.action_id.clone(), repeated: false };
        return terminal::show(args.json, &done, || format!("{counted_things} would be {}", past(kind, filter)));
    }
    // Under an id of the caller's own the action may be one that was cut off after its last step.
    if counted == 0 && care.action_id.is_none() {
        let done = Done { count: 0, dry_run: false, action_id: None, repeated: false };
        return terminal::show(args.json, &done, || nothing(kind, filter));
    }
    if !care.yes && !is_through(&operator, care).await? && !agreed(kind, told, &counted_things)? {
        terminal::print("nothing was changed")?;
        return Ok(ExitCode::FAILURE);
    }
    let id = care.action_id.clone().unwrap_or_else(|| new_id(&Clock::system()));
    (request.dry_run, request.action_id) = (false, Some(id.clone()));
    let bar = Progress::new(u64::try_from(counted).unwrap_or(0), past(kind, filter));
    let done = carried_out(&operator, &id, bar, operator.act(kind, &request)).await?;
    let did = format!("{} {} (action {id})", things(kind, told, done.count), past(kind, filter));
    terminal::show(args.json, &done, || if done.repeated { format!("already done: {did}") } else { did })
}

/// Waits for an action while a bar shows how far it came. A failure that may be of the moment says how to go on.
pub(super) async fn carried_out<T>(
    operator: &Operator,
    id: &str,
    bar: Progress,
    act: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let acted = async || u64::try_from(operator.action(id).await.ok()??.acted).ok();
    let done = tokio::select! {
        done = act => done,
        never = follow(bar, acted) => match never {},
    };
    let advice = || format!("if it was cut off, go on with the same command and --action-id {id}");
    done.map_err(|error| unless_refused(error, advice))
}

/// What the action is about in the words for it: an event that is named may be a conflict.
async fn told(
    operator: &Operator,
    kind: ActionKind,
    filter: &FilterRequest,
    counted: i64,
) -> anyhow::Result<FilterRequest> {
    let settles = matches!(kind, ActionKind::Release | ActionKind::Discard) && filter.state.is_none() && counted > 0;
    let event = match filter.key.as_deref().filter(|_| settles) {
        Some(name) => operator.event(name).await?,
        None => None,
    };
    let state = event.map(|detail| detail.event.state).filter(|state| state == "conflict");
    Ok(FilterRequest { state: state.or_else(|| filter.state.clone()), ..filter.clone() })
}

/// True for an action that ended before: to submit it again changes nothing, so nobody need be asked.
pub(super) async fn is_through(operator: &Operator, care: &CareArgs) -> anyhow::Result<bool> {
    let Some(id) = &care.action_id else { return Ok(false) };
    Ok(operator.action(id).await?.is_some_and(|action| action.finished_at.is_some()))
}

fn of_events(args: &EventFilterArgs) -> FilterRequest {
    FilterRequest {
        source: args.source.clone(),
        r#type: args.event_type.clone(),
        since: args.since.map(|when| when.to_string()),
        until: args.until.map(|when| when.to_string()),
        ..FilterRequest::default()
    }
}

fn of_deliveries(args: &DeliveriesArgs) -> FilterRequest {
    let (key, handler, state) = (args.key.clone(), args.filter.handler.clone(), args.state.clone());
    FilterRequest { key, handler, state, ..of_events(&args.filter.events) }
}

fn of_either(deliveries: &DeliveriesArgs, messages: &MessagesArgs) -> FilterRequest {
    let (destination, message) = (messages.destination.clone(), messages.message.clone());
    FilterRequest { destination, message, ..of_deliveries(deliveries) }
}

/// That there was nothing to do, and what might have been meant.
fn nothing(kind: ActionKind, filter: &FilterRequest) -> String {
    let nothing = format!("there is nothing to {}", kind.as_str());
    match kind {
        ActionKind::Replay if !filter.waiting => {
            format!("{nothing}: no dead letter fits; --waiting tries now what waits for its next attempt")
        }
        ActionKind::Release | ActionKind::Discard if !filter.is_about_conflicts() => {
            format!("{nothing}; a conflict is named by its key, or meant by --state conflict")
        }
        _ => nothing,
    }
}

fn agreed(kind: ActionKind, told: &FilterRequest, things: &str) -> anyhow::Result<bool> {
    match kind {
        ActionKind::Forget => terminal::note(
            "what is forgotten and sent again is a new event: it runs again under new keys, also what was done",
        ),
        ActionKind::Release if told.is_about_conflicts() => terminal::note(
            "the other body runs as a second effect under keys of its own; what ran for the first body stays as it is",
        ),
        _ => {}
    }
    let verb = kind.as_str();
    let refusal = format!("this would {verb} {things}; add --yes, or look first with --dry-run");
    usage::agreed(&format!("{verb} {things}?"), refusal)
}

/// Moves a bar to what a look says, now and then. A look that fails costs a step of the bar and nothing else.
pub(super) async fn follow(mut bar: Progress, look: impl AsyncFn() -> Option<u64>) -> Infallible {
    loop {
        tokio::time::sleep(POLL_EVERY).await;
        if let Some(step) = look().await {
            bar.reach(step);
        }
    }
}

/// What is counted, in words. An event that is held and concerns no handler counts itself.
fn things(kind: ActionKind, filter: &FilterRequest, count: i64) -> String {
    let (one, many) = match kind {
        _ if filter.is_about_messages() && filter.waiting => ("waiting message", "waiting messages"),
        _ if filter.is_about_messages() => ("message", "messages"),
        ActionKind::Release | ActionKind::Discard if filter.is_about_conflicts() => ("conflict", "conflicts"),
        ActionKind::Replay if filter.waiting => ("waiting delivery", "waiting deliveries"),
        ActionKind::Replay => ("dead letter", "dead letters"),
        ActionKind::Release if filter.handler.is_some() => ("held delivery", "held deliveries"),
        ActionKind::Release => ("held delivery or event", "held deliveries or events"),
        ActionKind::Discard if filter.handler.is_none() && filter.state.as_deref() != Some("dead") => {
            ("delivery or event", "deliveries or events")
        }
        ActionKind::Discard | ActionKind::Requeue => ("delivery", "deliveries"),
        ActionKind::Backfill => ("stored event", "stored events"),
        ActionKind::Erase => ("event", "events"),
        ActionKind::Forget => ("identity", "identities"),
    };
    format!("{count} {}", if count == 1 { one } else { many })
}

fn past(kind: ActionKind, filter: &FilterRequest) -> &'static str {
    match kind {
        ActionKind::Replay if filter.waiting => "made due now",
        ActionKind::Replay => "replayed",
        ActionKind::Backfill => "given to the handler",
        ActionKind::Release => "released",
        ActionKind::Discard => "discarded",
        ActionKind::Forget => "forgotten",
        ActionKind::Requeue => "put back in line",
        ActionKind::Erase => "erased",
    }
}
