//! `[retention]`: how long identities and payloads are remembered.
//!
//! The ledger must outlive the sender's own retries, or a late retry counts as new; a payload never outlives its ledger.

use std::time::Duration;

use super::reader::{Scope, Table};
use super::units::show_duration;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);
const YEARS_10: Duration = Duration::from_secs(3650 * 86_400);

/// How long things are kept.
#[derive(Clone, Debug)]
pub(crate) struct RetentionConfig {
    /// How long an identity is remembered.
    pub(crate) ledger: Duration,
    /// How long raw bytes and headers are kept.
    pub(crate) payload: Duration,
    /// Accept a memory shorter than the senders' retries.
    pub(crate) force: bool,
    /// Whether a person chose the ledger's window; our own default may be raised for a patient sender.
    pub(crate) chosen: bool,
}

impl RetentionConfig {
    /// Reads the section.
    pub(crate) fn read(mut table: Table<'_>) -> Self {
        let (ledger, payload) = windows(&mut table);
        let force = table.flag("force").unwrap_or(false);
        if force {
            table.scope().report.warn("retention.force is set: a late retry may count as a new event");
        }
        table.finish();
        let chosen = ledger.is_some();
        let ledger = ledger.unwrap_or(30 * DAY);
        Self { ledger, payload: payload.unwrap_or((14 * DAY).min(ledger)), force, chosen }
    }

    /// Reads a source's own windows, laid over these; `retry_window` is how long its sender keeps trying.
    pub(crate) fn for_source(&self, mut table: Table<'_>, source: &Scope<'_>, retry_window: Option<Duration>) -> Self {
        let (ledger, payload) = windows(&mut table);
        let scope = if ledger.is_some() { table.scope().clone() } else { source.clone() };
        table.finish();
        let needed = retry_window.map_or(Duration::ZERO, |window| window.saturating_mul(2));
        let chosen = self.chosen || ledger.is_some();
        let ledger = ledger.unwrap_or(if self.chosen { self.ledger } else { self.ledger.max(needed) });
        if ledger < needed && !self.force {
            let what = format!(
                "the ledger forgets after {}, the sender may retry for {}",
                show_duration(ledger),
                show_duration(needed / 2)
            );
            scope.problem(
                what,
                format!("keep it for \"{}\", or set force = true in [retention]", show_duration(needed)),
            );
        }
        Self { ledger, payload: payload.unwrap_or(self.payload.min(ledger)), force: self.force, chosen }
    }
}

fn windows(table: &mut Table<'_>) -> (Option<Duration>, Option<Duration>) {
    let ledger = table.duration("ledger", SECOND..=YEARS_10);
    let payload_item = table.peek("payload");
    let payload = table.duration("payload", SECOND..=YEARS_10);
    if let (Some(ledger), Some(payload), Some(item)) = (ledger, payload, payload_item)
        && payload > ledger
    {
        item.problem("is longer than ledger", format!("write at most \"{}\"", show_duration(ledger)));
    }
    (ledger, payload)
}
