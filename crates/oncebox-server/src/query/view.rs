//! What the API answers and the commands print: the stored records with the contract's column names and readable times.

mod from_record;
mod outbox;
mod overview;
mod processing;

use jiff::Timestamp;
use oncebox::gateway::clock::UnixMillis;
use oncebox::gateway::store::{
    ArrivalRecord, AttemptRecord, DeliveryRecord, EventDetail, EventRecord, Page, PayloadRecord, QueueCount,
    SourceCount, Store, StoreStats, Waiting, WindowRecord,
};
use oncebox_verify::Source;
use serde::{Deserialize, Serialize};

use crate::observe::rejections::Rejected;
use crate::query::retention::WindowView;
pub(crate) use from_record::view;
pub(crate) use outbox::{
    DeadLetterView, DestinationStats, MessageAttemptView, MessageDetailView, MessageView, OutboxStats,
};
pub(crate) use overview::{
    DeadGroupView, DeadGroupsView, DepthView, DestinationView, GuideView, HandlerView, HeldView, LetterKind,
    MinuteView, NumbersView, OverviewView, RateView, RepeatsView, SecretUseView, SourceDetailView, SourceView,
};
pub(crate) use processing::{ActionView, AttemptView, DeliveryLineView, Done, MissingView};

/// A page of a list.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct Items<T> {
    /// The rows.
    pub(crate) items: Vec<T>,
    /// Where the next page begins.
    pub(crate) next_cursor: Option<String>,
    /// Set where this page stopped looking before it was full: how far back it looked. The next one goes on from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) searched_until: Option<String>,
}

impl<T> Items<T> {
    pub(crate) fn whole(items: Vec<T>) -> Self {
        Self { items, next_cursor: None, searched_until: None }
    }

    /// The table of the rows for a terminal, or `nothing` where there are none, and how to go on.
    pub(crate) fn told(&self, table: impl FnOnce(&[T]) -> String, nothing: &str) -> String {
        let shown = if self.items.is_empty() { nothing.to_owned() } else { table(&self.items) };
        match (&self.next_cursor, &self.searched_until) {
            (None, _) => shown,
            (Some(cursor), None) => format!("{shown}\nthere are more: add --cursor {cursor}"),
            (Some(cursor), Some(until)) => {
                format!("{shown}\nthis looked back to {until}: to go on, add --cursor {cursor}")
            }
        }
    }

    /// The first of what was found, which is one more than the limit where there is another page.
    pub(crate) fn cut<R>(
        mut found: Vec<R>,
        limit: usize,
        cursor: impl FnOnce(&R) -> String,
        view: impl FnMut(R) -> T,
    ) -> Self {
        let is_more = found.len() > limit;
        found.truncate(limit);
        let next_cursor = found.last().filter(|_| is_more).map(cursor);
        Self { items: found.into_iter().map(view).collect(), next_cursor, searched_until: None }
    }

    pub(crate) fn of_page<R: Into<T>>(page: Page<R>) -> Self {
        Self::mapped(page, Into::into)
    }

    /// What the store found, each made a view of.
    pub(crate) fn mapped<R>(page: Page<R>, view: impl FnMut(R) -> T) -> Self {
        Self {
            items: page.items.into_iter().map(view).collect(),
            next_cursor: page.next.map(|key| key.to_string()),
            searched_until: page.searched_until.map(|key| time(key.moment())),
        }
    }
}

view! {
    /// One event.
    EventView of event: EventRecord {
        /// The source's name.
        source: String = event.source,
        /// The sender's id.
        event_id: String = event.event_id,
        /// Our key.
        key: String = event.key.to_string(),
        /// The sender's type.
        r#type: String = event.event_type,
        /// Digest of the body, in hex.
        body_sha256: String = data_encoding::HEXLOWER.encode(&event.body_sha256),
        /// `accepted`, `held` or `conflict`.
        state: String = event.state,
        /// How many times it came.
        arrivals: i64 = event.arrivals,
        /// The first time.
        received_at: String = time(event.received_at),
        /// The latest time.
        last_arrival_at: String = time(event.last_arrival_at),
        /// How the identity was made.
        identity: String = event.identity,
        /// Why it is held or flagged.
        reason: Option<String> = event.reason,
        /// The event it repeats or contradicts.
        original: Option<String> = event.original.map(|key| key.to_string()),
    }
}

/// One event with all that belongs to it.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct EventDetailView {
    /// The event.
    #[serde(flatten)]
    pub(crate) event: EventView,
    /// Later arrivals that are still remembered, newest first.
    pub(crate) recent_arrivals: Vec<ArrivalView>,
    /// Its deliveries.
    pub(crate) deliveries: Vec<DeliveryView>,
    /// The attempts, by handler, without the one by which a delivery is done now.
    pub(crate) attempts: Vec<AttemptView>,
    /// What its handlers want sent, newest first.
    #[serde(default)]
    pub(crate) messages: Vec<MessageView>,
    /// Other events that carry its id: other bytes under it, or the same where the id is not signed.
    #[serde(default)]
    pub(crate) namesakes: Vec<EventView>,
    /// Whether a copy of it would be known as one; not after `forget`, nor for a conflict.
    #[serde(default = "remembered")]
    pub(crate) remembered: bool,
    /// Its bytes, until retention removes them.
    pub(crate) payload: Option<PayloadView>,
    /// When the window of its bytes ended, where they are gone.
    pub(crate) payload_kept_until: Option<String>,
    /// How often it came again, and why that counts as the same event.
    #[serde(default)]
    pub(crate) repeats: RepeatsView,
}

/// What a server says that does not tell yet.
fn remembered() -> bool {
    true
}

view! {
    /// One later arrival.
    ArrivalView of arrival: ArrivalRecord {
        /// When.
        at: String = time(arrival.at),
        /// From where.
        remote: String = arrival.remote,
    }
}

view! {
    /// One delivery.
    DeliveryView of delivery: DeliveryRecord {
        /// The handler's name.
        handler: String = delivery.handler,
        /// Its state.
        state: String = delivery.state.clone(),
        /// Claims so far.
        attempt: i64 = delivery.attempt,
        /// When it may be claimed next.
        next_attempt_at: Option<String> = delivery.next_attempt_at.map(time),
        /// When it ended.
        finished_at: Option<String> = delivery.finished_at.map(time),
        /// The last failure.
        last_error: Option<String> = delivery.last_error,
        /// How long the attempt took that was done, from its claim to its end.
        took_ms: Option<i64> = (delivery.finished_at.zip(delivery.claimed_at))
            .filter(|_| delivery.state == "done")
            .map(|(end, start)| end.saturating_sub(start).max(0)),
    }
}

view! {
    /// The bytes of an event.
    PayloadView of payload: PayloadRecord {
        /// Where the first arrival came from.
        remote: String = payload.remote,
        /// Headers in order, credentials left out.
        headers: Vec<(String, String)> = header_pairs(&payload.headers),
        /// How long the body is.
        body_bytes: usize = payload.body.len(),
        /// The body, where it is text.
        body: Option<String> = str::from_utf8(&payload.body).ok().map(str::to_owned),
        /// The body in base64, where it is not.
        body_base64: Option<String> = (str::from_utf8(&payload.body).is_err())
            .then(|| data_encoding::BASE64.encode(&payload.body)),
    }
}

/// The numbers of `status`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct StatsView {
    /// `sqlite` or `postgres`.
    pub(crate) store: String,
    /// What makes the database unsafe, if anything.
    pub(crate) unsafe_because: Option<String>,
    /// Why the promotion of a standby may lose acknowledged events; nothing where there is no standby.
    #[serde(default)]
    pub(crate) failover_risk: Option<String>,
    /// Share of first attempts that failed; nothing before a first attempt was made.
    pub(crate) first_try_error_rate: Option<f64>,
    /// Share of arrivals that were duplicates.
    pub(crate) duplicate_rate: f64,
    /// Identities remembered.
    pub(crate) ledger_rows: i64,
    /// They are that many at least: more came lately than a look counts.
    #[serde(default)]
    pub(crate) ledger_rows_is_least: bool,
    /// How many more, or fewer, they are than a day ago.
    pub(crate) ledger_rows_daily_change: i64,
    /// They are that many more at least: nobody noted a day ago how many there were, and no more were counted.
    #[serde(default)]
    pub(crate) ledger_rows_daily_change_is_least: bool,
    /// Why nothing that is over is removed, if it is not.
    pub(crate) retention_stopped: Option<String>,
    /// How long what is kept; the one without a source is for everything else.
    #[serde(default)]
    pub(crate) retention: Vec<WindowView>,
    /// The ledger's memory may be shorter than the senders' retries (`retention.force`).
    #[serde(default)]
    pub(crate) retention_forced: bool,
    /// Sources that verify nothing.
    pub(crate) unverified_sources: Vec<String>,
    /// Events by source and state.
    pub(crate) sources: Vec<SourceStats>,
    /// Deliveries by handler and state.
    pub(crate) handlers: Vec<HandlerStats>,
    /// How each handler fares.
    pub(crate) handler_health: Vec<HandlerHealth>,
    /// Messages by destination and state.
    #[serde(default)]
    pub(crate) outbox: Vec<OutboxStats>,
    /// The first event that the rates, the events by source and what is done were counted from; none where all were.
    pub(crate) counted_since: Option<String>,
    /// Destinations that a person should look at.
    #[serde(default)]
    pub(crate) destinations: Vec<DestinationStats>,
}

/// Whether a handler is paused, and how its first attempts went.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct HandlerHealth {
    /// The handler's name.
    pub(crate) handler: String,
    /// Nothing of it is claimed while this is true.
    pub(crate) paused: bool,
    /// Deliveries whose first attempt ended.
    pub(crate) first_tries: i64,
    /// How many of those attempts failed.
    pub(crate) first_tries_failed: i64,
    /// The share of them; nothing before a first attempt was made.
    pub(crate) first_try_error_rate: Option<f64>,
}

view! {
    /// Events of one source in one state.
    SourceStats of count: SourceCount {
        /// The source's name.
        source: String = count.source,
        /// The events' state.
        state: String = count.state,
        /// How many events.
        events: i64 = count.events,
        /// How many arrivals.
        arrivals: i64 = count.events + count.repeats,
    }
}

view! {
    /// Deliveries of one handler in one state.
    HandlerStats of waiting: Waiting {
        /// The handler's name.
        handler: String = waiting.name,
        /// The deliveries' state.
        state: String = waiting.state,
        /// How many.
        count: i64 = waiting.count,
        /// There are more than were counted.
        #[serde(default)]
        more: bool = waiting.more,
        /// When the oldest was due, for what is ready.
        oldest_due_at: Option<String> = waiting.oldest_due_at.map(time),
    }
}

/// One rejection.
#[derive(Clone, Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct RejectionView {
    /// When.
    pub(crate) at: String,
    /// The source's name.
    pub(crate) source: String,
    /// The step that failed.
    pub(crate) step: String,
    /// Why.
    pub(crate) reason: String,
    /// How far the signed time was off.
    pub(crate) off_by_seconds: Option<i64>,
    /// From where.
    pub(crate) remote: String,
    /// What that usually means, and what to do.
    #[serde(default)]
    pub(crate) diagnosis: String,
}

/// A time people can read.
pub(crate) fn time(at: UnixMillis) -> String {
    Timestamp::from_millisecond(at).map_or_else(|_| at.to_string(), |time| format!("{time:.3}"))
}

/// The moment of such a time.
pub(crate) fn millis(text: &str) -> Option<UnixMillis> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

impl HandlerHealth {
    pub(crate) fn new(handler: String, paused: bool, first_tries: i64, first_tries_failed: i64) -> Self {
        let first_try_error_rate = rate(first_tries_failed, first_tries);
        Self { handler, paused, first_tries, first_tries_failed, first_try_error_rate }
    }
}

/// What the store knows of an event beside the event itself.
#[derive(Debug)]
pub(crate) struct Beside {
    pub(crate) attempts: Vec<AttemptRecord>,
    pub(crate) messages: Vec<MessageView>,
    /// The events that carry its id, itself among them.
    pub(crate) named: Vec<EventRecord>,
    /// Whether its identity is still there.
    pub(crate) remembered: bool,
    /// How long payloads of each source are kept.
    pub(crate) windows: Vec<WindowRecord>,
}

impl EventDetailView {
    pub(crate) fn new(detail: EventDetail, beside: Beside) -> Self {
        let event = &detail.event;
        let window = |name: &str| beside.windows.iter().find(|one| one.source == name);
        let window = window(&event.source).or_else(|| window("")).filter(|_| detail.payload.is_none());
        let others = beside.named.into_iter().filter(|other| other.key != event.key);
        Self {
            recent_arrivals: detail.recent_arrivals.into_iter().map(Into::into).collect(),
            deliveries: detail.deliveries.into_iter().map(Into::into).collect(),
            attempts: beside.attempts.into_iter().map(Into::into).collect(),
            messages: beside.messages,
            namesakes: others.map(Into::into).collect(),
            remembered: beside.remembered,
            payload: detail.payload.map(Into::into),
            payload_kept_until: window.map(|one| time(event.received_at.saturating_add(one.payload_ms))),
            repeats: RepeatsView::new(event),
            event: detail.event.into(),
        }
    }
}

impl StatsView {
    pub(crate) fn new(store: &Store, stats: StoreStats, handler_health: Vec<HandlerHealth>) -> Self {
        let recent = stats.recent;
        let events: i64 = recent.events.iter().map(|one| one.events).sum();
        let repeats: i64 = recent.events.iter().map(|one| one.repeats).sum();
        let tried = handler_health.iter().map(|one| one.first_tries).sum();
        let failed = handler_health.iter().map(|one| one.first_tries_failed).sum();
        Self {
            store: store.kind().to_owned(),
            unsafe_because: store.unsafe_because().map(str::to_owned),
            failover_risk: store.failover_risk(),
            first_try_error_rate: rate(failed, tried),
            duplicate_rate: rate(repeats, events + repeats).unwrap_or(0.0),
            ledger_rows: stats.ledger_rows,
            ledger_rows_is_least: stats.ledger_rows_is_least,
            ledger_rows_daily_change: stats.ledger_rows_last_day,
            ledger_rows_daily_change_is_least: stats.ledger_rows_last_day_is_least,
            sources: recent.events.into_iter().map(Into::into).collect(),
            handlers: combined(recent.deliveries, stats.depths).into_iter().map(Into::into).collect(),
            handler_health,
            outbox: combined(stats.messages, stats.message_depths).into_iter().map(Into::into).collect(),
            counted_since: recent.since.map(|key| time(key.moment())),
            ..Self::default()
        }
    }
}

/// What waits is counted on its own; what is over, among the newest.
fn combined(recent: Vec<QueueCount>, depths: Vec<Waiting>) -> Vec<Waiting> {
    let is_counted =
        |one: &QueueCount| depths.iter().any(|depth| (&depth.name, &depth.state) == (&one.name, &one.state));
    let rest = recent.into_iter().filter(|one| !is_counted(one)).map(|one| Waiting {
        name: one.name,
        state: one.state,
        count: one.count,
        more: false,
        oldest_due_at: one.oldest_due_at,
    });
    let mut all: Vec<Waiting> = rest.collect();
    all.extend(depths);
    all.sort_by(|a, b| (&a.name, &a.state).cmp(&(&b.name, &b.state)));
    all
}

impl RejectionView {
    /// The view of a rejection by a source, where the config still has it.
    pub(crate) fn of(rejected: Rejected, source: Option<&Source>) -> Self {
        Self {
            at: time(rejected.at),
            source: rejected.source,
            step: rejected.rejection.step.as_str().to_owned(),
            reason: rejected.rejection.reason.as_str().to_owned(),
            diagnosis: crate::observe::diagnosis::of_rejection(&rejected.rejection, source),
            off_by_seconds: rejected.rejection.off_by_seconds,
            remote: rejected.remote,
        }
    }
}

/// A share; none where there is nothing to share.
fn rate(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn header_pairs(lines: &[u8]) -> Vec<(String, String)> {
    String::from_utf8_lossy(lines)
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
