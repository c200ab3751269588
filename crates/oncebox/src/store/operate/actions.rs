//! What operators do to many: replay, backfill, release, discard, forget, and requeue for `reconcile`.
//!
//! An action works in slices, each a transaction that also says how far the action came. Killed midway and submitted
//! again under its id it goes on where it stopped; finished, it answers with what it did and does nothing. The rows of
//! `actions` are the audit log.

use std::collections::BTreeSet;

use crate::clock::UnixMillis;
use crate::database::{Transaction as _, first};
use crate::delivery::routing::Routes;
use crate::event::{EventKey, Position};
use crate::limits::PAGE_EXAMINED_MAX;
use crate::store::operate::action_filter::ActionFilter;
use crate::store::operate::conflicts::conflict_phase;
use crate::store::report::columns;
use crate::store::{Row, Store, StoreError, Tx, sql};

pub(in crate::store) const SLICE: i64 = 500;

/// What an operator wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionKind {
    /// Dead letters get another chance, with a fresh budget of attempts; or, where the filter says so, what waits for
    /// its next attempt is due now.
    Replay,
    /// A handler gets stored events that it never had.
    Backfill,
    /// Held events and deliveries may run; so may a conflict that is named or asked for.
    Release,
    /// Dead and held ones never run; a conflict that is named or asked for is told of no more.
    Discard,
    /// The identity is dropped, so that a redelivery counts as new.
    Forget,
    /// Done deliveries run again: only for `reconcile`, by keys.
    Requeue,
    /// The bytes of a subject's events go: see [`Store::erase`].
    Erase,
}

/// An action under its own id.
#[derive(Clone, Debug)]
pub struct Action {
    /// The id: the same one twice acts once.
    pub id: String,
    /// What to do.
    pub kind: ActionKind,
    /// To what.
    pub filter: ActionFilter,
    /// Who asked.
    pub who: String,
}

/// One line of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionRecord {
    /// The id.
    pub id: String,
    /// `replay`, `backfill`, `release`, `discard`, `forget`, `requeue`, `erase`, `pause`, `resume`, `arm`, `disarm`,
    /// `secret` (one was taken), `retention` or `confirm`.
    pub kind: String,
    /// What it was about, as JSON.
    pub filter: String,
    /// Who asked.
    pub who: String,
    /// How many it would have concerned at its start.
    pub counted: Option<i64>,
    /// How many it concerned so far.
    pub acted: i64,
    /// When it began.
    pub started_at: UnixMillis,
    /// When it was through.
    pub finished_at: Option<UnixMillis>,
}

/// Why an action is refused.
#[derive(Debug, thiserror::Error)]
pub enum ActionError {
    /// It would concern everything.
    #[error("the filter is empty")]
    EmptyFilter,
    /// The state is none that this action starts from.
    #[error("the state does not fit the action")]
    State,
    /// A backfill names a handler and when to begin, and somebody knows what the handler wants.
    #[error("a backfill needs a handler that is configured, and since when")]
    Backfill,
    /// What handlers want decides who gets the other body of a conflict, and nobody here knows it.
    #[error("to release a conflict one must know what the handlers want")]
    Unrouted,
    /// Messages can be replayed and discarded when they are stopped, and no part of an event names them.
    #[error(
        "messages can be replayed when they are dead, and discarded when they are dead or nobody serves their destination; \
         name them by destination, message, handler, since and until"
    )]
    Messages,
    /// The id belongs to another action.
    #[error("the action id was used for something else")]
    Reused,
    /// The database failed; the same action may be submitted again.
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub(in crate::store) struct Progress {
    pub(in crate::store) acted: i64,
    pub(in crate::store) phase: i64,
    pub(in crate::store) reached: Position,
    pub(in crate::store) finished: bool,
}

/// What one slice did; none of `reached` means that the phase is over.
pub(in crate::store) struct Slice {
    pub(in crate::store) acted: i64,
    pub(in crate::store) reached: Option<Position>,
}

impl Store {
    /// How many an action would concern. [`Store::count_backfill`] knows it of a backfill, [`Store::count_hurry`] of what
    /// waits for its next attempt.
    pub async fn count_action(&self, kind: ActionKind, filter: &ActionFilter) -> Result<i64, ActionError> {
        filter.check(kind)?;
        match kind {
            ActionKind::Backfill => return Err(ActionError::Backfill),
            ActionKind::Replay if filter.waiting => return Err(ActionError::State),
            _ => {}
        }
        if filter.is_about_messages() {
            return self.count_messages(filter).await;
        }
        if kind == ActionKind::Forget {
            return self.count_forgettable(filter).await;
        }
        let conflicts = self.count_conflicts(kind, filter).await?;
        if conflict_phase(kind, filter) == Some(0) {
            return Ok(conflicts);
        }
        let [from, or_from] = kind.from(filter);
        let mut values = filter.of_deliveries(Position::MIN, self.dialect());
        values.extend([filter.handler.as_deref().into(), from.into(), or_from.into(), filter.key.into()]);
        let mut count = conflicts + self.number(&sql::ACTION_COUNT, values).await?;
        if kind.settles_events(filter) {
            let mut values = filter.of_events(Position::MIN, self.dialect());
            values.push("held".into());
            count += self.number(&sql::COUNT_BARE_EVENTS, values).await?;
        }
        Ok(count)
    }

    /// Does it, in slices, and says how many it concerned in all. What makes deliveries needs to know what handlers want:
    /// a backfill, and the release of a conflict.
    pub async fn act(&self, action: &Action, routes: Option<&Routes>, now: UnixMillis) -> Result<i64, ActionError> {
        let route = routes.zip(action.filter.handler.as_deref()).and_then(|(routes, name)| routes.of_handler(name));
        let counted = match (action.kind, route) {
            (ActionKind::Backfill, Some(route)) => self.count_backfill(&action.filter, route).await?,
            (ActionKind::Replay, _) if action.filter.waiting => self.count_hurry(&action.filter, now).await?,
            _ => self.count_action(action.kind, &action.filter).await?,
        };
        self.check_routed(action, routes).await?;
        let about = action.filter.to_json();
        self.open_action(action, &about, counted, now).await?;
        let takes_waiting = action.kind == ActionKind::Discard && action.filter.waiting;
        let conflicts = conflict_phase(action.kind, &action.filter);
        let phases = match conflicts {
            Some(phase) => phase + 1,
            None if action.kind.settles_events(&action.filter) || takes_waiting => 2,
            None => 1,
        };
        loop {
            let (mut tx, progress) = self.begin_slice(action, &about).await?;
            if progress.finished {
                return Ok(progress.acted);
            }
            let slice = match (progress.phase, action.kind, route) {
                (_, ActionKind::Replay, _) if action.filter.waiting => tx.hurry_slice(action, &progress, now).await?,
                (_, ActionKind::Backfill, Some(route)) => tx.backfill_slice(action, route, &progress, now).await?,
                _ if action.filter.is_about_messages() => tx.message_slice(action, &progress, now).await?,
                (phase, _, _) if conflicts == Some(phase) => tx.conflict_slice(action, routes, &progress, now).await?,
                (0, ActionKind::Forget, _) => tx.forget_slice(action, &progress).await?,
                (0, _, _) => tx.move_slice(action, &progress, now).await?,
                _ => tx.settle_slice(action, &progress).await?,
            };
            tx.advance(action, &progress, slice, phases, now).await?;
            tx.commit_or_fail().await?;
        }
    }

    /// Puts done deliveries of these events back in line: for `reconcile`, which knows that their effect is missing.
    pub async fn requeue(&self, action: &Action, keys: &[EventKey], now: UnixMillis) -> Result<i64, ActionError> {
        let handler = action.filter.handler.as_deref().ok_or(ActionError::EmptyFilter)?;
        let mut keys = keys.to_vec();
        keys.sort();
        keys.dedup();
        let about = action.filter.to_json();
        self.open_action(action, &about, count(keys.len()), now).await?;
        loop {
            let (mut tx, progress) = self.begin_slice(action, &about).await?;
            if progress.finished {
                return Ok(progress.acted);
            }
            let slice = tx.requeue_slice(handler, &keys, &progress, now).await?;
            tx.advance(action, &progress, slice, 1, now).await?;
            tx.commit_or_fail().await?;
        }
    }

    /// The newest lines of the audit log; or those that come after one, which is named by its time and id: the next page.
    pub async fn actions_after(
        &self,
        last: Option<(UnixMillis, &str)>,
        limit: usize,
    ) -> Result<Vec<ActionRecord>, StoreError> {
        let (at, id) = last.unzip();
        self.list(&sql::ACTIONS, vec![limit.into(), at.into(), id.into()]).await
    }

    /// The line of one action: what it was about and how far it came.
    pub async fn action(&self, id: &str) -> Result<Option<ActionRecord>, StoreError> {
        self.first(&sql::ACTION_BY_ID, vec![id.into()]).await
    }

    pub(in crate::store) async fn open_action(
        &self,
        action: &Action,
        about: &str,
        counted: i64,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        let first = Position::MIN;
        let (id, kind, who) = (action.id.as_str(), action.kind.as_str(), action.who.as_str());
        let values = vec![id.into(), kind.into(), about.into(), who.into(), counted.into(), first.into(), now.into()];
        self.write(&sql::OPEN_ACTION, values).await.map(drop)
    }

    /// A transaction for the next slice, in which nobody else works on the same action, and how far it came before.
    pub(in crate::store) async fn begin_slice(
        &self,
        action: &Action,
        about: &str,
    ) -> Result<(Tx, Progress), ActionError> {
        self.faults.at("actions.slice").await.map_err(StoreError::from)?;
        let mut tx = self.begin().await?;
        let rows = tx.query(&sql::LOCK_ACTION, vec![action.id.as_str().into()]).await?;
        let row = rows.first().ok_or(StoreError::Corrupt { what: "action" })?;
        if row.text(0)? != action.kind.as_str() || row.text(1)? != about {
            return Err(ActionError::Reused);
        }
        let finished = row.optional_int(5)?.is_some();
        Ok((tx, Progress { acted: row.int(2)?, phase: row.int(3)?, reached: row.key(4)?, finished }))
    }
}

impl Tx {
    pub(in crate::store) async fn advance(
        &mut self,
        action: &Action,
        progress: &Progress,
        slice: Slice,
        phases: i64,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        let (phase, reached) = match slice.reached {
            Some(reached) => (progress.phase, reached),
            None => (progress.phase + 1, Position::MIN),
        };
        let over = i64::from(phase >= phases);
        let id = action.id.as_str();
        let values = vec![id.into(), slice.acted.into(), phase.into(), reached.into(), over.into(), now.into()];
        self.execute(&sql::ADVANCE_ACTION, values).await.map(drop)
    }

    async fn move_slice(&mut self, action: &Action, at: &Progress, now: UnixMillis) -> Result<Slice, StoreError> {
        let (filter, kind) = (&action.filter, action.kind);
        let [from, or_from] = kind.from(filter);
        let mut values = filter.of_deliveries(at.reached, self.dialect());
        values.extend([filter.handler.as_deref().into(), from.into(), or_from.into(), kind.to().into()]);
        values.extend([now.into(), SLICE.into(), filter.key.into()]);
        let rows = self.query(&sql::ACTION_SLICE, values).await?;
        if kind != ActionKind::Replay {
            // In the order of their keys, so that two actions never wait for each other in a circle.
            for key in rows.iter().map(|row| row.key(1)).collect::<Result<BTreeSet<_>, _>>()? {
                self.settle(key).await?;
            }
        }
        Slice::of(&rows)
    }

    /// Held events that no handler wanted have no delivery that could be moved.
    async fn settle_slice(&mut self, action: &Action, at: &Progress) -> Result<Slice, StoreError> {
        let (rows, _) = self.events_slice(&action.filter, Some("held"), at).await?;
        let mut slice = Slice { acted: 0, reached: None };
        for row in &rows {
            let key = row.key(0)?;
            slice.acted += self.settle(key).await?;
            slice.reached = Some(key.position());
        }
        Ok(slice)
    }

    async fn settle(&mut self, key: EventKey) -> Result<i64, StoreError> {
        let (first, last) = key.delivery_range();
        self.query(&sql::LOCK_EVENT, vec![key.into()]).await?;
        let rows = self.execute(&sql::SETTLE_EVENT, vec![key.into(), first.into(), last.into()]).await?;
        Ok(i64::try_from(rows).unwrap_or(0))
    }

    async fn requeue_slice(
        &mut self,
        handler: &str,
        keys: &[EventKey],
        at: &Progress,
        now: UnixMillis,
    ) -> Result<Slice, StoreError> {
        let mut slice = Slice { acted: 0, reached: None };
        for key in keys.iter().filter(|key| key.position() > at.reached).take(count_of(SLICE)) {
            let delivery = key.of_delivery(handler);
            slice.reached = Some(key.position());
            if !self.keep_payload(*key).await? {
                tracing::warn!(%key, handler, "cannot run again: its payload is no longer kept");
                continue;
            }
            self.execute(&sql::KEEP_DONE_ATTEMPT, vec![delivery.into()]).await?;
            let rows = self.execute(&sql::REQUEUE, vec![delivery.into(), now.into()]).await?;
            slice.acted += i64::try_from(rows).unwrap_or(0);
        }
        Ok(slice)
    }

    /// The events of a slice, and how far it came. A filter that few fit must not hold the one writer for as long as the
    /// table is, so a slice also ends once it has looked at as many as a page may.
    pub(in crate::store) async fn events_slice(
        &mut self,
        filter: &ActionFilter,
        state: Option<&str>,
        at: &Progress,
    ) -> Result<(Vec<Row>, Option<Position>), StoreError> {
        let mut values = filter.of_events(at.reached, self.dialect());
        values.extend([state.into(), SLICE.into()]);
        let mut edge: Option<Position> = None;
        if !waits(state) {
            let asked = vec![values[0].clone(), values[5].clone(), (PAGE_EXAMINED_MAX - 1).into()];
            edge = first(&self.query(&sql::EVENTS_EDGE, asked).await?)?;
        }
        if let Some(edge) = edge {
            values[5] = edge.into();
        }
        let statement = if waits(state) { &sql::WAITING_ACTION_EVENTS } else { &sql::ACTION_EVENTS };
        let rows = self.query(statement, values).await?;
        let last = rows.last().map(|row| row.key(0)).transpose()?;
        let is_full = rows.len() >= count_of(SLICE);
        Ok((rows, edge.filter(|_| !is_full).or(last)))
    }
}

columns!(ActionRecord: id, kind, filter, who, counted, acted, started_at, finished_at);

impl Slice {
    /// Of these rows, which begin with their keys, all were acted on.
    pub(in crate::store) fn of(rows: &[Row]) -> Result<Self, StoreError> {
        let keys = rows.iter().map(|row| row.key(0)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { acted: count(rows.len()), reached: keys.into_iter().max() })
    }
}

impl ActionKind {
    /// The word kept in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Backfill => "backfill",
            Self::Release => "release",
            Self::Discard => "discard",
            Self::Forget => "forget",
            Self::Requeue => "requeue",
            Self::Erase => "erase",
        }
    }

    /// The states that it starts from; one of them twice where it is only one.
    fn from(self, filter: &ActionFilter) -> [&'static str; 2] {
        match (self, filter.state.as_deref()) {
            (Self::Release, _) | (Self::Discard, Some("held")) => ["held", "held"],
            (Self::Discard, None) => ["dead", "held"],
            _ => ["dead", "dead"],
        }
    }

    fn to(self) -> &'static str {
        if self == Self::Discard { "discarded" } else { "ready" }
    }

    fn settles_events(self, filter: &ActionFilter) -> bool {
        let held = matches!(self, Self::Release | Self::Discard) && self.from(filter)[1] == "held";
        held && filter.handler.is_none() && !filter.is_about_messages()
    }
}

/// True for the states that have an index of their own.
pub(in crate::store) fn waits(state: Option<&str>) -> bool {
    state.is_some_and(|state| state != "accepted")
}

pub(in crate::store) fn count(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

fn count_of(slice: i64) -> usize {
    usize::try_from(slice).unwrap_or(usize::MAX)
}
