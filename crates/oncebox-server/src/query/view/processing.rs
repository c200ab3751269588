//! Views of what happens after the acknowledgement: deliveries in lists, attempts, what operators did.

use oncebox::gateway::store::{ActionRecord, AttemptRecord, DeliveryLine, DoneDelivery};
use serde::{Deserialize, Serialize};

use super::time;

/// One delivery in a list, with the columns of `deliveries_v1`.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct DeliveryLineView {
    /// The delivery's own key.
    pub(crate) delivery: String,
    /// The event's key.
    pub(crate) key: String,
    /// The source's name.
    pub(crate) source: String,
    /// The sender's id.
    pub(crate) event_id: String,
    /// The sender's type.
    pub(crate) r#type: String,
    /// The handler's name.
    pub(crate) handler: String,
    /// Its state.
    pub(crate) state: String,
    /// Claims so far.
    pub(crate) attempt: i64,
    /// When it may be claimed next.
    pub(crate) next_attempt_at: Option<String>,
    /// When it ended.
    pub(crate) finished_at: Option<String>,
    /// The last failure.
    pub(crate) last_error: Option<String>,
}

/// An attempt other than the one that the delivery itself tells of.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct AttemptView {
    /// The handler's name.
    pub(crate) handler: String,
    /// Which attempt, from 1.
    pub(crate) attempt: i64,
    /// When it was claimed.
    pub(crate) started_at: Option<String>,
    /// When it ended.
    pub(crate) ended_at: String,
    /// `failed`, `dead`, `superseded`, `held` or `lost`; `done` where the delivery was put back in line afterwards.
    pub(crate) outcome: String,
    /// The target's answer, where there was one.
    pub(crate) status: Option<i64>,
    /// Why.
    pub(crate) error: Option<String>,
    /// How long it took.
    pub(crate) took_ms: Option<i64>,
}

/// One line of the audit log.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct ActionView {
    /// The id.
    pub(crate) action_id: String,
    /// `replay`, `release`, `discard`, `forget`, `requeue`, `pause` or `resume`.
    pub(crate) kind: String,
    /// What it was about.
    pub(crate) filter: serde_json::Value,
    /// Who asked.
    pub(crate) who: String,
    /// How many it would have concerned at its start.
    pub(crate) counted: Option<i64>,
    /// How many it concerned so far.
    pub(crate) acted: i64,
    /// When it began.
    pub(crate) started_at: String,
    /// When it was through.
    pub(crate) finished_at: Option<String>,
}

/// What an action did, or in a dry run would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct Done {
    /// How many it concerned.
    pub(crate) count: i64,
    /// True where nothing was changed.
    pub(crate) dry_run: bool,
    /// The id under which it may be submitted again.
    pub(crate) action_id: Option<String>,
    /// True where it was done before under this id, so that nothing happened now.
    #[serde(default)]
    pub(crate) repeated: bool,
}

/// An event marked done whose id the business does not know.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct MissingView {
    /// The event's key.
    pub(crate) key: String,
    /// The sender's id.
    pub(crate) event_id: String,
    /// The sender's type.
    pub(crate) r#type: String,
    /// The handler that was done.
    pub(crate) handler: String,
    /// When it was done.
    pub(crate) finished_at: Option<String>,
}

impl From<DeliveryLine> for DeliveryLineView {
    fn from(line: DeliveryLine) -> Self {
        let delivery = line.delivery;
        Self {
            delivery: delivery.delivery.to_string(),
            key: line.key.to_string(),
            source: line.source,
            event_id: line.event_id,
            r#type: line.event_type,
            handler: delivery.handler,
            state: delivery.state,
            attempt: delivery.attempt,
            next_attempt_at: delivery.next_attempt_at.map(time),
            finished_at: delivery.finished_at.map(time),
            last_error: delivery.last_error,
        }
    }
}

impl From<AttemptRecord> for AttemptView {
    fn from(attempt: AttemptRecord) -> Self {
        Self {
            handler: attempt.handler,
            attempt: attempt.attempt,
            took_ms: attempt.started_at.map(|started| attempt.ended_at - started),
            started_at: attempt.started_at.map(time),
            ended_at: time(attempt.ended_at),
            outcome: attempt.outcome,
            status: attempt.status,
            error: attempt.error,
        }
    }
}

impl ActionView {
    /// The fields of its filter that say something; times are kept as numbers.
    pub(crate) fn about(&self) -> Vec<(String, String)> {
        let text = |name: &str, value: &serde_json::Value| match value {
            serde_json::Value::Null => None,
            serde_json::Value::String(text) => Some(text.clone()),
            value if matches!(name, "since" | "until") => value.as_i64().map(time),
            value => Some(value.to_string()),
        };
        let fields = self.filter.as_object().into_iter().flatten();
        fields.filter_map(|(name, value)| Some((name.clone(), text(name, value)?))).collect()
    }
}

impl From<ActionRecord> for ActionView {
    fn from(action: ActionRecord) -> Self {
        Self {
            action_id: action.id,
            kind: action.kind,
            filter: serde_json::from_str(&action.filter).unwrap_or_default(),
            who: action.who,
            counted: action.counted,
            acted: action.acted,
            started_at: time(action.started_at),
            finished_at: action.finished_at.map(time),
        }
    }
}

impl From<&DoneDelivery> for MissingView {
    fn from(done: &DoneDelivery) -> Self {
        Self {
            key: done.key.to_string(),
            event_id: done.event_id.clone(),
            r#type: done.event_type.clone(),
            handler: done.handler.clone(),
            finished_at: done.finished_at.map(time),
        }
    }
}
