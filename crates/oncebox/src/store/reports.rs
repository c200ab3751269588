//! Reading for people: pages of events, one event with all that belongs to it, counts.

use super::arrivals::parse_recent;
use super::sql::Statement;
use super::{Row, Store, StoreError, Value, sql};
use crate::clock::UnixMillis;
use crate::event::{EventKey, Identity};

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
    /// Digest of the body, in lower-case hex.
    pub body_sha256: String,
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
    pub delivery: EventKey,
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
    /// Older than this event: the cursor of the page before.
    pub before: Option<EventKey>,
}

/// A page of a list and where the next one begins.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The rows.
    pub items: Vec<T>,
    /// The cursor of the next page, if there is one.
    pub next: Option<EventKey>,
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

/// Counts of everything.
#[derive(Clone, Debug, Default)]
pub struct StoreStats {
    /// Events by source and state.
    pub events: Vec<SourceCount>,
    /// Deliveries by handler and state.
    pub deliveries: Vec<QueueCount>,
    /// Outbox messages by destination and state.
    pub outbox: Vec<QueueCount>,
    /// Identities remembered.
    pub ledger_rows: i64,
    /// How many more, or fewer, they are than a day ago.
    pub ledger_rows_last_day: i64,
}

impl Store {
    /// A page of events, newest first.
    pub async fn events(&self, filter: &EventFilter, limit: usize) -> Result<Page<EventRecord>, StoreError> {
        self.events_page(&sql::EVENTS_PAGE, filter, limit).await
    }

    /// A page of what waits for a person: held events, and events with a held delivery.
    pub async fn held(&self, filter: &EventFilter, limit: usize) -> Result<Page<EventRecord>, StoreError> {
        self.events_page(&sql::HELD_PAGE, filter, limit).await
    }

    /// Events with a key above `after`, oldest first: for people who watch.
    pub async fn events_after(
        &self,
        after: EventKey,
        filter: &EventFilter,
        limit: usize,
    ) -> Result<Vec<EventRecord>, StoreError> {
        let values = vec![
            after.into(),
            optional_text(filter.source.clone()),
            optional_text(filter.state.clone()),
            optional_text(filter.event_type.as_deref().map(like)),
            Value::Int(i64::try_from(limit).unwrap_or(i64::MAX)),
        ];
        self.query(&sql::EVENTS_AFTER, values).await?.iter().map(read_event).collect()
    }

    async fn events_page(
        &self,
        statement: &Statement,
        filter: &EventFilter,
        limit: usize,
    ) -> Result<Page<EventRecord>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX - 1);
        let newest = EventKey::from_bytes([0xff; 16]);
        let values = vec![
            optional_text(filter.source.clone()),
            optional_text(filter.event_type.as_deref().map(like)),
            optional_text(filter.state.clone()),
            optional_int(filter.since),
            optional_int(filter.until),
            optional_text(filter.text.as_deref().map(|text| like(&format!("*{text}*")))),
            filter.before.unwrap_or(newest).into(),
            Value::Int(limit.saturating_add(1)),
        ];
        let rows = self.query(statement, values).await?;
        let more = rows.len() as i64 > limit;
        let shown = rows.iter().take(usize::try_from(limit).unwrap_or(usize::MAX));
        let items = shown.map(read_event).collect::<Result<Vec<_>, _>>()?;
        let next = items.last().filter(|_| more).map(|event| event.key);
        Ok(Page { items, next })
    }

    /// The event of this key.
    pub async fn event(&self, key: EventKey) -> Result<Option<EventRecord>, StoreError> {
        self.query(&sql::EVENT_BY_KEY, vec![key.into()]).await?.first().map(read_event).transpose()
    }

    /// The events that carry this id of this source: more than one where ids are unsigned or bodies conflict.
    pub async fn events_named(&self, source: &str, event_id: &str) -> Result<Vec<EventRecord>, StoreError> {
        let identity = Identity::of_id(source, event_id.as_bytes());
        let identity = EventKey::from_bytes(*identity.as_bytes());
        let mut rows = self.query(&sql::EVENT_BY_IDENTITY, vec![identity.into()]).await?;
        rows.extend(self.query(&sql::EVENTS_BY_ID, vec![event_id.into(), source.into()]).await?);
        rows.iter().map(read_event).collect()
    }

    /// An event with its later arrivals, deliveries and bytes.
    pub async fn event_detail(&self, key: EventKey) -> Result<Option<EventDetail>, StoreError> {
        let Some(event) = self.event(key).await? else { return Ok(None) };
        let arrivals = self.query(&sql::ARRIVALS_OF, vec![key.into()]).await?;
        let recent = arrivals.first().map(|row| row.text(2)).transpose()?.unwrap_or_default();
        let recent_arrivals =
            parse_recent(&recent).into_iter().map(|(at, remote)| ArrivalRecord { at, remote }).collect();
        let (first, last) = key.delivery_range();
        let deliveries = self.query(&sql::DELIVERIES_OF, vec![key.into(), first.into(), last.into()]).await?;
        let deliveries = deliveries.iter().map(read_delivery).collect::<Result<_, _>>()?;
        let payload = self.payload(key).await?;
        Ok(Some(EventDetail { event, recent_arrivals, deliveries, payload }))
    }

    /// The sources that ever sent an event that is still remembered. It reads every event: ask seldom.
    pub async fn sources_seen(&self) -> Result<Vec<String>, StoreError> {
        self.query(&sql::SOURCES_SEEN, Vec::new()).await?.iter().map(|row| row.text(0)).collect()
    }

    /// The bytes of an event, until retention removes them.
    pub async fn payload(&self, key: EventKey) -> Result<Option<PayloadRecord>, StoreError> {
        let rows = self.query(&sql::PAYLOAD_OF, vec![key.into()]).await?;
        rows.first()
            .map(|row| Ok(PayloadRecord { remote: row.text(0)?, headers: row.bytes(1)?, body: row.bytes(2)? }))
            .transpose()
    }

    /// Counts of everything, for `status` and the API; the daily change counts from `day_ago`.
    pub async fn stats(&self, day_ago: UnixMillis) -> Result<StoreStats, StoreError> {
        let events = self.query(&sql::COUNT_EVENTS, Vec::new()).await?;
        let deliveries = self.query(&sql::COUNT_DELIVERIES, Vec::new()).await?;
        let outbox = self.query(&sql::COUNT_OUTBOX, Vec::new()).await?;
        let ledger_rows = self.ledger_rows().await?.iter().map(|(_, rows)| rows).sum();
        let ledger_rows_last_day = match self.ledger_rows_at(day_ago).await? {
            Some(before) => ledger_rows - before,
            // Nobody looked then: nothing was removed since, either.
            None => {
                let recent = self.query(&sql::COUNT_RECENT, vec![EventKey::at(day_ago).into()]).await?;
                recent.first().map(|row| row.int(0)).transpose()?.unwrap_or(0)
            }
        };
        Ok(StoreStats {
            events: events.iter().map(read_source_count).collect::<Result<_, _>>()?,
            deliveries: deliveries.iter().map(|row| read_queue(row, row.optional_int(3)?)).collect::<Result<_, _>>()?,
            outbox: outbox.iter().map(|row| read_queue(row, None)).collect::<Result<_, _>>()?,
            ledger_rows,
            ledger_rows_last_day,
        })
    }
}

fn read_event(row: &Row) -> Result<EventRecord, StoreError> {
    Ok(EventRecord {
        key: row.key(0)?,
        source: row.text(1)?,
        event_id: row.text(2)?,
        event_type: row.text(3)?,
        identity: row.text(4)?,
        body_sha256: data_encoding::HEXLOWER.encode(&row.bytes(5)?),
        state: row.text(6)?,
        reason: row.optional_text(7)?,
        original: row.optional_key(8)?,
        received_at: row.int(9)?,
        arrivals: row.int(10)?,
        last_arrival_at: row.int(11)?,
    })
}

/// Reads the columns that every question about deliveries begins with.
pub(super) fn read_delivery(row: &Row) -> Result<DeliveryRecord, StoreError> {
    let state = row.text(2)?;
    let due_at = row.int(4)?;
    Ok(DeliveryRecord {
        delivery: row.key(0)?,
        handler: row.text(1)?,
        attempt: row.int(3)?,
        next_attempt_at: (state == "ready").then_some(due_at),
        finished_at: row.optional_int(5)?,
        last_error: row.optional_text(6)?,
        state,
    })
}

fn read_source_count(row: &Row) -> Result<SourceCount, StoreError> {
    Ok(SourceCount { source: row.text(0)?, state: row.text(1)?, events: row.int(2)?, repeats: row.int(3)? })
}

fn read_queue(row: &Row, oldest_due_at: Option<UnixMillis>) -> Result<QueueCount, StoreError> {
    Ok(QueueCount { name: row.text(0)?, state: row.text(1)?, count: row.int(2)?, oldest_due_at })
}

fn optional_text(value: Option<String>) -> Value {
    value.map_or(Value::Null, Value::Text)
}

fn optional_int(value: Option<i64>) -> Value {
    value.map_or(Value::Null, Value::Int)
}

/// A glob as a LIKE pattern with `!` as its escape.
pub(super) fn like(glob: &str) -> String {
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
