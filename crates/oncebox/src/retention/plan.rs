//! What is over and what is not: pure, so that every rule is a line in a table.

use std::collections::HashSet;

use super::windows::{Windows, end_of};
use crate::clock::UnixMillis;
use crate::event::{DeliveryKey, EventKey};
use crate::store::{AgedDelivery, AgedRow};

/// What is to become of a slice of payloads.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Payloads {
    /// Over, and nobody needs them.
    pub(super) over: Vec<EventKey>,
    /// Over by their window, but a handler or a person still needs them.
    pub(super) needed: Vec<EventKey>,
    /// Not over yet.
    pub(super) young: Vec<EventKey>,
}

/// Decides over payloads. Without its event nobody can say whose a payload was, so it stays as the youngest would.
pub(super) fn payloads(rows: &[AgedRow], open: &HashSet<EventKey>, windows: &Windows, now: UnixMillis) -> Payloads {
    let mut found = Payloads::default();
    for row in rows {
        let window =
            row.source.as_deref().map_or(windows.longest(|one| one.payload), |source| windows.of(source).payload);
        let list = if row.key >= end_of(window, now) {
            &mut found.young
        } else if row.held || open.contains(&row.key) {
            &mut found.needed
        } else {
            &mut found.over
        };
        list.push(row.key);
    }
    found
}

/// The events whose identity may be forgotten: over, without bytes, and nobody needs them.
pub(super) fn events(rows: Vec<AgedRow>, open: &HashSet<EventKey>, windows: &Windows, now: UnixMillis) -> Vec<AgedRow> {
    let is_over = |row: &AgedRow| {
        let window =
            row.source.as_deref().map_or(windows.longest(|one| one.ledger), |source| windows.of(source).ledger);
        row.key < end_of(window, now) && !row.held && !row.has_payload && !open.contains(&row.key)
    };
    rows.into_iter().filter(is_over).collect()
}

/// The deliveries whose attempts and steps nobody will look at any more.
pub(super) fn trail(rows: &[AgedDelivery], windows: &Windows, now: UnixMillis) -> Vec<DeliveryKey> {
    let is_over = |row: &&AgedDelivery| match &row.event {
        Some((key, source)) => row.ended && *key < end_of(windows.of(source).payload, now),
        None => row.ended,
    };
    rows.iter().filter(is_over).map(|row| row.delivery).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::retention::windows::Window;

    const NOW: i64 = 1_800_000_000_000;
    const DAY: i64 = 86_400_000;

    fn windows() -> Windows {
        let window = |ledger: u64, payload: u64| Window {
            ledger: Duration::from_secs(ledger * 86_400),
            payload: Duration::from_secs(payload * 86_400),
        };
        Windows::new(window(30, 14), [("long".to_owned(), window(90, 60))])
    }

    fn row(age_ms: i64, source: Option<&str>, held: bool, has_payload: bool) -> AgedRow {
        AgedRow { key: EventKey::at(NOW - age_ms), source: source.map(str::to_owned), held, has_payload }
    }

    #[test]
    fn payloads_by_age_and_need() {
        let check = |row: &AgedRow, is_open: bool, expected: &str| {
            let open = if is_open { HashSet::from([row.key]) } else { HashSet::new() };
            let found = payloads(std::slice::from_ref(row), &open, &windows(), NOW);
            let word = match (found.over.len(), found.needed.len(), found.young.len()) {
                (1, 0, 0) => "over",
                (0, 1, 0) => "needed",
                _ => "young",
            };
            assert_eq!(word, expected, "{row:?}");
        };
        check(&row(14 * DAY + 1, Some("short"), false, true), false, "over");
        check(&row(14 * DAY, Some("short"), false, true), false, "young");
        check(&row(14 * DAY + 1, Some("short"), false, true), true, "needed");
        check(&row(14 * DAY + 1, Some("short"), true, true), false, "needed");
        check(&row(14 * DAY + 1, Some("long"), false, true), false, "young");
        check(&row(60 * DAY + 1, Some("long"), false, true), false, "over");
        check(&row(59 * DAY, None, false, true), false, "young");
    }

    #[test]
    fn events_by_age_and_need() {
        let check = |row: AgedRow, is_open: bool, expected: bool| {
            let open = if is_open { HashSet::from([row.key]) } else { HashSet::new() };
            assert_eq!(events(vec![row.clone()], &open, &windows(), NOW).len() == 1, expected, "{row:?}");
        };
        check(row(30 * DAY + 1, Some("short"), false, false), false, true);
        check(row(30 * DAY, Some("short"), false, false), false, false);
        check(row(30 * DAY + 1, Some("short"), false, true), false, false);
        check(row(30 * DAY + 1, Some("short"), true, false), false, false);
        check(row(30 * DAY + 1, Some("short"), false, false), true, false);
        check(row(30 * DAY + 1, Some("long"), false, false), false, false);
    }

    #[test]
    fn trails_by_age_and_end() {
        let check = |age: i64, ended: bool, expected: bool| {
            let event = Some((EventKey::at(NOW - age), "short".to_owned()));
            let row = AgedDelivery { delivery: DeliveryKey::at(NOW - age), event, ended };
            assert_eq!(!trail(&[row], &windows(), NOW).is_empty(), expected);
        };
        check(14 * DAY + 1, true, true);
        check(14 * DAY + 1, false, false);
        check(14 * DAY, true, false);
    }
}
