//! Views of what happens after the acknowledgement: deliveries in lists, attempts, what operators did.

use oncebox::gateway::store::{ActionRecord, AttemptRecord, DeliveryLine, DoneDelivery};
use serde::{Deserialize, Serialize};

use super::from_record::view;
use super::time;

view! {
    /// One delivery in a list, with the columns of `deliveries_v1`.
    DeliveryLineView of line: DeliveryLine {
        /// The delivery's own key.
        delivery: String = line.delivery.delivery.to_string(),
        /// The event's key.
        key: String = line.key.to_string(),
        /// The source's name.
        source: String = line.source,
        /// The sender's id.
        event_id: String = line.event_id,
        /// The sender's type.
        r#type: String = line.event_type,
        /// The handler's name.
        handler: String = line.delivery.handler,
        /// Its state.
        state: String = line.delivery.state,
        /// Claims so far.
        attempt: i64 = line.delivery.attempt,
        /// When it may be claimed next.
        next_attempt_at: Option<String> = line.delivery.next_attempt_at.map(time),
        /// When it ended.
        finished_at: Option<String> = line.delivery.finished_at.map(time),
        /// The last failure.
        last_error: Option<String> = line.delivery.last_error,
    }
}

view! {
    /// An attempt other than the one that the delivery itself tells of.
    AttemptView of attempt: AttemptRecord {
        /// The handler's name.
        handler: String = attempt.handler,
        /// Which attempt, from 1.
        attempt: i64 = attempt.attempt,
        /// When it was claimed.
        started_at: Option<String> = attempt.started_at.map(time),
        /// When it ended.
        ended_at: String = time(attempt.ended_at),
        /// `failed`, `dead`, `superseded`, `held` or `lost`; `done` where the delivery was put back in line afterwards.
        outcome: String = attempt.outcome,
        /// The target's answer, where there was one.
        status: Option<i64> = attempt.status,
        /// Why.
        error: Option<String> = attempt.error,
        /// How long it took.
        took_ms: Option<i64> = attempt.started_at.map(|started| attempt.ended_at - started),
    }
}

view! {
    /// One line of the audit log.
    ActionView of action: ActionRecord {
        /// The id.
        action_id: String = action.id,
        /// `replay`, `release`, `discard`, `forget`, `requeue`, `pause` or `resume`.
        kind: String = action.kind,
        /// What it was about.
        filter: serde_json::Value = serde_json::from_str(&action.filter).unwrap_or_default(),
        /// Who asked.
        who: String = action.who,
        /// How many it would have concerned at its start.
        counted: Option<i64> = action.counted,
        /// How many it concerned so far.
        acted: i64 = action.acted,
        /// When it began.
        started_at: String = time(action.started_at),
        /// When it was through.
        finished_at: Option<String> = action.finished_at.map(time),
    }
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

view! {
    /// An event marked done whose id the business does not know.
    MissingView of done: &DoneDelivery {
        /// The event's key.
        key: String = done.key.to_string(),
        /// The sender's id.
        event_id: String = done.event_id.clone(),
        /// The sender's type.
        r#type: String = done.event_type.clone(),
        /// The handler that was done.
        handler: String = done.handler.clone(),
        /// When it was done.
        finished_at: Option<String> = done.finished_at.map(time),
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
