//! `[retention]`: how long identities and payloads are remembered.
//!
//! The ledger must outlive the sender's own retries, or a late retry counts as new; a payload never outlives its ledger.

use std::time::Duration;

use oncebox::gateway::retention::{Schedule, Window};

use super::reader::{Scope, Table};
use super::units::show_duration;
use super::{DAY, SECOND};

const YEARS_10: Duration = Duration::from_secs(3650 * 86_400);

#[derive(Clone, Debug)]
pub(crate) struct RetentionConfig {
    /// How long identities, and raw bytes with headers, are kept.
    pub(crate) window: Window,
    /// Accept a memory shorter than the senders' retries.
    pub(crate) force: bool,
    /// Whether a person chose the ledger's window; our own default may be raised for a patient sender.
    pub(crate) chosen: bool,
    pub(crate) schedule: Schedule,
}

impl RetentionConfig {
    pub(crate) fn read(mut table: Table<'_>) -> Self {
        let ledger = table.duration("ledger", SECOND..=YEARS_10);
        let chosen = ledger.is_some();
        let ledger = ledger.unwrap_or(30 * DAY);
        let payload = read_payload(&mut table, 14 * DAY, ledger);
        let force = table.flag("force").unwrap_or(false);
        let schedule = read_schedule(&mut table);
        if force {
            table.scope.report.warn("retention.force is set: a late retry may count as a new event");
        }
        table.finish();
        Self { window: Window { ledger, payload }, force, chosen, schedule }
    }

    /// Reads a source's own windows, laid over these; `retry_window` is how long its sender keeps trying.
    pub(crate) fn for_source(
        &self,
        mut table: Table<'_>,
        source: &Scope<'_>,
        retry_window: Option<Duration>,
    ) -> Window {
        let own = table.duration("ledger", SECOND..=YEARS_10);
        let needed = retry_window.map_or(Duration::ZERO, |window| window.saturating_mul(2));
        let general = self.window.ledger;
        let ledger = own.unwrap_or(if self.chosen { general } else { general.max(needed) });
        if ledger < needed && !self.force {
            let scope = if own.is_some() { &table.scope } else { source };
            let (kept, tried) = (show_duration(ledger), show_duration(needed / 2));
            scope.problem(
                format!("the ledger forgets after {kept}, the sender may retry for {tried}"),
                format!("keep it for \"{}\", or set force = true in [retention]", show_duration(needed)),
            );
        }
        let payload = read_payload(&mut table, self.window.payload, ledger);
        table.finish();
        Window { ledger, payload }
    }
}

/// `at` is an hour of the day in UTC, `every` a pause in place of it.
fn read_schedule(table: &mut Table<'_>) -> Schedule {
    let default = Schedule::default();
    let at = table.take("at").and_then(|item| item.parsed(time_of_day, "a time of day in UTC such as \"03:00\""));
    Schedule { at: at.unwrap_or(default.at), every: table.duration("every", SECOND..=DAY) }
}

fn time_of_day(text: &str) -> Option<Duration> {
    let (hour, minute) = text.split_once(':').filter(|(hour, minute)| hour.len() == 2 && minute.len() == 2)?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?;
    let (hour, minute) = (digits(hour).filter(|hour| *hour < 24)?, digits(minute).filter(|minute| *minute < 60)?);
    Some(Duration::from_secs((hour * 60 + minute) * 60))
}

/// Our own default gives way to a short ledger; what a person wrote is refused.
fn read_payload(table: &mut Table<'_>, default: Duration, ledger: Duration) -> Duration {
    let item = table.peek("payload");
    let payload = table.duration("payload", SECOND..=YEARS_10);
    if let (Some(payload), Some(item)) = (payload, item)
        && payload > ledger
    {
        item.problem("is longer than ledger", format!("write at most \"{}\"", show_duration(ledger)));
    }
    payload.unwrap_or(default.min(ledger))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::outside::{Outside, Overrides};
    use crate::config::problem::Report;

    /// What a sender that retries for `window_days` makes of these windows: days of ledger and payload, or the problem.
    fn check(general: &str, own: &str, window_days: Option<u32>, expected: Result<(u64, u64), &str>) {
        let (overrides, report) = (Overrides::default(), Report::new("f", ""));
        let outside =
            Outside { env: &|_| None, file: &|_| Err(std::io::ErrorKind::NotFound.into()), overrides: &overrides };
        let scope = Scope { report: &report, outside: &outside, path: "r".to_owned(), at: 0 };
        let (general, own) = (toml::de::DeTable::parse(general), toml::de::DeTable::parse(own));
        let (general, own) = (general.expect("TOML").into_inner(), own.expect("TOML").into_inner());
        let general = RetentionConfig::read(Table::new(scope.clone(), &general));
        let kept = general.for_source(Table::new(scope.clone(), &own), &scope, window_days.map(|days| days * DAY));
        let days = |duration: Duration| duration.as_secs() / 86_400;
        match (report.finish(), expected) {
            (Ok(_), Ok(expected)) => assert_eq!((days(kept.ledger), days(kept.payload)), expected),
            (Err(problems), Err(expected)) => assert!(problems.to_string().contains(expected), "{problems}"),
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn times_of_day() {
        for (text, minutes) in
            [("03:00", Some(180)), ("23:59", Some(1439)), ("24:00", None), ("3:00", None), ("03:60", None), ("", None)]
        {
            assert_eq!(time_of_day(text), minutes.map(|minutes| Duration::from_secs(minutes * 60)), "{text}");
        }
    }

    #[test]
    fn windows() {
        check("", "", None, Ok((30, 14)));
        check("", "", Some(3), Ok((30, 14)));
        check("", "", Some(30), Ok((60, 14)));
        check(
            "ledger = '30d'",
            "",
            Some(30),
            Err("the ledger forgets after 30d, the sender may retry for 30d; keep it for \"60d\""),
        );
        check("", "ledger = '5d'", Some(3), Err("the ledger forgets after 5d, the sender may retry for 3d"));
        check("ledger = '1d'\nforce = true", "", Some(3), Ok((1, 1)));
        check("ledger = '7d'", "", None, Ok((7, 7)));
        check("payload = '31d'", "", None, Err("r.payload: is longer than ledger; write at most \"30d\""));
        check("ledger = '7d'", "payload = '8d'", None, Err("r.payload: is longer than ledger"));
        check("", "ledger = '90d'\npayload = '3d'", None, Ok((90, 3)));
    }
}
