//! `[[alert]]`: who is told when a number is not what it should be, for those without Prometheus and Grafana.

use std::time::Duration;

use oncebox::gateway::outgoing::{AddressRange, Target};

use super::reader::{Item, Table};
use super::{DAY, HOUR, SECOND, name, suggest, web};

const COUNT_MAX: u32 = 1_000_000_000;
const MONTH: Duration = Duration::from_secs(30 * 86_400);

#[derive(Clone, Debug)]
pub(crate) struct AlertConfig {
    pub(crate) name: String,
    /// Where. Never shown, because whoever knows it can write there.
    pub(crate) url: Target,
    pub(crate) kind: AlertKind,
    pub(crate) limits: Limits,
    pub(crate) every: Duration,
    /// How soon to tell again while it lasts.
    pub(crate) repeat: Duration,
    pub(crate) timeout: Duration,
    /// Link-local addresses it may reach.
    pub(crate) allow: Vec<AddressRange>,
    /// Where people reach the dashboard, for the links in notices.
    pub(crate) dashboard: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AlertKind {
    /// A JSON object with every part by its name.
    Webhook,
    /// `{"text": …}`, as Slack and its likes want it.
    Slack,
}

/// What can be wrong, in the order of the manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Condition {
    /// Deliveries and messages that gave up.
    Dead,
    /// Something has been due for long.
    OldestWaiting,
    /// Requests that could not be verified.
    Rejections,
    /// Requests that were answered 503, or a database that does not answer.
    Unavailable,
    /// Events that came again.
    Duplicates,
    /// Events whose id came before with another body.
    Conflicts,
    /// First attempts that failed.
    FirstTryErrors,
    /// Events that wait for a person.
    Held,
    /// Handlers that a person stopped.
    Paused,
    /// Nothing is removed, because a clock is in doubt.
    Retention,
    /// Our clock is off.
    Clock,
}

/// How the limit of a condition is written.
enum Unit {
    /// So many.
    Count,
    /// So many of a hundred.
    Percent,
    /// So long, up to this.
    Time(Duration),
    /// Not at all: it is or it is not.
    Never,
}

/// Each condition with its word in the config, in notices and in the database, the page of the dashboard that shows it, and
/// the number from which on it is wrong unless the config says otherwise; times in seconds.
const CONDITIONS: [(Condition, &str, &str, Unit, u32); 11] = [
    (Condition::Dead, "dead", "/dead-letters", Unit::Count, 1),
    (Condition::OldestWaiting, "oldest_waiting", "/handlers", Unit::Time(MONTH), 300),
    (Condition::Rejections, "rejections", "/rejections", Unit::Count, 100),
    (Condition::Unavailable, "unavailable", "/", Unit::Count, 10),
    (Condition::Duplicates, "duplicates", "/", Unit::Percent, 50),
    (Condition::Conflicts, "conflicts", "/events?state=conflict", Unit::Count, 1),
    (Condition::FirstTryErrors, "first_try_errors", "/handlers", Unit::Percent, 20),
    (Condition::Held, "held", "/held", Unit::Count, 1),
    (Condition::Paused, "paused", "/handlers", Unit::Count, 1),
    (Condition::Retention, "retention", "/retention", Unit::Never, 1),
    (Condition::Clock, "clock", "/", Unit::Time(HOUR), 30),
];

/// From which number on something is wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limits {
    pub(crate) on: Vec<Condition>,
    /// By the place of a condition in the table; see [`Limits::of`].
    pub(crate) at: [f64; CONDITIONS.len()],
    /// What rejections, 503s, conflicts and shares are counted over.
    pub(crate) window: Duration,
    /// A share of fewer than so many says nothing.
    pub(crate) sample: u64,
}

impl Condition {
    /// The word in the config, in notices and in the database.
    pub(crate) fn as_str(self) -> &'static str {
        CONDITIONS[self as usize].1
    }

    /// The page of the dashboard that shows it.
    pub(crate) fn page(self) -> &'static str {
        CONDITIONS[self as usize].2
    }
}

impl AlertConfig {
    /// Reads one entry; without a name it is called by its position, from 1.
    pub(crate) fn read(mut table: Table<'_>, position: usize) -> Option<Self> {
        let name = match table.peek("name") {
            Some(_) => name::other(&mut table).map(str::to_owned),
            None => Some(format!("alert-{position}")),
        };
        table.know(&["name"]);
        let url = table.required("url", "write url = { env = \"ALERT_URL\" }").and_then(|item| read_url(&item));
        let kinds = [("webhook", AlertKind::Webhook), ("slack", AlertKind::Slack)];
        let kind = table.word("kind", &kinds).unwrap_or(AlertKind::Webhook);
        let limits = Limits::read(&mut table);
        let every = table.duration("every", SECOND..=DAY).unwrap_or(15 * SECOND);
        let repeat = table.duration("repeat", SECOND..=MONTH).unwrap_or(4 * HOUR);
        let timeout = table.duration("timeout", SECOND..=60 * SECOND).unwrap_or(10 * SECOND);
        let allow = web::allow(&mut table);
        let dashboard = table.take("dashboard").and_then(|item| web::public_url(&item));
        table.finish();
        Some(Self { name: name?, url: url?, kind, limits, every, repeat, timeout, allow, dashboard })
    }
}

fn read_url(item: &Item<'_>) -> Option<Target> {
    let url = item.secret()?;
    let target = std::str::from_utf8(url.expose()).ok().and_then(|text| Target::parse(text).ok());
    match &target {
        Some(target) => web::warn_of_plain_text(item, target, "notices"),
        None => {
            item.problem("holds no URL that can be called", "put a URL such as https://hooks.example.com/… into it")
        }
    }
    target
}

impl Limits {
    fn read(table: &mut Table<'_>) -> Self {
        let mut limits = Self::default();
        if let Some(item) = table.take("on") {
            limits.on = read_on(&item);
        }
        for (condition, word, _, unit, _) in &CONDITIONS {
            let read = match unit {
                Unit::Count => table.count(word, 1..=COUNT_MAX).map(f64::from),
                Unit::Percent => table.count(word, 1..=100_u32).map(f64::from),
                Unit::Time(longest) => table.duration(word, SECOND..=*longest).map(|time| time.as_secs_f64()),
                Unit::Never => None,
            };
            limits.at[*condition as usize] = read.unwrap_or(limits.of(*condition));
        }
        limits.window = table.duration("window", SECOND..=DAY).unwrap_or(limits.window);
        limits.sample = table.count("sample", 1..=u64::from(COUNT_MAX)).unwrap_or(limits.sample);
        limits
    }

    /// From which number on a condition is wrong; a time in seconds.
    pub(crate) fn of(&self, condition: Condition) -> f64 {
        self.at[condition as usize]
    }
}

impl Default for Limits {
    fn default() -> Self {
        let on = CONDITIONS.iter().map(|one| one.0).collect();
        Self { on, at: CONDITIONS.map(|one| f64::from(one.4)), window: 600 * SECOND, sample: 20 }
    }
}

fn read_on(item: &Item<'_>) -> Vec<Condition> {
    let mut on = Vec::new();
    for item in item.filled_list("name what to tell, such as [\"dead\"], or remove it").unwrap_or_default() {
        let Some(text) = item.text() else { continue };
        match CONDITIONS.iter().find(|one| one.1 == text) {
            Some(found) => on.push(found.0),
            None => {
                let known = CONDITIONS.map(|one| one.1);
                item.problem(format!("{text:?} is nothing that is told"), suggest::cure(text, &known));
            }
        }
    }
    on
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::outside::{Outside, Overrides};

    const URL: &str = "https://chat.example.com/canary-url";

    /// The problems of one alert, or its only entry.
    fn read(lines: &str) -> Result<AlertConfig, String> {
        let text = format!("[[alert]]\nurl = {{ env = \"ALERT_URL\" }}\n{lines}\n");
        let env = |name: &str| (name == "ALERT_URL").then(|| URL.to_owned());
        let no_file = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
        let outside = Outside { env: &env, file: &no_file, overrides: &Overrides::default() };
        let config = Config::parse(&text, "oncebox.toml", &outside).map_err(|problems| problems.to_string())?;
        config.alerts.into_iter().next().ok_or_else(|| "no alert".to_owned())
    }

    fn check_refused(lines: &str, expected: &str) {
        let shown = read(lines).map(|_| String::new()).unwrap_or_else(|problems| problems);
        assert!(shown.contains(expected), "{lines}: {shown}");
        assert!(!shown.contains("canary"), "{shown}");
    }

    #[test]
    fn an_alert_needs_no_more_than_a_url() {
        let alert = read("").expect("an alert");
        assert_eq!((alert.name.as_str(), alert.kind, alert.limits), ("alert-1", AlertKind::Webhook, Limits::default()));
        assert_eq!(alert.url.uri(), URL);
        let some =
            read("name = 'ops'\nkind = 'slack'\non = ['held', 'dead']\ndead = 3\nclock = '1s'").expect("an alert");
        assert_eq!((some.name.as_str(), some.kind), ("ops", AlertKind::Slack));
        assert_eq!(some.limits.on, [Condition::Held, Condition::Dead]);
        assert_eq!((some.limits.of(Condition::Dead), some.limits.of(Condition::Clock)), (3.0, 1.0));
        assert!(!format!("{some:?}").contains("canary"), "{some:?}");
    }

    #[test]
    fn every_condition_stands_at_its_place_in_the_table() {
        assert!(CONDITIONS.iter().enumerate().all(|(place, one)| one.0 as usize == place));
    }

    #[test]
    fn mistakes_are_named_and_the_url_never_shows() {
        check_refused("on = ['ded']", "alert[0].on[0]: \"ded\" is nothing that is told; did you mean dead?");
        check_refused("on = []", "alert[0].on: is empty");
        check_refused("duplicates = 101", "alert[0].duplicates: is out of range");
        check_refused("kind = 'pager'", "alert[0].kind: \"pager\" is not a word for it");
        check_refused("odd = 1", "alert[0].odd: unknown key");
        check_refused("[[alert]]\nurl = { value = 'canary' }", "alert[1].url: holds no URL that can be called");
        check_refused("[[alert]]\nname = 'a'", "alert.a: url is missing");
    }

    #[test]
    #[cfg(not(feature = "otel"))]
    fn traces_need_a_program_that_was_built_with_them() {
        check_refused(
            "[telemetry]\notlp = 'http://127.0.0.1:4318'",
            "telemetry.otlp: this oncebox was built without traces",
        );
    }
}
