//! Reading for people: pages of events, one event with all that belongs to it, counts.

use crate::clock::UnixMillis;
use crate::event::{DeliveryKey, EventKey, Position};
use crate::limits::{DEPTH_MAX, LEDGER_EXAMINED_MAX, PAGE_EXAMINED_MAX};
use crate::store::insert::arrivals::parse_recent;
use crate::store::report::columns;
use crate::store::report::key_range::{Page, Range, Recent, Waiting, one_more};
use crate::store::{Store, StoreError, Value, sql};
use oncebox_verify::{Identity, joined_id};

/// One event as `events_v1` shows it, with what explains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Our key.
    pub key: EventKey,
    /// The source's name.
    pub source: String,
    /// The sender's id.
    pub event_id: String,
    /// The sender's type.
    pub event_type: String,
    /// How the identity was made: `id`, `id+body`, `body` or `arrival`.
    pub identity: String,
    /// Digest of the body.
    pub body_sha256: Vec<u8>,
    /// `accepted`, `held` or `conflict`.
    pub state: String,
    /// Why it is held or flagged.
    pub reason: Option<String>,
    /// The event that this one repeats or contradicts.
    pub original: Option<EventKey>,
    /// The first arrival.
    pub received_at: UnixMillis,
    /// How many arrivals.
    pub arrivals: i64,
    /// The latest arrival.
    pub last_arrival_at: UnixMillis,
}

/// One delivery of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// Its key.
    pub delivery: DeliveryKey,
    /// The handler's name.
    pub handler: String,
    /// Its state.
    pub state: String,
    /// Claims so far.
    pub attempt: i64,
    /// When it may be claimed next, while it is ready.
    pub next_attempt_at: Option<UnixMillis>,
    /// When it ended.
    pub finished_at: Option<UnixMillis>,
    /// The last failure.
    pub last_error: Option<String>,
    /// When its latest attempt was claimed; lists leave it out.
    pub claimed_at: Option<UnixMillis>,
}

/// A later arrival that is still remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivalRecord {
    /// When.
    pub at: UnixMillis,
    /// From where.
    pub remote: String,
}

/// The bytes of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadRecord {
    /// Where the first arrival came from.
    pub remote: String,
    /// `name: value` lines.
    pub headers: Vec<u8>,
    /// The body.
    pub body: Vec<u8>,
}

/// An event and all that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDetail {
    /// The event.
    pub event: EventRecord,
    /// Later arrivals, newest first, as far as they are kept.
    pub recent_arrivals: Vec<ArrivalRecord>,
    /// Its deliveries.
    pub deliveries: Vec<DeliveryRecord>,
    /// Its bytes, until retention removes them.
    pub payload: Option<PayloadRecord>,
}

/// Which events to list. What is absent does not matter.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Exactly this source.
    pub source: Option<String>,
    /// A type, with `*` for any run of characters.
    pub event_type: Option<String>,
    /// Exactly this state.
    pub state: Option<String>,
    /// Not before.
    pub since: Option<UnixMillis>,
    /// Before.
    pub until: Option<UnixMillis>,
    /// A part of the id or of the type.
    pub text: Option<String>,
    /// Has a delivery in exactly this state.
    pub delivery_state: Option<String>,
    /// Of exactly this handler; only beside `delivery_state`.
    pub handler: Option<String>,
    /// Older than this event: the cursor of the page before.
    pub before: Option<Position>,
}

/// How many events a source has in one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceCount {
    /// The source's name.
    pub source: String,
    /// The events' state.
    pub state: String,
    /// How many events.
    pub events: i64,
    /// How many arrivals beyond the first of each.
    pub repeats: i64,
}

/// How many deliveries a handler, or messages a destination, has in one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueCount {
    /// The handler or destination.
    pub name: String,
    /// The state.
    pub state: String,
    /// How many.
    pub count: i64,
    /// When the oldest of them was due, for deliveries.
    pub oldest_due_at: Option<UnixMillis>,
}

columns!(EventRecord: key, source, event_id, event_type, identity, body_sha256, state, reason, original, received_at,
    arrivals, last_arrival_at);
columns!(DeliveryRecord: delivery, handler, state, attempt, next_attempt_at, finished_at, last_error, claimed_at);
columns!(PayloadRecord: remote, headers, body);
columns!(SourceCount: source, state, events, repeats);
columns!(QueueCount: name, state, count, oldest_due_at);

/// Counts for `status` and the API.
#[derive(Clone, Debug, Default)]
pub struct StoreStats {
    /// The newest events and their deliveries.
    pub recent: Recent,
    /// What waits or is stopped, by handler.
    pub depths: Vec<Waiting>,
    /// What waits or is stopped, by destination.
    pub message_depths: Vec<Waiting>,
    /// The newest messages by destination and state.
    pub messages: Vec<QueueCount>,
    /// Identities remembered.
    pub ledger_rows: i64,
    /// They are that many at least: more came lately than a look counts.
    pub ledger_rows_is_least: bool,
    /// How many more, or fewer, they are than a day ago.
    pub ledger_rows_last_day: i64,
    /// They are that many more at least: nobody noted a day ago how many there were, and no more were counted.
    pub ledger_rows_last_day_is_least: bool,
}

impl Store {
    /// A page of events, newest first.
    pub async fn events(&self, filter: &EventFilter, limit: usize) -> Result<Page<EventRecord>, StoreError> {
        if let Some(state) = filter.delivery_state.as_deref() {
            return self.events_by_delivery(filter, state, limit).await;
        }
        let range = Range::within(filter.before, filter.since, filter.until);
        let waits = filter.state.as_deref().filter(|state| *state != "accepted");
        let (page, floor) = match waits {
            Some(_) => (&sql::WAITING_PAGE, &sql::WAITING_FLOOR),
            None => (&sql::EVENTS_PAGE, &sql::EVENTS_FLOOR),
        };
        let narrow = filter.source.is_some() || filter.event_type.is_some() || filter.text.is_some();
        // What the range or an index answers alone needs no bound.
        let narrow = narrow || (filter.state.is_some() && waits.is_none());
        let range = if narrow { range.cut(self.floor(floor, range.before, waits).await?) } else { range };
        let items = self.list(page, page_values(filter, range, limit)).await?;
        Ok(range.page(items, limit, |event: &EventRecord| event.key))
    }

    /// A page of what waits for a person: held events, and events with a held delivery.
    pub async fn held(&self, filter: &EventFilter, limit: usize) -> Result<Page<EventRecord>, StoreError> {
        let range = Range::within(filter.before, filter.since, filter.until);
        let (_, last) = range.before.delivery_range();
        let of_events = self.floor(&sql::WAITING_FLOOR, range.before, Some("held")).await?;
        let of_deliveries = self.floor(&sql::STOPPED_FLOOR, last, Some("held")).await?;
        let range = range.cut(of_events).cut(of_deliveries.map(|delivery| delivery.delivery_range().0.position()));
        let mut values = page_values(filter, range, limit);
        values.extend([range.floor.delivery_range().0.into(), last.into()]);
        Ok(range.page(self.list(&sql::HELD_PAGE, values).await?, limit, |event: &EventRecord| event.key))
    }

    /// An event is listed once, by its newest delivery in the state.
    async fn events_by_delivery(
        &self,
        filter: &EventFilter,
        state: &str,
        limit: usize,
    ) -> Result<Page<EventRecord>, StoreError> {
        let (page, floor, of) = match state {
            "dead" | "held" => (&sql::EVENTS_STOPPED_PAGE, &sql::STOPPED_FLOOR, Some(state)),
            _ => (&sql::EVENTS_IN_DELIVERY_STATE_PAGE, &sql::DELIVERIES_FLOOR, None),
        };
        let before = filter.before.map(|before| before.delivery_range().0.position());
        let range = Range::within(before, filter.since, filter.until);
        let floor = self.floor(floor, range.before, of).await?;
        let range = range.cut(floor.map(|delivery| delivery.delivery_range().0.position()));
        let values = vec![
            range.before.into(),
            state.into(),
            filter.handler.as_deref().into(),
            filter.source.as_deref().into(),
            filter.event_type.as_deref().map(like).as_deref().into(),
            filter.since.into(),
            filter.until.into(),
            filter.text.as_deref().map(|text| like(&format!("*{text}*"))).as_deref().into(),
            one_more(limit),
            range.floor.into(),
            range.floor.delivery_range().0.into(),
            range.before.delivery_range().1.into(),
        ];
        let mut items: Vec<EventRecord> = self.list(page, values).await?;
        let whole = items.len() <= limit;
        items.dedup_by_key(|event| event.key);
        if whole {
            return Ok(range.page(items, limit, |event| event.key));
        }
        // The last event may have more deliveries beyond the page; the next page begins below all of them.
        items.truncate(limit);
        let next = items.last().map(|event| event.key.position());
        Ok(Page { items, next, searched_until: None })
    }

    /// Events with a key above `after`, oldest first: for people who watch. One look examines at most so many rows, however
    /// few fit; `next` is where it stopped, if there is more.
    pub async fn events_after(
        &self,
        after: Position,
        filter: &EventFilter,
        limit: usize,
        examined_max: usize,
    ) -> Result<Page<EventRecord>, StoreError> {
        let asked = vec![after.into(), EventKey::MAX.into(), examined_max.saturating_sub(1).into()];
        let last = self.first(&sql::EVENTS_EDGE, asked).await?;
        let values = vec![
            after.into(),
            filter.source.as_deref().into(),
            filter.state.as_deref().into(),
            filter.event_type.as_deref().map(like).as_deref().into(),
            limit.into(),
            last.unwrap_or(Position::MAX).into(),
        ];
        let items: Vec<EventRecord> = self.list(&sql::EVENTS_AFTER, values).await?;
        let next = if items.len() == limit { items.last().map(|event| event.key.position()) } else { last };
        Ok(Page { items, next, searched_until: None })
    }

    /// The event of this key.
    pub async fn event(&self, key: EventKey) -> Result<Option<EventRecord>, StoreError> {
        self.first(&sql::EVENT_BY_KEY, vec![key.into()]).await
    }

    /// The events that carry this id of this source: more than one where ids are unsigned or bodies conflict.
    pub async fn events_named(&self, source: &str, event_id: &str) -> Result<Vec<EventRecord>, StoreError> {
        let mut events: Vec<EventRecord> = Vec::new();
        // One part, or one of two where the other may be missing: then no colon tells that there are two.
        for id in [event_id.as_bytes(), &joined_id([event_id, ""]), &joined_id(["", event_id])] {
            let identity = EventKey::from_bytes(*Identity::of_id(source, id).as_bytes());
            events.extend(self.first(&sql::EVENT_BY_IDENTITY, vec![identity.into()]).await?);
        }
        events.extend(self.list::<EventRecord>(&sql::EVENTS_BY_ID, vec![event_id.into(), source.into()]).await?);
        events.sort_unstable_by_key(|event| event.key);
        events.dedup_by_key(|event| event.key);
        Ok(events)
    }

    /// An event with its later arrivals, deliveries and bytes.
    pub async fn event_detail(&self, key: EventKey) -> Result<Option<EventDetail>, StoreError> {
        let Some(event) = self.event(key).await? else { return Ok(None) };
        let arrivals = self.query(&sql::ARRIVALS_OF, vec![key.into()]).await?;
        let recent = arrivals.first().map(|row| row.text(2)).transpose()?.unwrap_or_default();
        let recent_arrivals =
            parse_recent(&recent).into_iter().map(|(at, remote)| ArrivalRecord { at, remote }).collect();
        let (first, last) = key.delivery_range();
        let deliveries = self.list(&sql::DELIVERIES_OF, vec![key.into(), first.into(), last.into()]).await?;
        let payload = self.payload(key).await?;
        Ok(Some(EventDetail { event, recent_arrivals, deliveries, payload }))
    }

    /// The sources of the newest events.
    pub async fn sources_seen(&self) -> Result<Vec<String>, StoreError> {
        self.list(&sql::SOURCES_SEEN, vec![PAGE_EXAMINED_MAX.into(), EventKey::MAX.into()]).await
    }

    /// The bytes of an event, until retention removes them.
    pub async fn payload(&self, key: EventKey) -> Result<Option<PayloadRecord>, StoreError> {
        self.first(&sql::PAYLOAD_OF, vec![key.into()]).await
    }

    /// Counts for `status` and the API; the daily change counts from `day_ago`.
    pub async fn stats(&self, day_ago: UnixMillis) -> Result<StoreStats, StoreError> {
        let ledger = self.ledger_rows(LEDGER_EXAMINED_MAX).await?;
        let ledger_rows = ledger.total();
        let (ledger_rows_last_day, ledger_rows_last_day_is_least) = match self.ledger_rows_at(day_ago).await? {
            Some(before) => (ledger_rows - before, ledger.is_least),
            None => self.grown_since(day_ago, ledger_rows).await?,
        };
        Ok(StoreStats {
            recent: self.recent(None, None, PAGE_EXAMINED_MAX).await?,
            depths: self.depths(DEPTH_MAX).await?,
            message_depths: self.message_depths(DEPTH_MAX).await?,
            messages: self.recent_messages(PAGE_EXAMINED_MAX).await?,
            ledger_rows,
            ledger_rows_is_least: ledger.is_least,
            ledger_rows_last_day,
            ledger_rows_last_day_is_least,
        })
    }

    /// How many identities came since a time at which nobody looked, so that nothing was removed since, either. Where
    /// there is nothing older, all of them did; otherwise no more are counted than a page looks back.
    async fn grown_since(&self, since: UnixMillis, ledger_rows: i64) -> Result<(i64, bool), StoreError> {
        let values = vec![EventKey::at(since).into(), one_more(PAGE_EXAMINED_MAX)];
        let rows = self.query(&sql::COUNT_RECENT, values).await?;
        let Some(row) = rows.first() else { return Ok((0, false)) };
        let (counted, has_older) = (row.int(0)?, row.int(1)? > 0);
        let bound = i64::try_from(PAGE_EXAMINED_MAX).unwrap_or(i64::MAX);
        Ok(if has_older { (counted.min(bound).min(ledger_rows), counted > bound) } else { (ledger_rows, false) })
    }
}

fn page_values(filter: &EventFilter, range: Range, limit: usize) -> Vec<Value> {
    vec![
        filter.source.as_deref().into(),
        filter.event_type.as_deref().map(like).as_deref().into(),
        filter.state.as_deref().into(),
        filter.since.into(),
        filter.until.into(),
        filter.text.as_deref().map(|text| like(&format!("*{text}*"))).as_deref().into(),
        range.before.into(),
        one_more(limit),
        range.floor.into(),
    ]
}

/// A glob as a LIKE pattern with `!` as its escape.
pub(in crate::store) fn like(glob: &str) -> String {
    let mut pattern = String::with_capacity(glob.len() + 8);
    for c in glob.chars() {
        match c {
            '*' => pattern.push('%'),
            '%' | '_' | '!' => pattern.extend(['!', c]),
            other => pattern.push(other),
        }
    }
    pattern
}
