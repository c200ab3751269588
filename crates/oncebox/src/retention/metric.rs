//! What retention counts.

use metrics::counter;

/// Everything that is ever removed, so that each series is there from the start.
const TABLES: [&str; 18] = [
    "payloads",
    "ledger",
    "repeats",
    "events",
    "arrivals",
    "deliveries",
    "attempts",
    "steps",
    "remembered",
    "outbox",
    "outbox_attempts",
    "outbox_answers",
    "versions",
    "changes",
    "prerequisites",
    "actions",
    "nodes",
    "retention_runs",
];

/// Shows every series.
pub(super) fn show() {
    TABLES.into_iter().for_each(|table| purged(table, 0));
}

/// Counts removed rows.
pub(super) fn purged(table: &str, rows: u64) {
    counter!("oncebox_purged_total", "table" => table.to_owned()).increment(rows);
}
