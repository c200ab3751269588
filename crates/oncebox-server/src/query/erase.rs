//! Erasing a subject as a person asks for it: read strictly, counted, done. The value is nowhere but in the request.

use oncebox::gateway::clock::{Clock, UnixMillis};
use oncebox::gateway::store::{ActionRecord, Erasure, Store, Subject, SubjectValue};
use oncebox_verify::BodyPointer;
use serde::{Deserialize, Serialize};

use super::actions::{known_action, moment_of, new_id, one_event, who};
use super::{QueryError, Result};

/// An erasure as it is submitted.
#[derive(Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EraseRequest {
    /// Whose data.
    #[serde(default)]
    pub(crate) filter: SubjectRequest,
    /// Only count.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// The same id twice acts once; without one every submission is an action of its own.
    pub(crate) action_id: Option<String>,
    /// Who asks, for the audit log.
    pub(crate) who: Option<String>,
}

/// Whose data, in a person's words: one event, or a value in the bodies of a source.
#[derive(Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubjectRequest {
    /// An event's key, or `source/event_id`.
    pub(crate) key: Option<String>,
    /// Exactly this source.
    pub(crate) source: Option<String>,
    /// A JSON pointer into the body.
    pub(crate) pointer: Option<String>,
    /// What must stand there.
    pub(crate) value: Option<String>,
    /// A time, or an age such as `90d`.
    pub(crate) since: Option<String>,
    /// An age, a time or a date.
    pub(crate) until: Option<String>,
}

/// What an erasure did, or in a dry run would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct Erased {
    /// How many events it concerned.
    pub(crate) count: i64,
    /// In a dry run: their deliveries and messages that have not ended, and would be discarded.
    pub(crate) waiting: Option<i64>,
    /// True where nothing was changed.
    pub(crate) dry_run: bool,
    /// The id under which it may be submitted again.
    pub(crate) action_id: Option<String>,
    /// True where it was done before under this id, so that nothing happened now.
    #[serde(default)]
    pub(crate) repeated: bool,
}

pub(crate) async fn erase(store: &Store, clock: &Clock, request: EraseRequest) -> Result<Erased> {
    let known = known_action(store, request.action_id.as_deref()).await?;
    let now = clock.now();
    let subject = read(store, now, &request.filter, known.as_ref()).await?;
    if request.dry_run {
        let found = store.count_erasure(&subject).await?;
        let (count, waiting) = (found.events, Some(found.waiting));
        return Ok(Erased { count, waiting, dry_run: true, action_id: request.action_id, repeated: false });
    }
    let id = request.action_id.unwrap_or_else(|| new_id(clock));
    let erasure = Erasure { id, who: who(request.who), subject };
    let count = store.erase(&erasure, now).await?;
    let repeated = known.is_some_and(|known| known.finished_at.is_some());
    if !repeated {
        tracing::info!(action = erasure.id, kind = "erase", who = erasure.who, count, "operator action");
    }
    Ok(Erased { count, waiting: None, dry_run: false, action_id: Some(erasure.id), repeated })
}

async fn read(store: &Store, now: UnixMillis, asked: &SubjectRequest, known: Option<&ActionRecord>) -> Result<Subject> {
    let bad = |sentence: &str| Err(QueryError::Bad(sentence.to_owned()));
    let by_value = asked.source.is_some() || asked.pointer.is_some() || asked.value.is_some();
    let timed = asked.since.is_some() || asked.until.is_some();
    match (&asked.key, &asked.source, &asked.pointer, &asked.value) {
        (Some(_), ..) if by_value || timed => bad("say one event by key, or a source, pointer and value, not both"),
        (Some(name), ..) => Ok(Subject::Event(one_event(store, name).await?)),
        (None, Some(source), Some(pointer), Some(value)) => {
            let Some(place) = BodyPointer::parse(pointer).filter(|_| !pointer.is_empty()) else {
                return bad("the pointer is none; write one such as /data/object/customer");
            };
            Ok(Subject::Value(SubjectValue {
                source: source.clone(),
                pointer: pointer.clone(),
                place,
                value: value.clone(),
                since: moment_of(asked.since.as_deref(), "since", now, known)?,
                until: moment_of(asked.until.as_deref(), "until", now, known)?,
            }))
        }
        _ => bad("say whose data: one event by key, or a source, a pointer and a value"),
    }
}
