//! Replay, backfill, release, discard and forget as a person asks for them: read, counted, done.
//!
//! A filter that is misspelt must be refused, never widened; so unknown fields are errors and an empty filter is none.

use oncebox::gateway::clock::{Clock, UnixMillis};
use oncebox::gateway::delivery::routing::{Route, Routes};
use oncebox::gateway::event::{EventKey, KeyMaker, MessageKey};
use oncebox::gateway::store::{
    Action, ActionError, ActionFilter, ActionKind, ActionRecord, Asked, CONFLICT_DISCARDED, CONFLICT_RELEASED,
    EventRecord, Store,
};
use serde::{Deserialize, Serialize};

use super::destinations::Destinations;
use super::{PageQuery, QueryError, Result, find, moment, not_our_cursor, page_limit};
use crate::query::view::{ActionView, Done, Items};
use crate::when::When;

const ID_CHARS_MAX: usize = 128;
const WHO_CHARS_MAX: usize = 200;
/// How far the time that an age meant may be from the start of its action.
const AGE_SLACK_MS: u64 = 1000;

/// An action as it is submitted.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ActionRequest {
    /// To what.
    #[serde(default)]
    pub(crate) filter: FilterRequest,
    /// Only count.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// The same id twice acts once; without one every submission is an action of its own.
    pub(crate) action_id: Option<String>,
    /// Who asks, for the audit log.
    pub(crate) who: Option<String>,
}

/// Which events or deliveries, in a person's words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FilterRequest {
    /// Exactly this source.
    pub(crate) source: Option<String>,
    /// A type glob.
    pub(crate) r#type: Option<String>,
    /// A state that the action starts from.
    pub(crate) state: Option<String>,
    /// Exactly this handler.
    pub(crate) handler: Option<String>,
    /// A time, or an age such as `2h`.
    pub(crate) since: Option<String>,
    /// An age, a time or a date.
    pub(crate) until: Option<String>,
    /// An event's key, or `source/event_id`.
    pub(crate) key: Option<String>,
    /// Dead messages to this destination, in place of deliveries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) destination: Option<String>,
    /// Exactly this dead message, in place of deliveries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// For a replay: what waits for its next attempt is due now, in place of dead letters.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) waiting: bool,
}

impl FilterRequest {
    pub(crate) fn is_about_messages(&self) -> bool {
        self.destination.is_some() || self.message.is_some()
    }

    pub(crate) fn is_about_conflicts(&self) -> bool {
        self.state.as_deref() == Some("conflict")
    }
}

/// What the config tells an action: a backfill and the release of a conflict, what handlers want; a discard, which messages
/// nobody will ever send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    /// Which handler wants what, where a config is at hand.
    pub(crate) routes: Option<&'a Routes>,
    /// Which destinations are served.
    pub(crate) destinations: &'a Destinations,
}

pub(crate) async fn act(
    store: &Store,
    clock: &Clock,
    config: Known<'_>,
    kind: ActionKind,
    request: ActionRequest,
) -> Result<Done> {
    let known = known_action(store, request.action_id.as_deref()).await?;
    let now = clock.now();
    if request.filter.waiting && kind != ActionKind::Replay {
        return Err(QueryError::Bad("only a replay is about what waits for its next attempt".into()));
    }
    let mut filter = read(store, now, &request.filter, known.as_ref()).await?;
    // What an action took is gone from the outbox, and the action may be submitted again nevertheless.
    if known.is_none() {
        config.destinations.check(store, filter.destination.as_deref()).await?;
        refuse_without_payload(store, kind, &filter).await?;
    }
    if kind == ActionKind::Discard {
        filter.waiting = filter.state.is_none() && takes_waiting(store, &filter, config).await?;
    }
    let route = route(kind, &filter, config.routes)?;
    if request.dry_run {
        let count = match route {
            Some(route) => store.count_backfill(&filter, route).await?,
            None if filter.waiting && kind == ActionKind::Replay => store.count_hurry(&filter, now).await?,
            None => store.count_action(kind, &filter).await?,
        };
        return Ok(Done { count, dry_run: true, action_id: request.action_id, repeated: false });
    }
    let id = request.action_id.unwrap_or_else(|| new_id(clock));
    let action = Action { id, kind, filter, who: who(request.who) };
    let count = store.act(&action, config.routes, now).await?;
    let repeated = known.is_some_and(|known| known.finished_at.is_some());
    if !repeated {
        tracing::info!(action = action.id, kind = kind.as_str(), who = action.who, count, "operator action");
    }
    Ok(Done { count, dry_run: false, action_id: Some(action.id), repeated })
}

/// One event that was named cannot run without its bytes; among many, those without are left out.
async fn refuse_without_payload(store: &Store, kind: ActionKind, filter: &ActionFilter) -> Result<()> {
    let (ActionKind::Replay | ActionKind::Release, Some(key)) = (kind, filter.key) else { return Ok(()) };
    if store.event(key).await?.is_some() && store.payload(key).await?.is_none() {
        let sentence =
            format!("the payload of {key} is no longer kept, so it cannot run again; see `oncebox event {key}`");
        return Err(QueryError::Conflict(sentence));
    }
    Ok(())
}

/// A page of the audit log, newest first.
pub(crate) async fn actions(store: &Store, query: &PageQuery) -> Result<Items<ActionView>> {
    let limit = page_limit(query.limit)?;
    let last = query.cursor.as_deref().map(read_cursor).transpose()?;
    let found = store.actions_after(last, limit + 1).await?;
    Ok(Items::cut(found, limit, |last| format!("{}.{}", last.started_at, last.id), Into::into))
}

/// Time and id of the last line before. Ids are anything, so that the time comes first.
fn read_cursor(text: &str) -> Result<(UnixMillis, &str)> {
    let parts = text.split_once('.').and_then(|(at, id)| Some((at.parse().ok()?, id)));
    parts.ok_or_else(not_our_cursor)
}

/// One line of the audit log: how far an action came.
pub(crate) async fn action(store: &Store, id: &str) -> Result<Option<ActionView>> {
    Ok(store.action(id).await?.map(Into::into))
}

/// An id that nobody used before.
pub(crate) fn new_id(clock: &Clock) -> String {
    KeyMaker::default().make::<()>(clock.now()).to_string()
}

/// What the audit log keeps of somebody who asks now.
pub(crate) fn asked_by(who: String, clock: &Clock) -> Asked {
    Asked { id: new_id(clock), who: self::who(Some(who)), at: clock.now() }
}

/// Who asked, bounded and on one line.
pub(super) fn who(name: Option<String>) -> String {
    let name = name.unwrap_or_else(|| "operator".to_owned());
    name.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WHO_CHARS_MAX).collect()
}

/// True when the messages that are meant go to a destination that nobody serves.
async fn takes_waiting(store: &Store, filter: &ActionFilter, config: Known<'_>) -> Result<bool> {
    let destination = match (&filter.destination, filter.message) {
        (Some(destination), _) => destination.clone(),
        (None, Some(id)) => match store.message(id).await? {
            Some(message) => message.line.destination,
            None => return Ok(false),
        },
        (None, None) => return Ok(false),
    };
    Ok(!config.destinations.serves(&destination))
}

pub(super) async fn known_action(store: &Store, id: Option<&str>) -> Result<Option<ActionRecord>> {
    let Some(id) = id else { return Ok(None) };
    if id.is_empty() || id.chars().count() > ID_CHARS_MAX || id.chars().any(char::is_control) {
        return Err(QueryError::Bad(format!("action_id must have 1 to {ID_CHARS_MAX} plain characters")));
    }
    Ok(store.action(id).await?)
}

/// What the handler of a backfill wants: only who has it configured knows.
fn route<'a>(kind: ActionKind, filter: &ActionFilter, routes: Option<&'a Routes>) -> Result<Option<&'a Route>> {
    if kind != ActionKind::Backfill {
        return Ok(None);
    }
    let (Some(handler), Some(_)) = (filter.handler.as_deref(), filter.since) else {
        return Err(ActionError::Backfill.into());
    };
    let route = routes.and_then(|routes| routes.of_handler(handler)).ok_or_else(|| {
        QueryError::Bad(format!(
            "a backfill needs a config that has the handler {handler:?}, of the running server or named with --config: it \
             says which events are meant"
        ))
    });
    route.map(Some)
}

async fn read(
    store: &Store,
    now: UnixMillis,
    asked: &FilterRequest,
    known: Option<&ActionRecord>,
) -> Result<ActionFilter> {
    let texts = [&asked.source, &asked.r#type, &asked.state, &asked.handler, &asked.key, &asked.destination];
    if texts.into_iter().flatten().any(|text| text.contains('\0')) {
        return Err(QueryError::Bad("a NUL stands in the filter".into()));
    }
    let key = match &asked.key {
        Some(name) if asked.is_about_conflicts() => Some(one_conflict(store, name).await?),
        Some(name) => Some(one_event(store, name).await?),
        None => None,
    };
    let message = match &asked.message {
        Some(id) => Some(one_message(store, id).await?),
        None => None,
    };
    let since = moment_of(asked.since.as_deref(), "since", now, known)?;
    let until = moment_of(asked.until.as_deref(), "until", now, known)?;
    let FilterRequest { source, r#type: event_type, state, handler, destination, waiting, .. } = asked.clone();
    Ok(ActionFilter { source, event_type, state, handler, since, until, key, destination, message, waiting })
}

/// The time that is meant. An age means another one at every submission; an action that is known keeps the first one's,
/// if that was the same age.
pub(super) fn moment_of(
    text: Option<&str>,
    name: &str,
    now: UnixMillis,
    known: Option<&ActionRecord>,
) -> Result<Option<UnixMillis>> {
    let Some(text) = text else { return Ok(None) };
    let (Some(known), Some(When::Ago(_))) = (known, When::parse(text)) else { return moment(text, now).map(Some) };
    let meant = moment(text, known.started_at)?;
    let recorded = recorded(known, name).filter(|at| at.abs_diff(meant) <= AGE_SLACK_MS);
    recorded.map(Some).ok_or_else(|| ActionError::Reused.into())
}

fn recorded(action: &ActionRecord, name: &str) -> Option<i64> {
    let filter: serde_json::Value = serde_json::from_str(&action.filter).ok()?;
    filter.get(name)?.as_i64()
}

async fn one_message(store: &Store, id: &str) -> Result<MessageKey> {
    let key = id.parse().map_err(|_error| QueryError::Bad(format!("{id:?} is not the id of a message")))?;
    match store.message(key).await? {
        Some(_) => Ok(key),
        None => Err(QueryError::Missing(format!("there is no message {id}"))),
    }
}

/// The one conflict that a name means: an open one, else one that was settled, so that an action may be submitted again.
async fn one_conflict(store: &Store, name: &str) -> Result<EventKey> {
    if let Ok(key) = name.parse() {
        return Ok(key);
    }
    let found = find(store, name).await?;
    let is_any_open = found.iter().any(|event| event.state == "conflict");
    let mut meant = found.iter().filter(|event| event.state == "conflict" || (!is_any_open && is_other_body(event)));
    match (meant.next(), meant.next()) {
        (Some(event), None) => Ok(event.key),
        (Some(_), Some(_)) => Err(QueryError::Bad(format!("{name:?} names several conflicts; use the key of one"))),
        (None, _) => Err(QueryError::Missing(format!("there is no conflict {name:?}"))),
    }
}

/// The one event that a name means; a namesake that is or was a conflict is meant by its key alone.
pub(super) async fn one_event(store: &Store, name: &str) -> Result<EventKey> {
    if let Ok(key) = name.parse() {
        return Ok(key);
    }
    let found = find(store, name).await?;
    let mut running = found.iter().filter(|event| !is_other_body(event));
    match (running.next(), running.next(), found.first()) {
        (Some(event), None, _) | (None, _, Some(event)) => Ok(event.key),
        (Some(_), Some(_), _) => Err(QueryError::Bad(format!("{name:?} names several events; use the key of one"))),
        (None, _, None) => Err(QueryError::Missing(format!("there is no event {name:?}"))),
    }
}

/// True for what came under a known id with another body, whatever a person decided since.
pub(crate) fn is_other_body(event: &EventRecord) -> bool {
    let reason = event.reason.as_deref();
    event.state == "conflict" || [Some(CONFLICT_RELEASED), Some(CONFLICT_DISCARDED)].contains(&reason)
}

impl From<ActionError> for QueryError {
    fn from(error: ActionError) -> Self {
        match error {
            ActionError::EmptyFilter => Self::Bad("the filter is empty, and nothing acts on everything".into()),
            ActionError::State => Self::Bad(
                "this filter does not fit the action: replay starts from dead (with waiting, from ready), release from \
                 held, discard from dead and held; both take conflict, for all handlers; forget takes the state of \
                 events and no handler"
                    .into(),
            ),
            ActionError::Unrouted => Self::Bad(
                "to release a conflict one must know which handlers want it: ask the running server (--admin-url), or name \
                 its config with --config"
                    .into(),
            ),
            ActionError::Messages | ActionError::Backfill => Self::Bad(error.to_string()),
            ActionError::Reused => Self::Conflict(
                "this action id was used for something else: take a new one, or repeat that action exactly".into(),
            ),
            ActionError::Store(error) => Self::Store(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_strictly() {
        let check = |text: &str, fits: bool| {
            assert_eq!(serde_json::from_str::<ActionRequest>(text).is_ok(), fits, "{text}");
        };
        check(r#"{"filter":{"source":"stripe"},"dry_run":true,"action_id":"a"}"#, true);
        check(r#"{"filter":{"source":"stripe","type":null}}"#, true);
        check(r#"{"filter":{"soruce":"stripe"}}"#, false);
        check(r#"{"filters":{"source":"stripe"}}"#, false);
        check(r#"{"filter":"stripe"}"#, false);
        check(r#"[]"#, false);
    }

    #[test]
    fn stored_events_are_given_only_by_a_backfill() {
        let routes =
            Routes::new(vec![Route { handler: "late".into(), sources: Vec::new(), types: Vec::new(), serial: None }]);
        let filter =
            |handler: &str, since| ActionFilter { handler: Some(handler.to_owned()), since, ..ActionFilter::default() };
        let check = |kind, filter: &ActionFilter, expected: Option<bool>| {
            let found = route(kind, filter, Some(&routes)).ok().map(|route| route.is_some());
            assert_eq!(found, expected, "{kind:?} {filter:?}");
        };
        check(ActionKind::Replay, &filter("late", Some(1)), Some(false));
        check(ActionKind::Discard, &filter("late", Some(1)), Some(false));
        check(ActionKind::Backfill, &filter("late", Some(1)), Some(true));
        check(ActionKind::Backfill, &filter("late", None), None);
        check(ActionKind::Backfill, &filter("gone", Some(1)), None);
        check(ActionKind::Backfill, &ActionFilter { since: Some(1), ..ActionFilter::default() }, None);
    }
}
