//! Alerts: numbers are held against limits, and whoever wants to know is told when something begins, lasts and is over.
//!
//! What is wrong and what is told about it is decided here, purely. `watch` reads the numbers and sends; `counts` holds
//! what processes counted; `notice` is the form of what is sent.

pub(crate) mod counts;
pub(crate) mod notice;
pub(crate) mod receiver;
pub(crate) mod watch;

use std::time::Duration;

use oncebox::clock::UnixMillis;
use oncebox::store::Told;

use crate::config::alert::{Condition, Limits};
use crate::config::units::show_duration;
use counts::Counts;

/// Names that are listed in a sentence; the rest is a number.
const NAMED_MAX: usize = 5;

/// The numbers at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readings {
    /// Dead letters by handler or destination.
    pub(crate) dead: Vec<(String, i64)>,
    /// Held deliveries by handler.
    pub(crate) held: Vec<(String, i64)>,
    /// The handler whose oldest delivery has been due longest, and for how long.
    pub(crate) oldest: Option<(String, Duration)>,
    /// What was counted within the window.
    pub(crate) lately: Counts,
    /// Whose clock ours is farthest from, and by how many milliseconds we are ahead.
    pub(crate) clock: Option<(String, i64)>,
}

/// What is to be told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Notice {
    /// About what.
    pub(crate) condition: Condition,
    /// Whether it begins, lasts or is over.
    pub(crate) phase: Phase,
    /// Since when it lasts.
    pub(crate) since: UnixMillis,
    /// The number.
    pub(crate) value: f64,
    /// From which number on it is wrong.
    pub(crate) limit: f64,
    /// The sentence.
    pub(crate) text: String,
}

/// Where in its life a condition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It begins.
    Began,
    /// It lasts, and it is time to say so again.
    Lasts,
    /// It is over.
    Over,
}

/// What is to be told to one receiver, given what it was told before.
pub(crate) fn decide(
    limits: &Limits,
    repeat: Duration,
    readings: &Readings,
    told: &[Told],
    now: UnixMillis,
) -> Vec<Notice> {
    let repeat = i64::try_from(repeat.as_millis()).unwrap_or(i64::MAX);
    let notice = |condition: &Condition| {
        let reading = read(*condition, limits, readings);
        let before = told.iter().find(|told| told.condition == condition.as_str());
        let (phase, since) = match (reading.is_wrong, before) {
            (true, None) => (Phase::Began, now),
            (true, Some(before)) if now.saturating_sub(before.told_at) >= repeat => (Phase::Lasts, before.since),
            (false, Some(before)) => (Phase::Over, before.since),
            (true, Some(_)) | (false, None) => return None,
        };
        let Reading { value, limit, text, .. } = reading;
        Some(Notice { condition: *condition, phase, since, value, limit, text })
    };
    limits.on.iter().filter_map(notice).collect()
}

struct Reading {
    value: f64,
    limit: f64,
    is_wrong: bool,
    text: String,
}

impl Reading {
    fn of(value: f64, limit: f64, text: String) -> Self {
        Self { value, limit, is_wrong: value >= limit, text }
    }
}

fn read(condition: Condition, limits: &Limits, readings: &Readings) -> Reading {
    let (lately, window) = (&readings.lately, show_duration(limits.window));
    match condition {
        Condition::Dead => {
            let text = format!("{}; `oncebox dead-letters` lists them", listed(&readings.dead, "dead"));
            Reading::of(total(&readings.dead), limits.dead as f64, text)
        }
        Condition::Held => {
            // One event is held once for each of its handlers.
            let what = if total(&readings.held) == 1.0 { "delivery held" } else { "deliveries held" };
            let text = format!("{}; `oncebox held` says why", listed(&readings.held, what));
            Reading::of(total(&readings.held), limits.held as f64, text)
        }
        Condition::OldestWaiting => oldest(limits, readings),
        Condition::Rejections => {
            let text = format!("{} requests could not be verified within {window}", lately.rejected);
            Reading::of(lately.rejected as f64, limits.rejections as f64, text)
        }
        Condition::Duplicates => {
            let what = format!("events within {window} had come before");
            share(lately.duplicates, lately.arrived, limits.duplicates, limits.sample, &what)
        }
        Condition::Conflicts => {
            let text = format!(
                "{} events within {window} came under a known id with another body; they are kept and do not run: \
                 `oncebox events --state conflict`",
                lately.conflicts
            );
            Reading::of(lately.conflicts as f64, limits.conflicts as f64, text)
        }
        Condition::FirstTryErrors => {
            let what = format!("first attempts within {window} failed");
            share(lately.failed, lately.tried, limits.first_try_errors, limits.sample, &what)
        }
        Condition::Clock => clock(limits, readings),
    }
}

fn oldest(limits: &Limits, readings: &Readings) -> Reading {
    let (text, value) = match &readings.oldest {
        Some((handler, age)) => {
            let age = Duration::from_secs(age.as_secs());
            (format!("the oldest delivery of {handler} has been due for {}", show_duration(age)), age.as_secs_f64())
        }
        None => ("nothing waits".to_owned(), 0.0),
    };
    Reading::of(value, limits.oldest_waiting.as_secs_f64(), text)
}

fn clock(limits: &Limits, readings: &Readings) -> Reading {
    let (text, value) = match &readings.clock {
        Some((whose, ahead)) => {
            let (seconds, word) =
                (ahead.unsigned_abs() as f64 / 1000.0, if *ahead < 0 { "behind" } else { "ahead of" });
            (format!("our clock is {seconds:.1} s {word} that of the {whose}"), seconds)
        }
        None => ("our clock has nothing to be held against".to_owned(), 0.0),
    };
    Reading::of(value, limits.clock.as_secs_f64(), text)
}

/// A share of too few says nothing.
fn share(part: u64, whole: u64, limit: usize, sample: usize, what: &str) -> Reading {
    let percent = if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    let text = format!("{part} of {whole} {what} ({percent:.0} %)");
    let reading = Reading::of(percent, limit as f64, text);
    Reading { is_wrong: reading.is_wrong && whole >= sample as u64, ..reading }
}

fn total(counts: &[(String, i64)]) -> f64 {
    counts.iter().map(|(_, count)| *count).sum::<i64>() as f64
}

/// `3 dead (ledger 2, crm 1)`: names of handlers and destinations, and nothing that a sender chose.
fn listed(counts: &[(String, i64)], what: &str) -> String {
    let named: Vec<String> = counts.iter().take(NAMED_MAX).map(|(name, count)| format!("{name} {count}")).collect();
    let rest = if counts.len() > NAMED_MAX { format!(", {} more", counts.len() - NAMED_MAX) } else { String::new() };
    let names = if named.is_empty() { String::new() } else { format!(" ({}{rest})", named.join(", ")) };
    format!("{} {what}{names}", total(counts))
}

#[cfg(test)]
mod tests;
