//! What retention counts.

use metrics::counter;

use super::Windows;
use super::pass::by_their_own_time;

/// What is removed together with an event.
const OF_EVENTS: [&str; 8] = ["payloads", "ledger", "repeats", "events", "arrivals", "deliveries", "attempts", "steps"];

/// Shows every series from the start.
pub(super) fn show(windows: &Windows) {
    let aged = by_their_own_time(windows, 0).map(|(aged, _)| aged.table());
    OF_EVENTS.into_iter().chain(aged).for_each(|table| purged(table, 0));
}

pub(super) fn purged(table: &str, rows: u64) {
    counter!("oncebox_purged_total", "table" => table.to_owned()).increment(rows);
}
