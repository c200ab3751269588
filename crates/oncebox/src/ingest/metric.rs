//! The arrival metrics and the line that each handling leaves in the log. Names and labels are the contract's.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use metrics::{Counter, counter};

use super::arrival_recorder::Entry;
use crate::store::{Inserted, NewEvent};
use oncebox_verify::{Identified, Rejection, Source};

pub(super) fn rejected(source: &str, rejection: &Rejection) {
    arrivals(source, "rejected", 1);
    counter!("oncebox_rejections_total", "source" => source.to_owned(), "reason" => rejection.reason.as_str())
        .increment(1);
}

/// The counters of secrets that matched, found by their source and position: looking one up by its labels costs more than
/// counting. The weak pointer keeps the source's address from being used again.
#[derive(Clone, Debug, Default)]
pub(super) struct SecretMatches(Arc<Mutex<HashMap<(usize, usize), OfSource>>>);

type OfSource = (Weak<Source>, Counter);

impl SecretMatches {
    pub(super) fn count(&self, source: &Arc<Source>, position: usize) {
        if position == 0 {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (Arc::as_ptr(source).addr(), position);
        if !known.contains_key(&place) {
            // Sources that a reload replaced.
            known.retain(|_, (source, _)| source.strong_count() > 0);
        }
        let new = || (Arc::downgrade(source), secret_matches(source, position));
        known.entry(place).or_insert_with(new).1.increment(1);
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
    arrivals(source, "unavailable", 1);
}

pub(super) fn unavailable(events: &[NewEvent]) {
    for new in events {
        arrivals(&new.source, "unavailable", 1);
    }
}

/// Counts the events of a batch that was committed: a look-up of a counter for each kind, not for each event.
pub(super) fn stored(events: &[NewEvent], outcomes: &[Inserted]) {
    let mut counts: BTreeMap<(&str, &'static str), u64> = BTreeMap::new();
    for (new, inserted) in events.iter().zip(outcomes) {
        *counts.entry((&new.source, inserted.as_str())).or_default() += 1;
    }
    for ((source, result), count) in counts {
        arrivals(source, result, count);
    }
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

fn arrivals(source: &str, result: &'static str, count: u64) {
    counter!("oncebox_arrivals_total", "source" => source.to_owned(), "result" => result).increment(count);
}
