//! One constant per statement. The files are written for Postgres, so that they can be pasted into psql; what SQLite is told
//! instead stands in them or follows from them (`database/statement.rs`). Places of a text are filled in by a `Template`.

use std::sync::LazyLock;

pub(super) use crate::database::Statement;
use crate::database::sql as claims;
pub(super) use crate::database::sql::{
    APPLIED_MIGRATIONS, APPLIED_REPEATABLES, HAS_IDENTITY, HAS_MIGRATIONS, HAS_ORDER_KEYS, STEADY_CLOCK,
};
use crate::database::sql::{of_two, shared};
use crate::database::template::Template;
use crate::store::handling::deliveries::LossFilter;

#[cfg(feature = "sqlite")]
pub(super) static COPY_BEGUN: LazyLock<Statement> =
    LazyLock::new(|| Statement::new(include_str!("../../sql/shared/copy_begun.sql")));

shared! {
    PING = "shared/ping.sql";
    NOTE_STEADY_CLOCK = "shared/note_steady_clock.sql";
    ALERTS = "shared/alerts.sql";
    ALERT_TOLD = "shared/alert_told.sql";
    ALERT_OVER = "shared/alert_over.sql";
    REPORT_COUNTS = "shared/report_counts.sql";
    DROP_OLD_COUNTS = "shared/drop_old_counts.sql";
    NODE_COUNTS = "shared/node_counts.sql";
    DATABASE_TIME = "shared/database_time.sql";
    GIVE_BACK_ALL = "shared/give_back_all.sql";
    GIVE_BACK_ALL_MESSAGES = "shared/give_back_all_messages.sql";
    ALIAS_IDENTITY = "shared/alias_identity.sql";
    ARM_SECRET = "shared/arm_secret.sql";
    DISARM_SECRET = "shared/disarm_secret.sql";
    KEEP_SECRET = "shared/keep_secret.sql";
    ARRIVED_SECRETS = "shared/arrived_secrets.sql";
    ARRIVALS_OF = "shared/arrivals_of.sql";
    COUNT_RECENT = "shared/count_recent.sql";
    DELIVERIES_OF = "shared/deliveries_of.sql";
    EVENT_BY_KEY = "shared/event_by_key.sql";
    EVENT_BY_IDENTITY = "shared/event_by_identity.sql";
    EVENTS_BY_ID = "shared/events_by_id.sql";
    EVENTS_PAGE = "shared/events_page.sql";
    EVENTS_FLOOR = "shared/events_floor.sql";
    WAITING_PAGE = "shared/waiting_page.sql";
    WAITING_FLOOR = "shared/waiting_floor.sql";
    DELIVERIES_FLOOR = "shared/deliveries_floor.sql";
    STOPPED_FLOOR = "shared/stopped_floor.sql";
    MESSAGES_FLOOR = "shared/messages_floor.sql";
    DEAD_MESSAGES_FLOOR = "shared/dead_messages_floor.sql";
    EVENTS_IN_DELIVERY_STATE_PAGE = "shared/events_in_delivery_state_page.sql";
    EVENTS_STOPPED_PAGE = "shared/events_stopped_page.sql";
    RECENT_EVENTS = "shared/recent_events.sql";
    RECENT_DELIVERIES = "shared/recent_deliveries.sql";
    RECENT_FIRST_FAILURES = "shared/recent_first_failures.sql";
    RECENT_MESSAGES = "shared/recent_messages.sql";
    READY_DEPTHS = "shared/ready_depths.sql";
    STOPPED_DEPTHS = "shared/stopped_depths.sql";
    MESSAGE_DEPTHS = "shared/message_depths.sql";
    STOPPED_MESSAGE_DEPTHS = "shared/stopped_message_depths.sql";
    DEAD_ERRORS = "shared/dead_errors.sql";
    DEAD_MESSAGE_ERRORS = "shared/dead_message_errors.sql";
    MESSAGES_OF_EVENT = "shared/messages_of_event.sql";
    BODIES_BETWEEN = "shared/bodies_between.sql";
    PAYLOAD_OF = "shared/payload_of.sql";
    DELIVERIES_PAGE = "shared/deliveries_page.sql";
    ATTEMPTS_OF = "shared/attempts_of.sql";
    QUEUE_DEPTHS = "shared/queue_depths.sql";
    SOURCES_SEEN = "shared/sources_seen.sql";
    LEDGER_ROWS = "shared/ledger_rows.sql";
    LEDGER_COUNTED_TO = "shared/ledger_counted_to.sql";
    WAITING_ATTEMPTS = "shared/waiting_attempts.sql";
    WAITING_ATTEMPTS_OF_MESSAGES = "shared/waiting_attempts_of_messages.sql";
    HURRY = "shared/hurry.sql";
    HURRY_MESSAGES = "shared/hurry_messages.sql";
    ACTION_COUNT = "shared/action_count.sql";
    ACTION_SLICE = "shared/action_slice.sql";
    ACTION_EVENTS = "shared/action_events.sql";
    EVENTS_EDGE = "shared/events_edge.sql";
    ACTION_COUNT_EVENTS = "shared/action_count_events.sql";
    HAS_LEDGER_KEY = "shared/has_ledger_key.sql";
    LEDGER_KEYS_BETWEEN = "shared/ledger_keys_between.sql";
    WAITING_ACTION_COUNT = "shared/waiting_action_count.sql";
    WAITING_ACTION_EVENTS = "shared/waiting_action_events.sql";
    LOCK_EVENT = "shared/lock_event.sql";
    SETTLE_EVENT = "shared/settle_event.sql";
    SETTLE_CONFLICT = "shared/settle_conflict.sql";
    IS_SETTLED = "shared/is_settled.sql";
    ADD_DELIVERY = "shared/add_delivery.sql";
    KEEP_DONE_ATTEMPT = "shared/keep_done_attempt.sql";
    REQUEUE = "shared/requeue.sql";
    FORGET_FINGERPRINT = "shared/forget_fingerprint.sql";
    OPEN_ACTION = "shared/open_action.sql";
    LOCK_ACTION = "shared/lock_action.sql";
    LOG_ACTION = "shared/log_action.sql";
    ADVANCE_ACTION = "shared/advance_action.sql";
    ACTIONS = "shared/actions.sql";
    ACTION_BY_ID = "shared/action_by_id.sql";
    DELIVERIES_BETWEEN = "shared/deliveries_between.sql";
    DONE_DELIVERIES = "shared/done_deliveries.sql";
    EVENTS_AFTER = "shared/events_after.sql";
    HELD_PAGE = "shared/held_page.sql";
    STOPPED_PAGE = "shared/stopped_page.sql";
    LENGTHEN_LEASE = "shared/lengthen_lease.sql";
    SETTLED = "shared/settled.sql";
    CLAIM_OF = "shared/claim_of.sql";
    DUE = "shared/due.sql";
    LEASES_ENDED = "shared/leases_ended.sql";
    RECLAIM = "shared/reclaim.sql";
    REGISTER_NODE = "shared/register_node.sql";
    DROP_DEAD_NODE = "shared/drop_dead_node.sql";
    OTHER_NODES = "shared/other_nodes.sql";
    CHORES = "shared/chores.sql";
    REGISTER_HANDLER = "shared/register_handler.sql";
    PAUSE_HANDLER = "shared/pause_handler.sql";
    HANDLERS = "shared/handlers.sql";
    NEWER_VERSION = "shared/newer_version.sql";
    KNOWN_VERSION = "shared/known_version.sql";
    FIRST_CHANGE = "shared/first_change.sql";
    WANT_PREREQUISITE = "shared/want_prerequisite.sql";
    PREREQUISITE_DONE = "shared/prerequisite_done.sql";
    WAKE_WAITING = "shared/wake_waiting.sql";
    WAIT_FOR = "shared/wait_for.sql";
    RECORD_MESSAGE_ATTEMPT = "shared/record_message_attempt.sql";
    END_MESSAGE_ATTEMPT = "shared/end_message_attempt.sql";
    GIVE_BACK_MESSAGE = "shared/give_back_message.sql";
    MESSAGE_SETTLED = "shared/message_settled.sql";
    EXPIRE_MESSAGES = "shared/expire_messages.sql";
    RECLAIM_MESSAGES = "shared/reclaim_messages.sql";
    LOST_MESSAGE_ATTEMPT = "shared/lost_message_attempt.sql";
    REGISTER_DESTINATION = "shared/register_destination.sql";
    OUTBOX_PAGE = "shared/outbox_page.sql";
    DEAD_MESSAGES_PAGE = "shared/dead_messages_page.sql";
    MESSAGE_BY_ID = "shared/message_by_id.sql";
    ATTEMPTS_OF_MESSAGE = "shared/attempts_of_message.sql";
    OUTBOX_DEPTHS = "shared/outbox_depths.sql";
    DESTINATIONS = "shared/destinations.sql";
    INSPECT_LEDGER = "shared/inspect_ledger.sql";
    INSPECT_EVENTS = "shared/inspect_events.sql";
    INSPECT_PAYLOADS = "shared/inspect_payloads.sql";
    INSPECT_ARRIVALS = "shared/inspect_arrivals.sql";
    INSPECT_DELIVERIES = "shared/inspect_deliveries.sql";
    INSPECT_OUTBOX = "shared/inspect_outbox.sql";
    FORGOTTEN = "shared/forgotten.sql";
    COUNT_WAITING = "shared/count_waiting.sql";
    ERASE_PAYLOAD = "shared/erase_payload.sql";
    ERASE_DELIVERIES = "shared/erase_deliveries.sql";
    ERASE_ATTEMPTS = "shared/erase_attempts.sql";
    ERASE_STEPS = "shared/erase_steps.sql";
    ERASE_MESSAGES = "shared/erase_messages.sql";
    ERASE_MESSAGE_CONTENTS = "shared/erase_message_contents.sql";
    ERASE_MESSAGE_ATTEMPTS = "shared/erase_message_attempts.sql";
    ERASE_ANSWERS = "shared/erase_answers.sql";
    REGISTER_WINDOW = "shared/register_window.sql";
    WINDOWS = "shared/windows.sql";
    RETENTION_STATE = "shared/retention_state.sql";
    NOTE_LOOK = "shared/note_look.sql";
    NOTE_BEHIND = "shared/note_behind.sql";
    STOP_RETENTION = "shared/stop_retention.sql";
    CONFIRM_TIME = "shared/confirm_time.sql";
    OPEN_RUN = "shared/open_run.sql";
    END_RUN = "shared/end_run.sql";
    RUNS = "shared/runs.sql";
    AGED_PAYLOADS = "shared/aged_payloads.sql";
    AGED_EVENTS = "shared/aged_events.sql";
    OPEN_KEYS = "shared/open_keys.sql";
    LOCK_PAYLOAD = "shared/lock_payload.sql";
    AGED_ATTEMPTS = "shared/aged_attempts.sql";
    AGED_STEPS = "shared/aged_steps.sql";
    REMOVE_REMEMBERED = "shared/remove_remembered.sql";
    KEEP_ANSWER = "shared/keep_answer.sql";
    REMOVE_MESSAGES = "shared/remove_messages.sql";
    REMOVE_MESSAGE_CONTENTS = "shared/remove_message_contents.sql";
    REMOVE_MESSAGE_ATTEMPTS = "shared/remove_message_attempts.sql";
    REMOVE_MESSAGE_ANSWERS = "shared/remove_message_answers.sql";
    REMOVE_VERSIONS = "shared/remove_versions.sql";
    REMOVE_CHANGES = "shared/remove_changes.sql";
    REMOVE_PREREQUISITES = "shared/remove_prerequisites.sql";
    REMOVE_ACTIONS = "shared/remove_actions.sql";
    REMOVE_NODES = "shared/remove_nodes.sql";
    REMOVE_RUNS = "shared/remove_runs.sql";
    REMOVE_HISTORY = "shared/remove_history.sql";
    COUNT_NEXT = "shared/count_next.sql";
    COUNT_BETWEEN = "shared/count_between.sql";
    LOCK_COUNTS = "shared/lock_counts.sql";
    COUNTED_TO = "shared/counted_to.sql";
    ADD_LEDGER_ROWS = "shared/add_ledger_rows.sql";
    NOTE_LEDGER_ROWS = "shared/note_ledger_rows.sql";
    LEDGER_ROWS_BEFORE = "shared/ledger_rows_before.sql";
}

of_two! {
    COUNT_BARE_EVENTS = "postgres/count_bare_events.sql", "sqlite/count_bare_events.sql";
    SCHEMA_PIECES = "postgres/schema_pieces.sql", "sqlite/schema_pieces.sql";
    DURABLE_SETTINGS = "postgres/durable_settings.sql", "sqlite/durable_settings.sql";
}

/// Dead messages; those that wait because nobody serves their destination; and of these all to one destination, which the
/// index of what is ready begins with. The states are literals, as partial indexes want them.
const DEAD: &str = "m.state = 'dead' AND (CAST($2 AS text) IS NULL OR m.destination = $2)";
const WAITING: &str = "m.state = 'ready' AND (CAST($2 AS text) IS NULL OR m.destination = $2)";
const WAITING_FOR: &str = "m.state = 'ready' AND m.destination = $2";

const ACTION_COUNT_OF: Template<1> =
    Template::new(include_str!("../../sql/shared/message_action_count.sql"), ["{which}"]);
const ACTION_SLICE_OF: Template<1> =
    Template::new(include_str!("../../sql/shared/message_action_slice.sql"), ["{which}"]);

macro_rules! filled {
    ($($name:ident = $template:ident, $which:ident;)*) => {
        $(pub(super) static $name: LazyLock<Statement> =
            LazyLock::new(|| Statement::new(&$template.fill([$which])));)*
        #[cfg(all(test, feature = "rusqlite"))]
        const FILLED: &[(&str, &LazyLock<Statement>)] = &[$((stringify!($name), &$name)),*];
    };
}

filled! {
    MESSAGE_ACTION_COUNT = ACTION_COUNT_OF, DEAD;
    MESSAGE_ACTION_SLICE = ACTION_SLICE_OF, DEAD;
    WAITING_MESSAGE_COUNT = ACTION_COUNT_OF, WAITING;
    WAITING_MESSAGE_SLICE = ACTION_SLICE_OF, WAITING;
    WAITING_MESSAGES_COUNT = ACTION_COUNT_OF, WAITING_FOR;
    WAITING_MESSAGES_SLICE = ACTION_SLICE_OF, WAITING_FOR;
}

/// Only SQLite is asked this.
pub(super) static QUICK_CHECK: LazyLock<Statement> =
    LazyLock::new(|| Statement::of_two("", include_str!("../../sql/sqlite/quick_check.sql")));

/// The claim of one database, once for each filter: what differs is which deliveries it may take.
#[derive(Debug)]
pub(super) struct Claim([String; 4]);

impl Claim {
    /// `text`: the claim of what a condition says, about a row of this name whose handler has these attempts.
    fn new(row: &str, attempts: &str, text: impl Fn(&str) -> String) -> Self {
        // Lost once, and not before its last attempt.
        let once = format!("{row}.lost = 1 AND {row}.attempt - {row}.attempts_before < {attempts} - 1");
        let conditions = [
            format!("{row}.lost > 0"),
            format!("{row}.lost = 0"),
            format!("({once})"),
            format!("({row}.lost > 0 AND NOT ({once}))"),
        ];
        Self(conditions.map(|condition| text(&condition)))
    }

    pub(super) fn with(&self, filter: LossFilter) -> &str {
        &self.0[filter as usize]
    }
}

#[cfg(feature = "postgres")]
static CLAIMS_POSTGRES: LazyLock<[[Claim; 2]; 2]> = LazyLock::new(|| {
    let answers = [include_str!("../../sql/postgres/claimed_without_payload.sql"), claims::WITH_PAYLOAD];
    [&claims::DUE, &claims::IN_ORDER].map(|places| answers.map(|answer| claim_of(places, answer)))
});

#[cfg(feature = "postgres")]
fn claim_of(places: &Template<1>, answer: &str) -> Claim {
    let wanted = "unnest($1::text[], $2::bigint[], $3::bigint[], $6::bigint[])";
    Claim::new("d", "h.attempts", |filter| claims::CLAIM.fill([wanted, &places.fill([filter]), answer]))
}

/// The claim on Postgres, where order keys matter or not, and where somebody reads the payload or nobody.
#[cfg(feature = "postgres")]
pub(super) fn claim_postgres(in_order: bool, payload: bool) -> &'static Claim {
    &CLAIMS_POSTGRES[usize::from(in_order)][usize::from(payload)]
}

#[cfg(feature = "sqlite")]
pub(super) static CLAIM_SQLITE: LazyLock<Claim> = LazyLock::new(|| {
    let attempts = "(SELECT attempts FROM oncebox_handlers WHERE handler = ?1)";
    Claim::new("r", attempts, |filter| claims::CLAIM_SQLITE.fill([filter]))
});

/// The batch statements of Postgres: one round trip for many rows.
#[cfg(feature = "postgres")]
pub(super) mod postgres {
    use super::Template;

    /// What a session is told first: its deadline, and what it is for.
    macro_rules! session {
        ($($file:literal),+) => {
            concat!(
                include_str!("../../sql/postgres/deadline.sql"),
                $(";", include_str!(concat!("../../sql/", $file))),+
            )
        };
    }

    /// BEGIN with a mark that ends with the transaction: `claim_identities.sql` looks for it.
    pub(in crate::store) const BEGIN: &str = include_str!("../../sql/postgres/begin.sql");
    pub(in crate::store) const DEADLINE: &str = include_str!("../../sql/postgres/deadline.sql");
    pub(in crate::store) const READER: &str = session!("postgres/reader.sql");
    pub(in crate::store) const INGEST_SESSION: &str =
        session!("postgres/ingest_session.sql", "postgres/durable_session.sql");
    /// The same where nothing is promised.
    pub(in crate::store) const UNSAFE_INGEST_SESSION: &str = session!("postgres/ingest_session.sql");
    /// A session whose commits are acknowledged.
    pub(in crate::store) const DURABLE_SESSION: &str = session!("postgres/durable_session.sql");
    /// A session as it came; what we set for it follows.
    pub(in crate::store) const CLEAN_SESSION: &str = include_str!("../../sql/postgres/clean_session.sql");
    pub(in crate::store) const ENGINE: &str = include_str!("../../sql/postgres/engine.sql");
    pub(in crate::store) const WAITS_FOR_STANDBY: &str = include_str!("../../sql/postgres/waits_for_standby.sql");
    pub(in crate::store) const SETTINGS: &str = include_str!("../../sql/postgres/settings.sql");
    pub(in crate::store) const CLAIM_IDENTITIES: &str = include_str!("../../sql/postgres/claim_identities.sql");
    pub(in crate::store) const CLAIM_FINGERPRINTS: &str = include_str!("../../sql/postgres/claim_fingerprints.sql");
    pub(in crate::store) const FIND_IDENTITIES: &str = include_str!("../../sql/postgres/find_identities.sql");
    pub(in crate::store) const FIND_FINGERPRINTS: &str = include_str!("../../sql/postgres/find_fingerprints.sql");
    pub(in crate::store) const FIND_KNOWN: &str = include_str!("../../sql/postgres/find_known.sql");
    pub(in crate::store) const INSERT_BATCH: &str = include_str!("../../sql/postgres/insert_batch.sql");
    pub(in crate::store) const INSERT_ONE: &str = include_str!("../../sql/postgres/insert_one.sql");
    pub(in crate::store) const INSERT_ROWS: &str = include_str!("../../sql/postgres/insert_rows.sql");
    pub(in crate::store) const ADD_ARRIVALS: &str = include_str!("../../sql/postgres/add_arrivals.sql");
    pub(in crate::store) const FINISH: &str = include_str!("../../sql/postgres/finish.sql");
    pub(in crate::store) const WRITE_BEGUN: &str = include_str!("../../sql/postgres/write_begun.sql");
    pub(in crate::store) const UNCLAIM: &str = include_str!("../../sql/postgres/unclaim.sql");
    pub(in crate::store) const BEGIN_CHUNK: &str = include_str!("../../sql/postgres/begin_chunk.sql");
    pub(in crate::store) const END_CHUNK: &str = include_str!("../../sql/postgres/end_chunk.sql");
    pub(in crate::store) const UNDO_CHUNK: &str = include_str!("../../sql/postgres/undo_chunk.sql");
    pub(in crate::store) const EACH_FAILED: &str = include_str!("../../sql/postgres/each_failed.sql");
    pub(in crate::store) const LOCK_DESTINATIONS: &str = include_str!("../../sql/postgres/lock_destinations.sql");
    pub(in crate::store) const CLAIM_MESSAGES: &str = include_str!("../../sql/postgres/claim_messages.sql");
    pub(in crate::store) const SENT: &str = include_str!("../../sql/postgres/sent.sql");
    pub(in crate::store) const BY_INDEX: &str = include_str!("../../sql/postgres/by_index.sql");
    pub(in crate::store) const LEDGER_KEYS: &str = include_str!("../../sql/postgres/ledger_keys.sql");
    pub(in crate::store) const LOCK_NODE: &str = include_str!("../../sql/postgres/lock_node.sql");
    pub(in crate::store) const NODE_IS_GONE: &str = include_str!("../../sql/postgres/node_is_gone.sql");
    pub(in crate::store) const LOCK_RETENTION: &str = include_str!("../../sql/postgres/lock_retention.sql");
    pub(in crate::store) const LOCK_PAYLOADS: &str = include_str!("../../sql/postgres/lock_payloads.sql");
    pub(in crate::store) const REMOVE_PAYLOADS: &str = include_str!("../../sql/postgres/remove_payloads.sql");
    pub(in crate::store) const REMOVE_IDENTITIES: &str = include_str!("../../sql/postgres/remove_identities.sql");
    pub(in crate::store) const REMOVE_FINGERPRINTS: &str = include_str!("../../sql/postgres/remove_fingerprints.sql");
    pub(in crate::store) const REMOVE_EVENTS: &str = include_str!("../../sql/postgres/remove_events.sql");
    pub(in crate::store) const REMOVE_ARRIVALS: &str = include_str!("../../sql/postgres/remove_arrivals.sql");
    pub(in crate::store) const REMOVE_DELIVERIES: &str = include_str!("../../sql/postgres/remove_deliveries.sql");
    pub(in crate::store) const REMOVE_ATTEMPTS: &str = include_str!("../../sql/postgres/remove_attempts.sql");
    pub(in crate::store) const REMOVE_STEPS: &str = include_str!("../../sql/postgres/remove_steps.sql");
    pub(in crate::store) const PARTITIONS: &str = include_str!("../../sql/postgres/partitions.sql");
    pub(in crate::store) const REST_HAS: &str = include_str!("../../sql/postgres/rest_has.sql");
    pub(in crate::store) const MAKE_PARTITION: Template<5> = Template::new(
        include_str!("../../sql/postgres/make_partition.sql"),
        ["{name}", "{lock_ms}", "{statement_ms}", "{from}", "{to}"],
    );
    pub(in crate::store) const BEGIN_DROP: Template<3> =
        Template::new(include_str!("../../sql/postgres/begin_drop.sql"), ["{name}", "{lock_ms}", "{statement_ms}"]);
    pub(in crate::store) const NEEDED_SINCE: &str = include_str!("../../sql/postgres/needed_since.sql");
    pub(in crate::store) const KEEP_PAYLOADS: Template<1> =
        Template::new(include_str!("../../sql/postgres/keep_payloads.sql"), ["{name}"]);
    pub(in crate::store) const PAYLOAD_BYTES: &str = include_str!("../../sql/postgres/payload_bytes.sql");
    pub(in crate::store) const SUMMARIZE: &str = include_str!("../../sql/postgres/summarize.sql");
}

/// The single-row statements of SQLite: prepared once, run many times inside one transaction.
#[cfg(feature = "sqlite")]
pub(super) mod sqlite {
    pub(in crate::store) const CLAIM_IDENTITY: &str = include_str!("../../sql/sqlite/claim_identity.sql");
    pub(in crate::store) const CLAIM_FINGERPRINT: &str = include_str!("../../sql/sqlite/claim_fingerprint.sql");
    pub(in crate::store) const FIND_IDENTITY: &str = include_str!("../../sql/sqlite/find_identity.sql");
    pub(in crate::store) const FIND_FINGERPRINT: &str = include_str!("../../sql/sqlite/find_fingerprint.sql");
    pub(in crate::store) const INSERT_EVENT: &str = include_str!("../../sql/sqlite/insert_event.sql");
    pub(in crate::store) const INSERT_PAYLOAD: &str = include_str!("../../sql/sqlite/insert_payload.sql");
    pub(in crate::store) const ADD_ARRIVALS: &str = include_str!("../../sql/sqlite/add_arrivals.sql");
    pub(in crate::store) const CLAIMED_EVENT: &str = include_str!("../../sql/sqlite/claimed_event.sql");
    pub(in crate::store) const CLAIMED_EVENT_WITHOUT_PAYLOAD: &str =
        include_str!("../../sql/sqlite/claimed_event_without_payload.sql");
    pub(in crate::store) const FINISH: &str = include_str!("../../sql/sqlite/finish.sql");
    pub(in crate::store) const BEGIN_CHUNK: &str = include_str!("../../sql/sqlite/begin_chunk.sql");
    pub(in crate::store) const END_CHUNK: &str = include_str!("../../sql/sqlite/end_chunk.sql");
    pub(in crate::store) const UNDO_CHUNK: &str = include_str!("../../sql/sqlite/undo_chunk.sql");
    pub(in crate::store) const CLAIM_MESSAGES: &str = include_str!("../../sql/sqlite/claim_messages.sql");
    pub(in crate::store) const CLAIM_MESSAGE: &str = include_str!("../../sql/sqlite/claim_message.sql");
    pub(in crate::store) const SENT: &str = include_str!("../../sql/sqlite/sent.sql");
    pub(in crate::store) const LEDGER_KEY: &str = include_str!("../../sql/sqlite/ledger_key.sql");
    pub(in crate::store) const INSERT_DELIVERY: &str = include_str!("../../sql/sqlite/insert_delivery.sql");
    pub(in crate::store) const REMOVE_PAYLOAD: &str = include_str!("../../sql/sqlite/remove_payload.sql");
    pub(in crate::store) const REMOVE_IDENTITIES: &str = include_str!("../../sql/sqlite/remove_identities.sql");
    pub(in crate::store) const REMOVE_FINGERPRINTS: &str = include_str!("../../sql/sqlite/remove_fingerprints.sql");
    pub(in crate::store) const REMOVE_EVENT: &str = include_str!("../../sql/sqlite/remove_event.sql");
    pub(in crate::store) const REMOVE_ARRIVALS: &str = include_str!("../../sql/sqlite/remove_arrivals.sql");
    pub(in crate::store) const DELIVERIES_OF_EVENT: &str = include_str!("../../sql/sqlite/deliveries_of_event.sql");
    pub(in crate::store) const REMOVE_DELIVERY: &str = include_str!("../../sql/sqlite/remove_delivery.sql");
    pub(in crate::store) const REMOVE_ATTEMPTS: &str = include_str!("../../sql/sqlite/remove_attempts.sql");
    pub(in crate::store) const REMOVE_STEPS: &str = include_str!("../../sql/sqlite/remove_steps.sql");
}

#[cfg(all(test, feature = "rusqlite"))]
mod tests;
