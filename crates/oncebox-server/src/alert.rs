//! Alerts: numbers are held against limits, and whoever wants to know is told when something begins, lasts and is over.
//!
//! What is wrong and what is told about it is decided here, purely. `watch` reads the numbers and sends; `counts` holds
//! what processes counted; `notice` is the form of what is sent.

pub(crate) mod counts;
pub(crate) mod notice;
pub(crate) mod receiver;
pub(crate) mod watch;

use std::time::Duration;

use oncebox::gateway::clock::UnixMillis;
use oncebox::gateway::store::Told;

use crate::config::alert::{Condition, Limits};
use crate::config::units::show_duration;
use crate::terminal::counted;
use counts::Counts;

/// Names that are listed in a sentence; the rest is a number.
const NAMED_MAX: usize = 5;
/// A condition is over once its number fell to this part of the limit: one that stays about the limit is told once.
const EASED: f64 = 0.8;
/// A number that grew by so much since it was told is told again.
const GROWN: f64 = 2.0;
/// A database that does not answer for so long is told, whether or not anybody was refused for it.
const AWAY_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readings {
    /// Dead letters by handler or destination.
    pub(crate) dead: Vec<(String, i64)>,
    /// Held deliveries by handler.
    pub(crate) held: Vec<(String, i64)>,
    /// The handler whose oldest delivery has been due longest, and for how long.
    pub(crate) oldest: Option<(String, Duration)>,
    pub(crate) lately: Counts,
    /// Whose clock ours is farthest from, and by how many milliseconds we are ahead.
    pub(crate) clock: Option<(String, i64)>,
    pub(crate) paused: Vec<(String, i64)>,
    /// Why retention removes nothing, where a clock is in doubt.
    pub(crate) retention: Option<String>,
    /// For how long the database has not answered, where it does not.
    pub(crate) away: Option<Duration>,
    /// True where the looks go back as far as the window: only then does nothing mean that there was nothing.
    pub(crate) is_whole: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Notice {
    pub(crate) condition: Condition,
    pub(crate) phase: Phase,
    pub(crate) since: UnixMillis,
    pub(crate) value: f64,
    /// From which number on it is wrong.
    pub(crate) limit: f64,
    pub(crate) text: String,
}

/// Where in its life a condition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Began,
    /// It lasts, and it is time to say so again.
    Lasts,
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
        let is_due = |before: &Told| now.saturating_sub(before.told_at) >= repeat || reading.has_grown(before);
        let (phase, since) = match (reading.says, before) {
            (Says::Wrong, None) => (Phase::Began, now),
            (Says::Wrong, Some(before)) if is_due(before) => (Phase::Lasts, before.since),
            (Says::Over, Some(before)) => (Phase::Over, before.since),
            _ => return None,
        };
        let Reading { value, limit, text, .. } = reading;
        Some(Notice { condition: *condition, phase, since, value, limit, text })
    };
    limits.on.iter().filter_map(notice).collect()
}

/// What a number says about its condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Wrong,
    /// Nothing: it is neither wrong nor over, or there is too little to judge by.
    Nothing,
    /// It is over, if it was.
    Over,
}

struct Reading {
    value: f64,
    limit: f64,
    says: Says,
    /// True for a number of things, which may go on growing.
    is_count: bool,
    text: String,
}

impl Reading {
    fn of(value: f64, limit: f64, text: String) -> Self {
        let says = match value {
            _ if value >= limit => Says::Wrong,
            _ if value < limit * EASED => Says::Over,
            _ => Says::Nothing,
        };
        Self { value, limit, says, is_count: false, text }
    }

    fn count(value: f64, limit: f64, text: String) -> Self {
        Self { is_count: true, ..Self::of(value, limit, text) }
    }

    /// For what is counted within the window: before the looks go back so far, it is not over.
    fn within(self, readings: &Readings) -> Self {
        let is_early = self.says == Says::Over && !readings.is_whole;
        Self { says: if is_early { Says::Nothing } else { self.says }, ..self }
    }

    fn has_grown(&self, before: &Told) -> bool {
        let told = before.value.map_or(f64::INFINITY, |value| value as f64);
        self.is_count && self.value >= told.max(1.0) * GROWN
    }
}

fn read(condition: Condition, limits: &Limits, readings: &Readings) -> Reading {
    let (lately, window) = (&readings.lately, show_duration(limits.window));
    let limit = limits.of(condition);
    match condition {
        Condition::Dead => {
            let text = format!("{}; `oncebox dead-letters` lists them", listed(&readings.dead, "dead"));
            Reading::count(total(&readings.dead), limit, text)
        }
        Condition::Held => {
            // One event is held once for each of its handlers.
            let what = if total(&readings.held) == 1.0 { "delivery held" } else { "deliveries held" };
            let text = format!("{}; `oncebox held` says why", listed(&readings.held, what));
            Reading::count(total(&readings.held), limit, text)
        }
        Condition::OldestWaiting => oldest(limits, readings),
        Condition::Rejections => {
            let text = format!("{} could not be verified within {window}", counted(lately.rejected, "request"));
            Reading::count(lately.rejected as f64, limit, text).within(readings)
        }
        Condition::Unavailable => unavailable(limits, readings),
        Condition::Duplicates => {
            let what = format!("events within {window} had come before");
            share((lately.duplicates, lately.arrived), limits, condition, &what).within(readings)
        }
        Condition::Conflicts => {
            let kept =
                if lately.conflicts == 1 { "it is kept and does not run" } else { "they are kept and do not run" };
            let text = format!(
                "{} within {window} came under a known id with another body; {kept}: `oncebox events --state conflict`",
                counted(lately.conflicts, "event")
            );
            Reading::count(lately.conflicts as f64, limit, text).within(readings)
        }
        Condition::FirstTryErrors => {
            let what = format!("first attempts within {window} failed");
            share((lately.failed, lately.tried), limits, condition, &what).within(readings)
        }
        Condition::Paused => {
            let names: Vec<&str> = readings.paused.iter().take(NAMED_MAX).map(|(name, _)| name.as_str()).collect();
            let paused = counted(readings.paused.len() as u64, "handler");
            let text = format!("{paused} paused ({}); their events wait for `oncebox resume`", names.join(", "));
            Reading::count(total(&readings.paused), limit, text)
        }
        Condition::Retention => {
            let why = readings.retention.as_deref();
            let text = match why {
                Some(why) => {
                    format!("nothing is removed any more: {why}; if the time is right: `oncebox retention confirm`")
                }
                None => "what is over is removed".to_owned(),
            };
            Reading::of(f64::from(u8::from(why.is_some())), limit, text)
        }
        Condition::Clock => clock(limits, readings),
    }
}

/// Requests that were answered 503, and a database that does not answer.
fn unavailable(limits: &Limits, readings: &Readings) -> Reading {
    let count = readings.lately.unavailable;
    let verb = if count == 1 { "was" } else { "were" };
    let refused = format!("{} within {} {verb} answered 503", counted(count, "request"), show_duration(limits.window));
    let Some(away) = readings.away else {
        return Reading::count(count as f64, limits.of(Condition::Unavailable), refused).within(readings);
    };
    let text = format!("the database has not answered for {}; {refused}", show_duration(whole_seconds(away)));
    let reading = Reading::count(count as f64, limits.of(Condition::Unavailable), text);
    let says = if away >= AWAY_MAX { Says::Wrong } else { reading.says };
    Reading { says: if says == Says::Over { Says::Nothing } else { says }, ..reading }
}

fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}

fn oldest(limits: &Limits, readings: &Readings) -> Reading {
    let (text, value) = match &readings.oldest {
        Some((handler, age)) => {
            let age = whole_seconds(*age);
            (format!("the oldest delivery of {handler} has been due for {}", show_duration(age)), age.as_secs_f64())
        }
        None => ("nothing waits".to_owned(), 0.0),
    };
    Reading::of(value, limits.of(Condition::OldestWaiting), text)
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
    Reading::of(value, limits.of(Condition::Clock), text)
}

/// A share of too few says nothing: neither that it is wrong, nor that it is over.
fn share((part, whole): (u64, u64), limits: &Limits, condition: Condition, what: &str) -> Reading {
    let percent = if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    let reading = Reading::of(percent, limits.of(condition), format!("{part} of {whole} {what} ({percent:.0} %)"));
    Reading { says: if whole < limits.sample { Says::Nothing } else { reading.says }, ..reading }
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
