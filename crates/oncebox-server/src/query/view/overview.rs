//! Views of whole screens: what the overview, the lists of sources and handlers, and the groups of dead letters show.

use oncebox::gateway::store::EventRecord;
use serde::{Deserialize, Serialize};

use super::EventView;
use crate::observe::diagnosis;
use crate::observe::traffic::{Minute, Results};
use crate::query::view::{rate, time};

/// The first page.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct OverviewView {
    /// The three numbers.
    pub(crate) numbers: NumbersView,
    /// The last hour of the node that answers, oldest minute first.
    pub(crate) minutes: Vec<MinuteView>,
    /// When that node began to count.
    pub(crate) minutes_since: String,
    /// The handlers.
    pub(crate) handlers: Vec<HandlerView>,
    /// The sources.
    pub(crate) sources: Vec<SourceView>,
    /// The destinations.
    pub(crate) destinations: Vec<DestinationView>,
    /// Events that wait for a person.
    pub(crate) held: DepthView,
    /// `sqlite` or `postgres`.
    pub(crate) store: String,
    /// What makes the database unsafe, if anything.
    pub(crate) unsafe_because: Option<String>,
    /// Why the promotion of a standby may lose acknowledged events; nothing where there is no standby.
    pub(crate) failover_risk: Option<String>,
    /// Sources that verify nothing.
    pub(crate) unverified_sources: Vec<String>,
    /// The first event that the numbers of sources and handlers were counted from; none where all were.
    pub(crate) counted_since: Option<String>,
}

/// The three numbers people watch.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct NumbersView {
    /// Share of first attempts that failed.
    pub(crate) first_try_error_rate: RateView,
    /// Share of arrivals that were duplicates: of what came to the node that answers within the last hour, however old
    /// the event; beside it, of the newest events before that hour.
    pub(crate) duplicate_rate: RateView,
    /// Identities remembered.
    pub(crate) ledger_rows: i64,
    /// They are that many at least: more came lately than a look counts.
    pub(crate) ledger_rows_is_least: bool,
    /// How many more, or fewer, than a day ago.
    pub(crate) ledger_rows_daily_change: i64,
    /// They are that many more at least: no more were counted.
    pub(crate) ledger_rows_daily_change_is_least: bool,
}

/// A share within the last hour, beside what it was before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub(crate) struct RateView {
    /// The share; none where there was nothing.
    pub(crate) value: Option<f64>,
    /// Of how many.
    pub(crate) of: i64,
    /// The share of the newest events before that hour.
    pub(crate) baseline: Option<f64>,
    /// Of how many.
    pub(crate) baseline_of: i64,
}

/// What came within one minute.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct MinuteView {
    /// When it began.
    pub(crate) at: String,
    /// What became of it.
    #[serde(flatten)]
    pub(crate) results: Results,
    /// How long the median answer took, in milliseconds; none without any.
    pub(crate) p50_ms: Option<f64>,
    /// The same for 95 of 100.
    pub(crate) p95_ms: Option<f64>,
    /// The same for 99 of 100.
    pub(crate) p99_ms: Option<f64>,
}

/// How many wait, counted up to a bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(crate) struct DepthView {
    /// How many.
    pub(crate) count: i64,
    /// There are more than were counted.
    pub(crate) more: bool,
}

/// A handler.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct HandlerView {
    /// Its name.
    pub(crate) handler: String,
    /// The config names it.
    pub(crate) configured: bool,
    /// Nothing of it is claimed while this is true.
    pub(crate) paused: bool,
    /// How often it is tried, where a server registered it.
    pub(crate) attempts: Option<i64>,
    /// How long a worker may keep a delivery.
    pub(crate) lease_seconds: Option<u64>,
    /// What waits to run.
    pub(crate) ready: DepthView,
    /// What runs.
    pub(crate) claimed: DepthView,
    /// What gave up.
    pub(crate) dead: DepthView,
    /// What waits for a person.
    pub(crate) held: DepthView,
    /// When the oldest of what is ready was due.
    pub(crate) oldest_due_at: Option<String>,
    /// Done, among the deliveries of the newest events.
    pub(crate) done: i64,
    /// Superseded, among those.
    pub(crate) superseded: i64,
    /// First attempts that ended, among those.
    pub(crate) first_tries: i64,
    /// How many of them failed.
    pub(crate) first_tries_failed: i64,
}

/// A destination of the outbox.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct DestinationView {
    /// Its name.
    pub(crate) destination: String,
    /// The config names it; messages to others wait until it does.
    pub(crate) configured: bool,
    /// What waits to be sent.
    pub(crate) ready: DepthView,
    /// What is being sent.
    pub(crate) claimed: DepthView,
    /// What gave up.
    pub(crate) dead: DepthView,
    /// Sent, among the newest messages.
    pub(crate) sent: i64,
    /// When the oldest of what is ready was due.
    pub(crate) oldest_due_at: Option<String>,
}

/// A source.
#[derive(Clone, Debug, Default, Serialize, utoipa::ToSchema)]
pub(crate) struct SourceView {
    /// Its name.
    pub(crate) name: String,
    /// The provider's name; empty for one that was removed.
    pub(crate) provider: String,
    /// The config names it.
    pub(crate) configured: bool,
    /// The path of the public listener.
    pub(crate) url: String,
    /// What to give to the vendor, where the config says how senders reach us. `{token}` stands for the path token.
    pub(crate) public_url: Option<String>,
    /// How many secrets it has.
    pub(crate) secrets: usize,
    /// How they are used on this node since it started.
    pub(crate) secret_uses: Vec<SecretUseView>,
    /// Somebody verifies who sends.
    pub(crate) verified: bool,
    /// Its secret arrives by a handshake.
    pub(crate) awaits_secret: bool,
    /// What came to this node within the last hour.
    pub(crate) last_hour: Results,
    /// Its events among the newest.
    pub(crate) events: i64,
    /// How often those came.
    pub(crate) arrivals: i64,
    /// How many of them are held.
    pub(crate) held: i64,
    /// How many are conflicts.
    pub(crate) conflicts: i64,
}

impl SourceView {
    /// True where a token stands at the end of its URL.
    pub(crate) fn has_path_token(&self) -> bool {
        self.url.ends_with("/{token}")
    }

    /// One that the config does not name any more.
    pub(crate) fn removed(name: &str) -> Self {
        Self { name: name.to_owned(), verified: true, ..Self::default() }
    }
}

/// How one secret is used.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct SecretUseView {
    /// Which one, from 1.
    pub(crate) position: usize,
    /// Requests it matched.
    pub(crate) matches: u64,
    /// The latest of them.
    pub(crate) last_matched_at: Option<String>,
}

/// A source with its guide.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct SourceDetailView {
    /// The source.
    #[serde(flatten)]
    pub(crate) source: SourceView,
    /// How to set it up.
    pub(crate) guide: GuideView,
}

/// How to set a provider up.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct GuideView {
    /// The vendor's name.
    pub(crate) title: String,
    /// What to click at the vendor.
    pub(crate) setup: String,
    /// Which secret to copy.
    pub(crate) secret_hint: String,
    /// Where the vendor describes it.
    pub(crate) docs: String,
    /// What else people want to know, as labels and texts.
    pub(crate) lines: Vec<(String, String)>,
    /// What to write into the config.
    pub(crate) config: String,
}

/// What waits for a person.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct HeldView {
    /// The event.
    #[serde(flatten)]
    pub(crate) event: EventView,
    /// Why it waits.
    pub(crate) why: String,
    /// What a release does.
    pub(crate) release_does: String,
}

/// What a dead letter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LetterKind {
    /// A delivery.
    Delivery,
    /// A message.
    Message,
}

/// Dead letters by error.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct DeadGroupsView {
    /// The groups, the largest first.
    pub(crate) items: Vec<DeadGroupView>,
    /// There are more dead letters than were grouped: these are the newest.
    pub(crate) more: bool,
    /// Always nothing: all groups are on one page.
    pub(crate) next_cursor: Option<String>,
}

/// Dead letters with one error.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct DeadGroupView {
    /// Deliveries or messages.
    pub(crate) kind: LetterKind,
    /// The handler, or the destination.
    pub(crate) name: String,
    /// The error, with `#` for numbers and ids.
    pub(crate) error: String,
    /// How many.
    pub(crate) count: i64,
    /// When the newest ended; for messages, when it was written.
    pub(crate) newest_at: Option<String>,
    /// When the oldest did.
    pub(crate) oldest_at: Option<String>,
    /// The newest one's error, as it was.
    pub(crate) example: Option<String>,
    /// The newest delivery or message.
    pub(crate) example_id: String,
    /// Its event, where there is one.
    pub(crate) example_key: Option<String>,
}

/// How often an event came again, and why that counts as the same event.
#[derive(Clone, Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub(crate) struct RepeatsView {
    /// Arrivals beyond the first: each was answered `duplicate`, or `conflict` where the event is one, and ran nothing.
    pub(crate) count: i64,
    /// What makes two requests this one event.
    pub(crate) rule: String,
}

impl RepeatsView {
    pub(crate) fn new(event: &EventRecord) -> Self {
        Self { count: event.arrivals - 1, rule: diagnosis::of_identity(&event.identity).to_owned() }
    }
}

impl RateView {
    /// From parts and wholes, now and before.
    pub(crate) fn new(now: (i64, i64), before: (i64, i64)) -> Self {
        Self { value: rate(now.0, now.1), of: now.1, baseline: rate(before.0, before.1), baseline_of: before.1 }
    }
}

impl DepthView {
    /// Another count where nothing was counted.
    pub(crate) fn or(self, count: i64) -> Self {
        if self.count == 0 { Self { count, more: false } } else { self }
    }
}

impl From<Minute> for MinuteView {
    fn from(minute: Minute) -> Self {
        let quantile = |place: usize| minute.latency.map(|latency| latency[place]);
        Self {
            at: time(minute.at),
            p50_ms: quantile(0),
            p95_ms: quantile(1),
            p99_ms: quantile(2),
            results: minute.results,
        }
    }
}
