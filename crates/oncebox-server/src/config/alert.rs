//! `[[alert]]`: who is told when a number is not what it should be, for those without Prometheus and Grafana.

use std::time::Duration;

use oncebox::gateway::outgoing::Target;
use oncebox_verify::Secret;

use super::name;
use super::reader::Table;
use super::suggest;
use super::web::{self, AddressRange};

const COUNT_MAX: usize = 1_000_000_000;
const DAY: Duration = Duration::from_secs(86_400);
const MONTH: Duration = Duration::from_secs(30 * 86_400);
const SECOND: Duration = Duration::from_secs(1);

/// Who is told what.
#[derive(Clone, Debug)]
pub(crate) struct AlertConfig {
    /// Its name.
    pub(crate) name: String,
    /// Where; a secret, because whoever knows it can write there.
    pub(crate) url: Secret,
    /// The form of what is sent.
    pub(crate) kind: AlertKind,
    /// What it is about.
    pub(crate) limits: Limits,
    /// How often the numbers are looked at.
    pub(crate) every: Duration,
    /// How soon to tell again while it lasts.
    pub(crate) repeat: Duration,
    /// How long one call may take.
    pub(crate) timeout: Duration,
    /// Link-local addresses it may reach.
    pub(crate) allow: Vec<AddressRange>,
    /// Where people reach the dashboard, for the links in notices.
    pub(crate) dashboard: Option<String>,
}

/// The form of what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AlertKind {
    /// A JSON object with every part by its name.
    Webhook,
    /// `{"text": …}`, as Slack and its likes want it.
    Slack,
}

/// What can be wrong.
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

/// From which number on something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// What to look at.
    pub(crate) on: Vec<Condition>,
    /// So many dead letters.
    pub(crate) dead: usize,
    /// Due for so long.
    pub(crate) oldest_waiting: Duration,
    /// So many rejections within the window.
    pub(crate) rejections: usize,
    /// So many requests answered 503 within the window.
    pub(crate) unavailable: usize,
    /// So many of a hundred events within the window.
    pub(crate) duplicates: usize,
    /// So many conflicts within the window.
    pub(crate) conflicts: usize,
    /// So many of a hundred first attempts within the window.
    pub(crate) first_try_errors: usize,
    /// So many held.
    pub(crate) held: usize,
    /// So many paused handlers.
    pub(crate) paused: usize,
    /// So far off.
    pub(crate) clock: Duration,
    /// What rejections, 503s, conflicts and shares are counted over.
    pub(crate) window: Duration,
    /// A share of fewer than so many says nothing.
    pub(crate) sample: usize,
}

impl Condition {
    /// All of them, in the order of the manual.
    pub(crate) const ALL: [Self; 11] = [
        Self::Dead,
        Self::OldestWaiting,
        Self::Rejections,
        Self::Unavailable,
        Self::Duplicates,
        Self::Conflicts,
        Self::FirstTryErrors,
        Self::Held,
        Self::Paused,
        Self::Retention,
        Self::Clock,
    ];

    /// The word in the config, in notices and in the database.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::OldestWaiting => "oldest_waiting",
            Self::Rejections => "rejections",
            Self::Unavailable => "unavailable",
            Self::Duplicates => "duplicates",
            Self::Conflicts => "conflicts",
            Self::FirstTryErrors => "first_try_errors",
            Self::Held => "held",
            Self::Paused => "paused",
            Self::Retention => "retention",
            Self::Clock => "clock",
        }
    }

    /// The page of the dashboard that shows it.
    pub(crate) fn page(self) -> &'static str {
        match self {
            Self::Dead => "/dead-letters",
            Self::Rejections => "/rejections",
            Self::Conflicts => "/events?state=conflict",
            Self::Held => "/held",
            Self::OldestWaiting | Self::FirstTryErrors | Self::Paused => "/handlers",
            Self::Retention => "/retention",
            Self::Unavailable | Self::Duplicates | Self::Clock => "/",
        }
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
        let url = table.required("url", "write url = { env = \"ALERT_URL\" }").and_then(|item| {
            let url = item.secret()?;
            let is_target = std::str::from_utf8(url.expose()).is_ok_and(|text| Target::parse(text).is_ok());
            if !is_target {
                item.problem(
                    "holds no URL that can be called",
                    "put a URL such as https://hooks.example.com/… into it",
                );
            }
            if let Ok(url) = std::str::from_utf8(url.expose()).unwrap_or_default().parse() {
                web::warn_of_plain_text(&item, &url, "notices");
            }
            is_target.then_some(url)
        });
        let kinds = [("webhook", AlertKind::Webhook), ("slack", AlertKind::Slack)];
        let kind = table.word("kind", &kinds).unwrap_or(AlertKind::Webhook);
        let limits = Limits::read(&mut table);
        let alert = Self {
            name: name.clone().unwrap_or_default(),
            url: url.clone().unwrap_or_else(|| Secret::new("")),
            kind,
            limits,
            every: table.duration("every", SECOND..=DAY).unwrap_or(Duration::from_secs(15)),
            repeat: table.duration("repeat", SECOND..=MONTH).unwrap_or(Duration::from_secs(4 * 3600)),
            timeout: table.duration("timeout", SECOND..=Duration::from_secs(60)).unwrap_or(Duration::from_secs(10)),
            allow: web::allow(&mut table),
            dashboard: table.take("dashboard").and_then(|item| web::public_url(&item)),
        };
        table.finish();
        name.and(url).map(|_| alert)
    }
}

impl Limits {
    fn read(table: &mut Table<'_>) -> Self {
        let usual = Self::default();
        let hour = Duration::from_secs(3600);
        Self {
            on: read_on(table),
            dead: table.count("dead", 1..=COUNT_MAX).unwrap_or(usual.dead),
            oldest_waiting: table.duration("oldest_waiting", SECOND..=MONTH).unwrap_or(usual.oldest_waiting),
            rejections: table.count("rejections", 1..=COUNT_MAX).unwrap_or(usual.rejections),
            unavailable: table.count("unavailable", 1..=COUNT_MAX).unwrap_or(usual.unavailable),
            duplicates: table.count("duplicates", 1..=100).unwrap_or(usual.duplicates),
            conflicts: table.count("conflicts", 1..=COUNT_MAX).unwrap_or(usual.conflicts),
            first_try_errors: table.count("first_try_errors", 1..=100).unwrap_or(usual.first_try_errors),
            held: table.count("held", 1..=COUNT_MAX).unwrap_or(usual.held),
            paused: table.count("paused", 1..=COUNT_MAX).unwrap_or(usual.paused),
            clock: table.duration("clock", SECOND..=hour).unwrap_or(usual.clock),
            window: table.duration("window", SECOND..=DAY).unwrap_or(usual.window),
            sample: table.count("sample", 1..=COUNT_MAX).unwrap_or(usual.sample),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let minutes = |count: u64| Duration::from_secs(count * 60);
        Self {
            on: Condition::ALL.to_vec(),
            dead: 1,
            oldest_waiting: minutes(5),
            rejections: 100,
            unavailable: 10,
            duplicates: 50,
            conflicts: 1,
            first_try_errors: 20,
            held: 1,
            paused: 1,
            clock: Duration::from_secs(30),
            window: minutes(10),
            sample: 20,
        }
    }
}

/// Everything unless it is said otherwise.
fn read_on(table: &mut Table<'_>) -> Vec<Condition> {
    let Some(item) = table.take("on") else { return Condition::ALL.to_vec() };
    let mut on = Vec::new();
    for item in item.filled_list("name what to tell, such as [\"dead\"], or remove it").unwrap_or_default() {
        let Some(text) = item.text() else { continue };
        match Condition::ALL.iter().find(|condition| condition.as_str() == text) {
            Some(condition) => on.push(*condition),
            None => {
                let known = Condition::ALL.map(Condition::as_str);
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
        assert_eq!(alert.url.expose(), URL.as_bytes());
        let some =
            read("name = 'ops'\nkind = 'slack'\non = ['held', 'dead']\ndead = 3\nclock = '1s'").expect("an alert");
        assert_eq!((some.name.as_str(), some.kind), ("ops", AlertKind::Slack));
        assert_eq!(some.limits.on, [Condition::Held, Condition::Dead]);
        assert_eq!((some.limits.dead, some.limits.clock), (3, SECOND));
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
