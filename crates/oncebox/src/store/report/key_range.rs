//! Numbers and pages that look back no further than they must: whatever a page asks for examines a bounded number of
//! rows through an index, however many there are.
//!
//! Keys begin with their time, so "the newest so many" is a range of keys. A filter that no index serves is answered
//! from such a range; the answer says how far it looked, and its cursor goes on from there.

use crate::clock::UnixMillis;
use crate::database::FromRow as _;
use crate::event::{DeliveryKey, EventKey, Key, MessageKey, Position};
use crate::limits::PAGE_EXAMINED_MAX;
use crate::store::report::columns;
use crate::store::report::deliveries::FirstTries;
use crate::store::report::events::{QueueCount, SourceCount};
use crate::store::sql::Statement;
use crate::store::{Row, Store, StoreError, Value, sql};

/// How far a wall clock may be set back before a person has to confirm the time.
const SET_BACK_MS: UnixMillis = 10 * 60 * 1000;

/// A page of a list and where the next one begins.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// The cursor of the next page, if there is one.
    pub next: Option<Position>,
    /// Set where the page stopped looking before it was full: the oldest key it looked at.
    pub searched_until: Option<Position>,
}

/// Numbers of the newest events, and of their deliveries.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    /// Events by source and state.
    pub events: Vec<SourceCount>,
    /// Deliveries by handler and state.
    pub deliveries: Vec<QueueCount>,
    /// How first attempts went, by handler.
    pub tries: Vec<FirstTries>,
    /// The oldest event that was counted, where there are older ones.
    pub since: Option<EventKey>,
}

/// How much waits or is stopped, counted up to a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The handler or destination.
    pub name: String,
    /// The state.
    pub state: String,
    /// How many, at most the bound.
    pub count: i64,
    /// There are more than were counted.
    pub more: bool,
    /// When the oldest of what is ready was due.
    pub oldest_due_at: Option<UnixMillis>,
}

/// What a dead letter gave up with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadError {
    /// The delivery, or the message.
    pub id: Position,
    /// The event's key, where there is one.
    pub key: Option<EventKey>,
    /// The handler, or the destination.
    pub name: String,
    /// The beginning of the error.
    pub error: Option<String>,
    /// When it ended; for a message, when it was written.
    pub at: Option<UnixMillis>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Range {
    /// Exclusive.
    pub(in crate::store) before: Position,
    /// Inclusive.
    pub(in crate::store) floor: Position,
    /// There are rows below the floor that fit the time asked for.
    pub(in crate::store) more: bool,
}

impl Range {
    /// Within times. A key's own time is never before the row's, and after it only where a clock was set back.
    pub(in crate::store) fn within(
        before: Option<Position>,
        since: Option<UnixMillis>,
        until: Option<UnixMillis>,
    ) -> Self {
        let floor = since.map_or(Position::MIN, Position::at);
        let end = until.map_or(Position::MAX, |until| Position::at(until.saturating_add(SET_BACK_MS)));
        Self { before: before.unwrap_or(Position::MAX).min(end), floor, more: false }
    }

    /// Cut at the last row that may be examined.
    pub(in crate::store) fn cut(self, floor: Option<Position>) -> Self {
        match floor {
            Some(floor) if floor > self.floor => Self { floor, more: true, ..self },
            _ => self,
        }
    }

    /// Turns the rows that were found, one more than the limit where there are more, into a page.
    pub(in crate::store) fn page<T, K>(self, mut items: Vec<T>, limit: usize, key: impl Fn(&T) -> Key<K>) -> Page<T> {
        if items.len() > limit {
            items.truncate(limit);
            let next = items.last().map(|item| key(item).position());
            return Page { items, next, searched_until: None };
        }
        let end = self.more.then_some(self.floor);
        Page { items, next: end, searched_until: end }
    }
}

impl Store {
    /// The last row below a key that a page may examine; none where there are fewer.
    pub(in crate::store) async fn floor<K>(
        &self,
        statement: &Statement,
        before: Key<K>,
        state: Option<&str>,
    ) -> Result<Option<Position>, StoreError> {
        let mut values = vec![before.into(), (PAGE_EXAMINED_MAX - 1).into()];
        values.extend(state.map(Value::from));
        self.first(statement, values).await
    }

    /// Numbers of the newest events with keys from `after` to `before`, at most so many events. With `before`, whatever
    /// came again after it is left out of the repeats: they are those of that time.
    pub async fn recent(
        &self,
        after: Option<EventKey>,
        before: Option<EventKey>,
        events_max: usize,
    ) -> Result<Recent, StoreError> {
        let (after, before) = (after.unwrap_or(EventKey::MIN), before.unwrap_or(EventKey::MAX));
        let asked = vec![before.into(), events_max.saturating_sub(1).into()];
        let floor: Option<EventKey> = self.first(&sql::EVENTS_FLOOR, asked).await?;
        let since = floor.filter(|floor| *floor > after);
        let first = since.unwrap_or(after);
        let until = if before == EventKey::MAX { UnixMillis::MAX } else { before.moment() };
        let events = self.list(&sql::RECENT_EVENTS, vec![first.into(), before.into(), until.into()]).await?;
        let last = if before == EventKey::MAX { DeliveryKey::MAX } else { before.delivery_range().0 };
        let range = || vec![Value::from(first.delivery_range().0), last.into()];
        let deliveries = self.query(&sql::RECENT_DELIVERIES, range()).await?;
        let failures = self.query(&sql::RECENT_FIRST_FAILURES, range()).await?;
        Ok(Recent {
            events,
            deliveries: deliveries.iter().map(QueueCount::from_row).collect::<Result<_, _>>()?,
            tries: tries(&deliveries, &failures)?,
            since,
        })
    }

    /// What waits or is stopped, by handler and state, each counted up to a bound.
    pub async fn depths(&self, count_max: usize) -> Result<Vec<Waiting>, StoreError> {
        self.depths_up_to(count_max, count_max).await
    }

    /// The same with a bound for what is ready and another for what is claimed or stopped: whoever asks only since when
    /// something waits need not count what waits.
    pub async fn depths_up_to(&self, ready_max: usize, stopped_max: usize) -> Result<Vec<Waiting>, StoreError> {
        let ready = self.query(&sql::READY_DEPTHS, vec![one_more(ready_max)]).await?;
        let stopped = self.query(&sql::STOPPED_DEPTHS, vec![one_more(stopped_max)]).await?;
        read_depths((&ready, ready_max), (&stopped, stopped_max))
    }

    /// What waits or is stopped, by destination and state, each counted up to a bound.
    pub async fn message_depths(&self, count_max: usize) -> Result<Vec<Waiting>, StoreError> {
        self.message_depths_up_to(count_max, count_max).await
    }

    /// The same with a bound for what is ready and another for what is claimed or stopped.
    pub async fn message_depths_up_to(&self, ready_max: usize, stopped_max: usize) -> Result<Vec<Waiting>, StoreError> {
        let ready = self.query(&sql::MESSAGE_DEPTHS, vec![one_more(ready_max)]).await?;
        let stopped = self.query(&sql::STOPPED_MESSAGE_DEPTHS, vec![one_more(stopped_max)]).await?;
        read_depths((&ready, ready_max), (&stopped, stopped_max))
    }

    /// The newest messages by destination and state.
    pub async fn recent_messages(&self, messages_max: usize) -> Result<Vec<QueueCount>, StoreError> {
        self.list(&sql::RECENT_MESSAGES, vec![messages_max.into(), MessageKey::MAX.into()]).await
    }

    /// What the newest dead deliveries gave up with.
    pub async fn dead_errors(&self, limit: usize) -> Result<Vec<DeadError>, StoreError> {
        self.list(&sql::DEAD_ERRORS, vec![limit.into()]).await
    }

    /// What the newest dead messages gave up with.
    pub async fn dead_message_errors(&self, limit: usize) -> Result<Vec<DeadError>, StoreError> {
        self.list(&sql::DEAD_MESSAGE_ERRORS, vec![limit.into()]).await
    }

    /// The beginnings of the newest bodies below a key, for whoever looks for a text in them.
    pub async fn bodies_below(
        &self,
        before: Option<Position>,
        since: Option<UnixMillis>,
        rows: usize,
        bytes_each: usize,
    ) -> Result<Vec<(EventKey, Vec<u8>)>, StoreError> {
        let range = Range::within(before, since, None);
        let values = vec![range.before.into(), range.floor.into(), rows.into(), bytes_each.into()];
        let read = |row: &Row| Ok((row.key(0)?, row.bytes(1)?));
        self.query(&sql::BODIES_BETWEEN, values).await?.iter().map(read).collect()
    }
}

/// One row more than is shown or counted, to see whether there are more.
pub(in crate::store) fn one_more(number: usize) -> Value {
    number.saturating_add(1).into()
}

columns!(DeadError: id, key, name, error, at);

fn tries(deliveries: &[Row], failures: &[Row]) -> Result<Vec<FirstTries>, StoreError> {
    let mut tries: Vec<FirstTries> = Vec::new();
    for row in deliveries {
        let (handler, tried) = (row.text(0)?, row.int(4)?);
        match tries.iter_mut().find(|one| one.handler == handler) {
            Some(one) => one.tried += tried,
            None => tries.push(FirstTries { handler, tried, failed: 0 }),
        }
    }
    for row in failures {
        let handler = row.text(0)?;
        if let Some(one) = tries.iter_mut().find(|one| one.handler == handler) {
            one.failed = row.int(1)?;
        }
    }
    tries.retain(|one| one.tried > 0);
    Ok(tries)
}

/// A bound on all handlers together may hide some of each.
fn read_depths(ready: (&[Row], usize), stopped: (&[Row], usize)) -> Result<Vec<Waiting>, StoreError> {
    let bound_of = |count_max: usize| i64::try_from(count_max).unwrap_or(i64::MAX);
    let ((ready, bound), (stopped, stopped_max)) = ((ready.0, bound_of(ready.1)), (stopped.0, bound_of(stopped.1)));
    let mut depths = Vec::new();
    for row in ready {
        let counted = row.int(1)?;
        let (count, more) = (counted.min(bound), counted > bound);
        let oldest_due_at = row.optional_int(2)?;
        if count > 0 {
            depths.push(Waiting { name: row.text(0)?, state: "ready".to_owned(), count, more, oldest_due_at });
        }
    }
    let mut totals = std::collections::BTreeMap::<String, i64>::new();
    for row in stopped {
        *totals.entry(row.text(1)?).or_default() += row.int(2)?;
    }
    for row in stopped {
        let state = row.text(1)?;
        let more = totals.get(&state).is_some_and(|total| *total > stopped_max);
        let count = row.int(2)?.min(stopped_max);
        depths.push(Waiting { name: row.text(0)?, state, count, more, oldest_due_at: None });
    }
    Ok(depths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_how_far_it_looked() {
        let key = |ms| Position::at(ms);
        let range = |floor| Range::within(None, Some(5), None).cut(floor);
        let check = |range: Range, found: &[i64], next: Option<i64>, until: Option<i64>| {
            let items: Vec<Position> = found.iter().map(|ms| key(*ms)).collect();
            let page = range.page(items, 2, |one| *one);
            assert_eq!((page.next, page.searched_until), (next.map(key), until.map(key)), "{found:?}");
            assert!(page.items.len() <= 2);
        };
        check(range(None), &[9, 8], None, None);
        check(range(None), &[9, 8, 7], Some(8), None);
        check(range(Some(key(6))), &[9, 8, 7], Some(8), None);
        check(range(Some(key(6))), &[9], Some(6), Some(6));
        check(range(Some(key(6))), &[], Some(6), Some(6));
        check(range(Some(key(4))), &[], None, None);
    }
}
