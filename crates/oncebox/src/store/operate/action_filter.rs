//! Which rows an action is about: what an operator names, checked against what the action can do.

use crate::clock::UnixMillis;
use crate::event::{EventKey, MessageKey, Position};
use crate::store::operate::actions::{ActionError, ActionKind};
use crate::store::{Dialect, Value};

/// Which events or deliveries are meant. What is absent does not matter, but something must be there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionFilter {
    /// Exactly this source.
    pub source: Option<String>,
    /// A type, with `*` for any run of characters.
    pub event_type: Option<String>,
    /// `dead` or `held` for deliveries, `conflict` for events that are one; the event's state for forget.
    pub state: Option<String>,
    /// Exactly this handler.
    pub handler: Option<String>,
    /// Received not before.
    pub since: Option<UnixMillis>,
    /// Received before.
    pub until: Option<UnixMillis>,
    /// Exactly this event.
    pub key: Option<EventKey>,
    /// Messages to this destination, in place of deliveries.
    pub destination: Option<String>,
    /// Exactly this message, in place of deliveries.
    pub message: Option<MessageKey>,
    /// A replay is about what waits for its next attempt, in place of dead letters. A discard is about messages that
    /// wait, too: whoever asks knows that nobody serves their destination.
    pub waiting: bool,
}

impl ActionFilter {
    pub(in crate::store) fn check(&self, kind: ActionKind) -> Result<(), ActionError> {
        if *self == (Self { waiting: self.waiting, ..Self::default() }) {
            return Err(ActionError::EmptyFilter);
        }
        if self.is_about_messages() {
            return self.check_messages(kind);
        }
        if kind == ActionKind::Backfill && (self.handler.is_none() || self.since.is_none()) {
            return Err(ActionError::Backfill);
        }
        let fits = match (kind, self.state.as_deref()) {
            (_, None) => true,
            (ActionKind::Replay, Some(state)) if self.waiting => state == "ready",
            (ActionKind::Replay, Some(state)) => state == "dead",
            // A conflict is settled as a whole.
            (ActionKind::Release | ActionKind::Discard, Some("conflict")) => self.handler.is_none(),
            (ActionKind::Release, Some(state)) => state == "held",
            (ActionKind::Discard, Some(state)) => state == "dead" || state == "held",
            (ActionKind::Forget, Some(state)) => ["accepted", "held", "conflict"].contains(&state),
            (ActionKind::Backfill | ActionKind::Requeue | ActionKind::Erase, Some(_)) => false,
        };
        let by_event = kind != ActionKind::Forget || self.handler.is_none();
        if fits && by_event { Ok(()) } else { Err(ActionError::State) }
    }

    /// The values of `$1` to `$6` about events.
    pub(in crate::store) fn of_events(&self, after: Position, dialect: Dialect) -> Vec<Value> {
        self.values(after, self.key.map(|key| (key.position(), key.position())), dialect)
    }

    /// The values of `$1` to `$6` about deliveries.
    pub(in crate::store) fn of_deliveries(&self, after: Position, dialect: Dialect) -> Vec<Value> {
        let named = self.key.map(|key| key.delivery_range());
        self.values(after, named.map(|(first, last)| (first.position(), last.position())), dialect)
    }

    /// `$1` and `$6` bound the keys, so that an action on one event reads that one and not the table. A key's own time is
    /// never before its event's; where a clock was set back it is after it, so `until` bounds no keys.
    fn values(&self, after: Position, named: Option<(Position, Position)>, dialect: Dialect) -> Vec<Value> {
        let (first, last) = named.unwrap_or((self.since.map_or(Position::MIN, Position::at), Position::MAX));
        let glob = self.event_type.as_deref().map(|glob| pattern(glob, dialect));
        vec![
            just_below(first).max(after).into(),
            self.source.as_deref().into(),
            glob.as_deref().into(),
            self.since.into(),
            self.until.into(),
            last.into(),
        ]
    }

    pub(in crate::store) fn to_json(&self) -> String {
        let mut about = serde_json::json!({
            "source": self.source, "type": self.event_type, "state": self.state, "handler": self.handler,
            "since": self.since, "until": self.until, "key": self.key.map(|key| key.to_string()),
        });
        if self.is_about_messages() {
            about["destination"] = self.destination.as_deref().into();
            about["message"] = self.message.map(|id| id.to_string()).into();
        }
        if self.waiting {
            about["waiting"] = true.into();
        }
        about.to_string()
    }
}

/// The key before this one: what comes after it begins with this one.
pub(in crate::store) fn just_below(key: Position) -> Position {
    Position::from_bytes(u128::from_be_bytes(*key.as_bytes()).saturating_sub(1).to_be_bytes())
}

/// SQLite's LIKE ignores case on the connection that handlers share with us, so there it is GLOB.
fn pattern(glob: &str, dialect: Dialect) -> String {
    match dialect {
        Dialect::Postgres => crate::store::report::events::like(glob),
        Dialect::Sqlite => glob.replace('[', "[[]").replace('?', "[?]"),
    }
}
