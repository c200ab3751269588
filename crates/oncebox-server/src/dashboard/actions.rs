//! `/act/{kind}`: replay, backfill, release, discard, forget, pause and resume. A look counts and changes nothing; the form on it
//! acts under an action id that was made for the look, so that sending it twice acts once.

use askama::Template;
use axum::Extension;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect};
use http::StatusCode;
use oncebox::gateway::limits::DEPTH_MAX;
use oncebox::gateway::store::ActionKind;

use super::render::format::counted;
use super::render::page::UNCLEAR;
use super::render::{Link, PageError, Params, Shown, Visit, page_with};
use crate::admin::Admin;
use crate::admin::api::ApiError;
use crate::admin::login::OwnForm;
use crate::admin::submitted::Teller;
use crate::query::actions::{ActionRequest, FilterRequest, new_id};
use crate::query::deliveries;

/// The fields of a filter, as links and forms carry them.
const FIELDS: [&str; 9] = ["source", "type", "state", "handler", "since", "until", "key", "destination", "message"];
/// The one field that is a yes: what waits for its next attempt is meant.
const WAITING: (&str, &str) = ("waiting", "true");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Act(ActionKind),
    Pause(bool),
}

#[derive(Template)]
#[template(path = "act.html")]
struct AskPage {
    visit: Visit,
    kind: String,
    question: String,
    means: &'static str,
    is_final: bool,
    count: i64,
    /// What else a person should know before pressing.
    note: String,
    filter: Vec<(&'static str, String)>,
    action_id: String,
    back: Link,
}

/// Counts, and asks.
pub(super) async fn ask(
    admin: Admin,
    visit: Visit,
    Path(kind): Path<String>,
    Params(filter): Params<FilterRequest>,
) -> Shown {
    let deed = read(&kind)?;
    admin.check_names(filter.source.as_deref(), filter.handler.as_deref()).await?;
    question_page(&admin, visit, kind, (deed, filter), None).await
}

/// The question, with what it was before where that was less.
async fn question_page(
    admin: &Admin,
    visit: Visit,
    kind: String,
    (deed, filter): (Deed, FilterRequest),
    before: Option<i64>,
) -> Shown {
    let (count, question) = match deed {
        Deed::Act(action) => {
            let request = ActionRequest { filter: filter.clone(), dry_run: true, ..ActionRequest::default() };
            let count = admin.act(action, request).await?.count;
            (count, question(action, count, &filter))
        }
        // There is one handler to pause, however much waits for it.
        Deed::Pause(paused) => (1, pause_question(admin, paused, &filter).await?),
    };
    let status = if before.is_some() { StatusCode::CONFLICT } else { StatusCode::OK };
    let question = AskPage {
        note: note(admin, deed, &filter, before),
        question,
        means: means(deed, &filter),
        is_final: matches!(deed, Deed::Act(ActionKind::Discard | ActionKind::Forget)),
        back: back(deed, &filter),
        filter: fields(&filter),
        action_id: new_id(&admin.clock),
        count,
        kind,
        visit,
    };
    page_with(status, &question)
}

fn note(admin: &Admin, deed: Deed, filter: &FilterRequest, before: Option<i64>) -> String {
    if let Some(before) = before {
        return format!("Nothing was done: you were asked about {before}, and there are more by now.");
    }
    let runs = matches!(deed, Deed::Act(ActionKind::Replay | ActionKind::Release));
    match filter
        .handler
        .as_deref()
        .filter(|handler| runs && !admin.setup().routes.handlers().any(|one| one == *handler))
    {
        Some(handler) => {
            format!("No handler {handler} is configured here: what becomes ready waits until there is one.")
        }
        None => String::new(),
    }
}

/// Acts, and leads to what came of it.
pub(super) async fn act(
    admin: Admin,
    visit: Visit,
    Path(kind): Path<String>,
    Extension(teller): Extension<Teller>,
    form: Result<OwnForm, ApiError>,
) -> Shown {
    let form = form.map_err(|_refused| PageError::stale_form())?;
    if !visit.may_act {
        return Err(PageError::looks_only());
    }
    let deed = read(&kind)?;
    let field = |name: &str| form.get(name).map(str::to_owned);
    let filter = filter(&form)?;
    admin.check_names(filter.source.as_deref(), filter.handler.as_deref()).await?;
    let who = format!("{} by the dashboard", teller.says(None));
    let link = match deed {
        Deed::Act(action) => {
            if let Some(before) = grown(&admin, action, &filter, &form).await? {
                return question_page(&admin, visit, kind, (deed, filter), Some(before)).await;
            }
            let request = ActionRequest { filter, dry_run: false, action_id: field("action_id"), who: Some(who) };
            let done = admin.act(action, request).await?;
            Link::below("/audit", done.action_id.as_deref().unwrap_or_default())
        }
        Deed::Pause(paused) => {
            let handler = filter.handler.ok_or_else(PageError::not_found)?;
            if !deliveries::pause(&admin.store, &admin.clock, (&handler, paused), who).await? {
                return Err(PageError::not_found());
            }
            Link::to("/handlers").with("changed", &handler)
        }
    };
    Ok(Redirect::to(&link.to_string()).into_response())
}

/// The count that was asked about, where the action would concern more by now. One that was submitted before has its
/// answer already.
async fn grown(
    admin: &Admin,
    action: ActionKind,
    filter: &FilterRequest,
    form: &OwnForm,
) -> Result<Option<i64>, PageError> {
    let Some(before) = form.get("count").and_then(|count| count.parse::<i64>().ok()) else { return Ok(None) };
    if let Some(id) = form.get("action_id")
        && admin.store.action(id).await?.is_some()
    {
        return Ok(None);
    }
    let request = ActionRequest { filter: filter.clone(), dry_run: true, ..ActionRequest::default() };
    Ok((admin.act(action, request).await?.count > before).then_some(before))
}

fn read(kind: &str) -> Result<Deed, PageError> {
    Ok(match kind {
        "replay" => Deed::Act(ActionKind::Replay),
        "backfill" => Deed::Act(ActionKind::Backfill),
        "release" => Deed::Act(ActionKind::Release),
        "discard" => Deed::Act(ActionKind::Discard),
        "forget" => Deed::Act(ActionKind::Forget),
        "pause" => Deed::Pause(true),
        "resume" => Deed::Pause(false),
        _ => return Err(PageError::not_found()),
    })
}

/// Asks with how many deliveries wait for the handler, counted as far as pages count.
async fn pause_question(admin: &Admin, paused: bool, filter: &FilterRequest) -> Result<String, PageError> {
    let Some(handler) = filter.handler.as_deref() else {
        return Err(PageError::new(StatusCode::BAD_REQUEST, UNCLEAR, "say which handler"));
    };
    let depths = admin.store.depths(DEPTH_MAX).await?;
    let ready = depths.iter().find(|one| one.name == handler && one.state == "ready");
    let verb = if paused { "Pause" } else { "Resume" };
    let waits = match ready.map_or((0, false), |ready| (ready.count, ready.more)) {
        (0, _) => "Nothing waits".to_owned(),
        (1, _) => "1 delivery waits".to_owned(),
        (count, true) => format!("More than {} wait", counted(count, "delivery")),
        (count, false) => format!("{} wait", counted(count, "delivery")),
    };
    Ok(format!("{verb} {handler}? {waits} for it."))
}

/// The fields that are set, in a fixed order.
fn fields(filter: &FilterRequest) -> Vec<(&'static str, String)> {
    let values = serde_json::to_value(filter).unwrap_or_default();
    let text = |name| Some((name, values.get(name)?.as_str()?.to_owned()));
    let waiting = filter.waiting.then(|| (WAITING.0, WAITING.1.to_owned()));
    FIELDS.into_iter().filter_map(text).chain(waiting).collect()
}

/// The filter that a form carries.
fn filter(form: &OwnForm) -> Result<FilterRequest, PageError> {
    let given = FIELDS.into_iter().filter_map(|name| Some((name.to_owned(), form.get(name)?.into())));
    let filter: FilterRequest = serde_json::from_value(serde_json::Value::Object(given.collect()))
        .map_err(|_unreadable| PageError::stale_form())?;
    Ok(FilterRequest { waiting: form.get(WAITING.0) == Some(WAITING.1), ..filter })
}

fn question(kind: ActionKind, count: i64, filter: &FilterRequest) -> String {
    let about_messages = filter.is_about_messages();
    let letters = if about_messages { "dead message" } else { "dead letter" };
    match kind {
        ActionKind::Replay if filter.waiting => {
            format!("Try {} now?", counted(count, if about_messages { "waiting message" } else { "waiting delivery" }))
        }
        ActionKind::Replay => format!("Replay {}?", counted(count, letters)),
        ActionKind::Backfill => {
            let handler = filter.handler.as_deref().unwrap_or_default();
            format!("Give {} to {handler}?", counted(count, "stored event"))
        }
        ActionKind::Release if filter.is_about_conflicts() => format!("Run {}?", counted(count, "conflict")),
        ActionKind::Discard if filter.is_about_conflicts() => format!("Discard {}?", counted(count, "conflict")),
        ActionKind::Release if filter.key.is_some() && count == 1 => "Release this held event?".to_owned(),
        ActionKind::Release => format!("Release {}?", counted(count, "held delivery")),
        ActionKind::Forget => format!("Forget {}?", counted(count, "event")),
        _ => format!("Discard {}?", counted(count, if about_messages { "message" } else { "delivery" })),
    }
}

fn means(deed: Deed, filter: &FilterRequest) -> &'static str {
    let about_messages = filter.is_about_messages();
    match deed {
        Deed::Act(ActionKind::Replay) if filter.waiting => {
            "What waits for its next attempt is due now. Attempts that were made still count, and keys stay the same."
        }
        Deed::Act(ActionKind::Backfill) => {
            "The handler gets the stored events that it wants and never had, and runs each. Those that it had, whatever \
             came of them, are left alone."
        }
        Deed::Act(ActionKind::Replay) if about_messages => {
            "Each becomes ready again with a fresh budget of attempts, and is sent once more under the same key."
        }
        Deed::Act(_) if about_messages => {
            "What is discarded is never sent. It stays visible until retention removes it."
        }
        Deed::Act(ActionKind::Replay) => {
            "Each becomes ready again with a fresh budget of attempts, and its handler runs once more. Attempts go on \
             counting; idempotency keys stay the same."
        }
        Deed::Act(ActionKind::Release) if filter.is_about_conflicts() => {
            "The handlers run for the other body as well: an intended second effect under keys of its own. The event that \
             has the id stays as it is. From then on a copy of this body is a duplicate."
        }
        Deed::Act(ActionKind::Discard) if filter.is_about_conflicts() => {
            "Nobody is told of it any more, and it never runs. It stays visible until retention removes it; a copy of it is \
             a duplicate from then on."
        }
        Deed::Act(ActionKind::Release) => {
            "What is held becomes ready, and its handlers run as if it had just arrived. Look at the reason first: a \
             repeated body may run a second time what ran before."
        }
        Deed::Act(ActionKind::Forget) => {
            "The identity is dropped from the ledger. If the sender sends the event again, it counts as new: every handler \
             runs it again under new keys, also those that are done with it. The event itself stays as it is."
        }
        Deed::Act(_) => "What is discarded never runs. It stays visible until retention removes it.",
        Deed::Pause(true) => {
            "Nothing of it is claimed until it is resumed; what runs now finishes. Webhooks go on being accepted and wait."
        }
        Deed::Pause(false) => "What waited is claimed at once, oldest first.",
    }
}

fn back(deed: Deed, filter: &FilterRequest) -> Link {
    match (deed, &filter.key, &filter.message) {
        (_, Some(key), _) if !key.contains('/') => Link::below("/events", key),
        (_, _, Some(message)) => Link::below("/outbox", message),
        (Deed::Pause(_) | Deed::Act(ActionKind::Backfill), ..) => Link::to("/handlers"),
        (Deed::Act(ActionKind::Replay), ..) if filter.waiting && filter.destination.is_some() => {
            Link::to("/destinations")
        }
        (Deed::Act(ActionKind::Replay), ..) if filter.waiting => Link::to("/handlers"),
        (Deed::Act(_), ..) if filter.is_about_conflicts() => Link::to("/events").with("state", "conflict"),
        (Deed::Act(ActionKind::Release), ..) => Link::to("/held"),
        (Deed::Act(ActionKind::Replay | ActionKind::Discard), ..) => Link::to("/dead-letters"),
        _ => Link::to("/events"),
    }
}
