//! `/`: the three numbers people watch, what needs a person, and how the last hour went.

use askama::Template;
use oncebox::gateway::clock::UnixMillis;

use super::handlers::HandlerRow;
use super::render::chart::{self, Drawing, Labels, Series};
use super::render::format::{counted, grown, least, percent, span};
use super::render::{Shown, Visit, When, page};
use crate::admin::Admin;
use crate::query::overview;
use crate::query::view::{MinuteView, OverviewView, RateView, SourceView, millis};

const HOUR_MS: UnixMillis = 60 * 60 * 1000;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    visit: Visit,
    numbers: [Number; 3],
    concerns: Vec<Concern>,
    arrivals: Drawing,
    latency: Drawing,
    arrivals_count: u64,
    since: When,
    handlers: Vec<HandlerRow>,
    sources: Vec<SourceView>,
    quiet_sources: usize,
    counted_since: Option<When>,
    /// What to type where nothing has arrived.
    sample: Option<String>,
}

/// One of the three numbers, beside what it usually is.
struct Number {
    id: &'static str,
    name: &'static str,
    figure: String,
    of: String,
    baseline: String,
    /// Far above its baseline.
    raised: bool,
}

struct Concern {
    tone: &'static str,
    text: String,
    href: &'static str,
    leads: &'static str,
}

pub(super) async fn show(admin: Admin, visit: Visit) -> Shown {
    let view = overview::overview(&admin.context()).await?;
    let (active, quiet): (Vec<SourceView>, Vec<SourceView>) =
        view.sources.iter().cloned().partition(|source| source.arrivals > 0 || source.last_hour.rejected > 0);
    page(&OverviewPage {
        numbers: numbers(&view, visit.now),
        concerns: concerns(&view),
        arrivals: arrivals(&view.minutes),
        latency: latency(&view.minutes),
        arrivals_count: view.minutes.iter().map(total).sum(),
        since: When::read(&view.minutes_since, visit.now),
        handlers: view.handlers.iter().map(|one| HandlerRow::new(one, visit.now)).collect(),
        sources: active,
        quiet_sources: quiet.len(),
        counted_since: When::maybe(view.counted_since.as_deref(), visit.now),
        sample: admin.context().sample(),
        visit,
    })
}

fn numbers(view: &OverviewView, now: UnixMillis) -> [Number; 3] {
    let numbers = &view.numbers;
    let rate = |id, name, rate: &RateView, (thing, when): (_, &str)| Number {
        id,
        name,
        figure: rate.value.map_or_else(|| "–".to_owned(), percent),
        of: format!("of {} {when}", counted(rate.of, thing)),
        baseline: match rate.baseline {
            Some(before) => format!("before that {} of {}", percent(before), counted(rate.baseline_of, thing)),
            None => "nothing to compare with before that".to_owned(),
        },
        raised: is_raised(rate),
    };
    let here = arrived(&view.minutes_since, now);
    let tried = ("first attempt", "in the last hour");
    [
        rate("first-try-error-rate", "First-try error rate", &numbers.first_try_error_rate, tried),
        rate("duplicate-rate", "Duplicate rate", &numbers.duplicate_rate, ("arrival", &here)),
        Number {
            id: "ledger-rows",
            name: "Ledger rows",
            figure: least(numbers.ledger_rows, numbers.ledger_rows_is_least),
            of: "identities remembered".to_owned(),
            baseline: format!(
                "{} within a day",
                grown(numbers.ledger_rows_daily_change, numbers.ledger_rows_daily_change_is_least)
            ),
            raised: false,
        },
    ]
}

/// Which arrivals were counted: those of this node, for as long as it counts.
fn arrived(since: &str, now: UnixMillis) -> String {
    let age = now.saturating_sub(millis(since).unwrap_or_default());
    if age >= HOUR_MS {
        return "in the last hour, on this node".to_owned();
    }
    format!("in the last hour, on this node, which began to count {} ago", span(age))
}

/// Twice what it was, and more than a trace.
fn is_raised(rate: &RateView) -> bool {
    match (rate.value, rate.baseline) {
        (Some(now), Some(before)) => rate.of >= 20 && now > 0.02 && now > before * 2.0,
        _ => false,
    }
}

fn concerns(view: &OverviewView) -> Vec<Concern> {
    let mut concerns = Vec::new();
    let mut add = |tone, text, href, leads| concerns.push(Concern { tone, text, href, leads });
    if let Some(danger) = &view.unsafe_because {
        add("bad", format!("The database is unsafe: {danger}. Acknowledged events may be lost."), "", "");
    }
    if let Some(risk) = &view.failover_risk {
        add("warn", format!("On this database {risk}."), "", "");
    }
    for source in &view.unverified_sources {
        add("bad", format!("Nobody verifies who sends to {source}."), "/sources", "sources");
    }
    let dead = view.handlers.iter().map(|one| one.dead).chain(view.destinations.iter().map(|one| one.dead));
    let (dead, more) = dead.fold((0, false), |(sum, more), one| (sum + one.count, more || one.more));
    if dead > 0 {
        let or_more = if more { " or more" } else { "" };
        add("bad", format!("{}{or_more} gave up.", counted(dead, "dead letter")), "/dead-letters", "look at them");
    }
    if view.held.count > 0 {
        add("warn", format!("{} held, waiting for a person.", view.held.shown()), "/held", "decide");
    }
    let conflicts = view.sources.iter().map(|one| one.conflicts).sum();
    if conflicts > 0 {
        let text = format!("{} came under a known id with another body.", counted(conflicts, "event"));
        add("warn", text, "/events?state=conflict", "look at them");
    }
    let rejected: u64 = view.minutes.iter().map(|minute| minute.results.rejected).sum();
    if rejected > 0 {
        let rejected = counted(i64::try_from(rejected).unwrap_or(i64::MAX), "request");
        add("warn", format!("{rejected} refused in the last hour."), "/rejections", "see why");
    }
    for one in view.handlers.iter().filter(|one| one.paused) {
        add("warn", format!("{} is paused: its events wait.", one.handler), "/handlers", "handlers");
    }
    concerns
}

fn total(minute: &MinuteView) -> u64 {
    let results = minute.results;
    results.accepted + results.duplicate + results.conflict + results.held + results.rejected + results.unavailable
}

fn arrivals(minutes: &[MinuteView]) -> Drawing {
    let series = |name, value: fn(&MinuteView) -> u64| Series {
        name,
        values: minutes.iter().map(|minute| value(minute) as f64).collect(),
    };
    let series = [
        series("accepted", |minute| minute.results.accepted),
        series("duplicate", |minute| minute.results.duplicate),
        series("held", |minute| minute.results.held),
        series("conflict", |minute| minute.results.conflict),
        series("rejected", |minute| minute.results.rejected),
        series("unavailable", |minute| minute.results.unavailable),
    ];
    let labels = Labels { title: "Arrivals a minute by result", ends: ("an hour ago", "now"), unit: "" };
    chart::columns(&series, labels)
}

fn latency(minutes: &[MinuteView]) -> Drawing {
    let series = |name, value: fn(&MinuteView) -> Option<f64>| Series {
        name,
        values: minutes.iter().map(|minute| value(minute).unwrap_or(f64::NAN)).collect(),
    };
    let series = [
        series("p50", |minute| minute.p50_ms),
        series("p95", |minute| minute.p95_ms),
        series("p99", |minute| minute.p99_ms),
    ];
    let labels = Labels { title: "Time until the answer", ends: ("an hour ago", "now"), unit: " ms" };
    chart::lines(&series, labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_just_started_says_so() {
        let now = 1_700_000_000_000;
        let since = |age: i64| arrived(&crate::query::view::time(now - age), now);
        assert_eq!(since(HOUR_MS), "in the last hour, on this node");
        assert_eq!(since(125_000), "in the last hour, on this node, which began to count 2 min 5 s ago");
    }

    #[test]
    fn a_rate_is_raised_when_it_doubled_and_is_more_than_a_trace() {
        let check = |now: (i64, i64), before: (i64, i64), expected: bool| {
            assert_eq!(is_raised(&RateView::new(now, before)), expected, "{now:?} {before:?}");
        };
        check((50, 100), (10, 100), true);
        check((15, 100), (10, 100), false);
        check((1, 100), (0, 100), false);
        check((5, 10), (0, 100), false);
        check((50, 100), (0, 0), false);
        check((0, 0), (1, 10), false);
    }
}
