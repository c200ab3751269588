//! The arrival metrics and the line that each handling leaves in the log. Names and labels are the contract's.

use metrics::{Counter, counter};

use super::arrival_recorder::Entry;
use crate::store::{Inserted, NewEvent};
use oncebox_verify::{Identified, Rejection, Source};

pub(super) fn rejected(source: &str, rejection: &Rejection) {
    arrivals(source, "rejected");
    counter!("oncebox_rejections_total", "source" => source.to_owned(), "reason" => rejection.reason.as_str())
        .increment(1);
}

pub(super) fn secret_matched(source: &Source, position: usize) {
    if position > 0 {
        secret_matches(source, position).increment(1);
    }
}

/// How often a secret matched. Its position changes when another is put before it; its name, where it has one, does not.
pub fn secret_matches(source: &Source, position: usize) -> Counter {
    let (name, secret) = (source.name().to_owned(), position.to_string());
    match source.secret_name(position).map(str::to_owned) {
        Some(of) => counter!("oncebox_secret_matches_total", "source" => name, "secret" => secret, "name" => of),
        None => counter!("oncebox_secret_matches_total", "source" => name, "secret" => secret),
    }
}

/// Counts the events whose id stands in two places and differs.
pub(super) fn ids_disagree(source: &str, events: &[Identified]) {
    let disagreeing = events.iter().filter(|event| event.id_disagrees).count();
    if disagreeing > 0 {
        counter!("oncebox_id_mismatches_total", "source" => source.to_owned()).increment(disagreeing as u64);
    }
}

pub(super) fn out_of_reach(source: &str) {
    arrivals(source, "unavailable");
}

pub(super) fn unavailable(events: &[NewEvent]) {
    for new in events {
        arrivals(&new.source, "unavailable");
    }
}

/// Counts an event that was committed.
pub(super) fn stored(source: &str, inserted: Inserted) {
    arrivals(source, inserted.as_str());
}

/// Leaves an event's line; a duplicate has a line of its own kind, so that "did we see it" is one search.
pub(super) fn log(entry: &Entry) {
    let (source, event_id, key) = (&*entry.source, &*entry.event_id, entry.inserted.key());
    match entry.inserted {
        Inserted::Accepted(_) => tracing::info!(source, event_id, %key, r#type = entry.event_type, "accepted"),
        Inserted::Duplicate(_) => tracing::info!(source, event_id, %key, "duplicate"),
        Inserted::Repeated(_) => {
            tracing::warn!(source, event_id, %key, "accepted, and the same body came before under another id");
        }
        Inserted::Held(_) => tracing::warn!(source, event_id, %key, "held: a person must look at it"),
        Inserted::Conflict(_) | Inserted::ConflictAgain(_) => {
            tracing::warn!(source, event_id, %key, "conflict: this id came before with another body");
        }
    }
}

fn arrivals(source: &str, result: &'static str) {
    counter!("oncebox_arrivals_total", "source" => source.to_owned(), "result" => result).increment(1);
}
